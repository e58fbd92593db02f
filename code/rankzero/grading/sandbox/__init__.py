"""The sandbox in which submissions run."""
