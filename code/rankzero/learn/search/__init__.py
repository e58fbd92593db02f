"""Search for the settings of a run: a study in a file, its trials as records, and its processes."""
