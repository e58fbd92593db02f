"""The cache of one sequence is counted. Sequences share no keys: each of the batch has its own."""

EXERCISE = "kv_cache_bytes"
FAILS = (
    "kv_cache_bytes/heads",
    "kv_cache_bytes/grouped",
)
READ = "handbook/memory.md#kv-cache"


def kv_cache_bytes(n_layer, n_head, n_kv_head, hidden_dim, batch_size, tokens, number):
    return 2 * n_layer * n_kv_head * (hidden_dim // n_head) * number * tokens
