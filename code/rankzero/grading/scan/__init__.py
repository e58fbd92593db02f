"""Static scans of submitted code. A finding is a flag for a person and takes no points."""
