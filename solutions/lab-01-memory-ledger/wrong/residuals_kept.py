"""The two sums with the residual stream are counted. A sum's derivative is 1 whatever its inputs were, so autograd
keeps nothing of it."""

EXERCISE = "activation_bytes"
FAILS = (
    "activation_bytes/fused",
    "activation_bytes/explicit",
)
READ = "handbook/forward-pass.md#what-other-layers-keep"


def activation_bytes(batch_size, seq_len, hidden_dim, n_head, number, fused):
    tokens, C = batch_size * seq_len, hidden_dim
    norms = 2 * (C + 2) * number + 2 * C * number
    attention = 5 * C * number
    scores = 4 * n_head if fused else n_head * seq_len * number
    mlp = 9 * C * number
    return tokens * (norms + attention + scores + mlp)
