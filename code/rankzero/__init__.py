"""The library of Rank Zero: everything that labs, learners and instructors share."""
