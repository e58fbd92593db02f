"""One training run: its options, folder, log, checkpoints and plots."""
