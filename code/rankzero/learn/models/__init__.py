"""The models that labs train."""
