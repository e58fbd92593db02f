"""q, k and v are counted as one tensor. The product that makes them is three times as wide as its input, and
attention's backward reads all three."""

EXERCISE = "activation_bytes"
FAILS = (
    "activation_bytes/fused",
    "activation_bytes/explicit",
)
READ = "handbook/forward-pass.md#what-other-layers-keep"


def activation_bytes(batch_size, seq_len, hidden_dim, n_head, number, fused):
    tokens, C = batch_size * seq_len, hidden_dim
    norms = 2 * (C + 2) * number
    attention = 3 * C * number
    scores = 4 * n_head if fused else n_head * seq_len * number
    mlp = 9 * C * number
    return tokens * (norms + attention + scores + mlp)
