"""Models, batches, gradients and counters that claims of several pages share."""
