"""Plans: one optimizer step on a cluster, computed from sizes or simulated."""
