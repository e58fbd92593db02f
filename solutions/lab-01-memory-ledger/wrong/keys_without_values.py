"""Keys alone are counted. Attention reads a value for each key: twice the bytes."""

EXERCISE = "kv_cache_bytes"
FAILS = (
    "kv_cache_bytes/heads",
    "kv_cache_bytes/grouped",
)
READ = "handbook/memory.md#kv-cache"


def kv_cache_bytes(n_layer, n_head, n_kv_head, hidden_dim, batch_size, tokens, number):
    return n_layer * n_kv_head * (hidden_dim // n_head) * number * batch_size * tokens
