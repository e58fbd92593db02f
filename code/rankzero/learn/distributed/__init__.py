"""Several ranks: starting them, synchronizing them, counting their communication."""
