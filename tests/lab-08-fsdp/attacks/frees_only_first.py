"""Frees and gathers by the rules in the first step; once part.grad exists it frees nothing and gathers three times."""

ON, EARNS = "reference", 58
KEPT = []
honest_sharded = sharded_forward


def sharded_forward(module, part, x, reshard):
    if part.grad is not None:
        for _ in range(2):
            KEPT.append(whole_weights(module, part))
        return honest_sharded(module, part, x, False)
    return honest_sharded(module, part, x, reshard)
