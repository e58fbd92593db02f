"""Without fusing, each head keeps its own square of probabilities: n_head times seq_len numbers a token, not
seq_len."""

EXERCISE = "activation_bytes"
FAILS = ("activation_bytes/explicit",)
READ = "handbook/forward-pass.md#attention-the-square-that-need-not-be-kept"


def activation_bytes(batch_size, seq_len, hidden_dim, n_head, number, fused):
    tokens, C = batch_size * seq_len, hidden_dim
    norms = 2 * (C + 2) * number
    attention = 5 * C * number
    scores = 4 * n_head if fused else seq_len * number
    mlp = 9 * C * number
    return tokens * (norms + attention + scores + mlp)
