"""A head is taken to be as wide as the model. It is hidden_dim / n_head wide; the heads share the width."""

EXERCISE = "kv_cache_bytes"
FAILS = (
    "kv_cache_bytes/heads",
    "kv_cache_bytes/grouped",
)
READ = "handbook/memory.md#kv-cache"


def kv_cache_bytes(n_layer, n_head, n_kv_head, hidden_dim, batch_size, tokens, number):
    return 2 * n_layer * n_kv_head * hidden_dim * number * batch_size * tokens
