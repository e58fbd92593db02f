"""Signs: comparisons of the observations with their expected values, one family per file."""
