"""What GELU reads is missing. Its slope differs at every input, so it keeps that input, four times as wide as the
stream; the product after it keeps GELU's output as well. Only a ReLU would get by with one of the two."""

EXERCISE = "activation_bytes"
FAILS = (
    "activation_bytes/fused",
    "activation_bytes/explicit",
)
READ = "handbook/forward-pass.md#what-other-layers-keep"


def activation_bytes(batch_size, seq_len, hidden_dim, n_head, number, fused):
    tokens, C = batch_size * seq_len, hidden_dim
    norms = 2 * (C + 2) * number
    attention = 5 * C * number
    scores = 4 * n_head if fused else n_head * seq_len * number
    mlp = 5 * C * number
    return tokens * (norms + attention + scores + mlp)
