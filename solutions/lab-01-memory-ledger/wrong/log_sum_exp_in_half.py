"""The log-sum-exp is kept in fp32 whatever the recipe: it is a sum over a whole row, and bf16 would lose most of
it. With numbers of 2 bytes it still takes 4."""

EXERCISE = "activation_bytes"
FAILS = ("activation_bytes/half",)
READ = "handbook/forward-pass.md#attention-the-square-that-need-not-be-kept"


def activation_bytes(batch_size, seq_len, hidden_dim, n_head, number, fused):
    tokens, C = batch_size * seq_len, hidden_dim
    norms = 2 * (C + 2) * number
    attention = 5 * C * number
    scores = number * n_head if fused else n_head * seq_len * number
    mlp = 9 * C * number
    return tokens * (norms + attention + scores + mlp)
