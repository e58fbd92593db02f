"""The square of attention's probabilities is counted although attention is fused. Fused attention makes it again
in backward, piece by piece, and keeps one number a token and head."""

EXERCISE = "activation_bytes"
FAILS = ("activation_bytes/fused",)
READ = "handbook/forward-pass.md#attention-the-square-that-need-not-be-kept"


def activation_bytes(batch_size, seq_len, hidden_dim, n_head, number, fused):
    tokens, C = batch_size * seq_len, hidden_dim
    norms = 2 * (C + 2) * number
    attention = 5 * C * number
    scores = n_head * seq_len * number
    mlp = 9 * C * number
    return tokens * (norms + attention + scores + mlp)
