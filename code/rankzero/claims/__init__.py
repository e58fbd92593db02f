"""Claims: every number in the text has a function that measures it again."""
