"""Data to train on: text, batches, images."""
