"""Every head of queries is given keys and values of its own. With grouped-query attention several share one: count
n_kv_head."""

EXERCISE = "kv_cache_bytes"
FAILS = ("kv_cache_bytes/grouped",)
READ = "handbook/memory.md#kv-cache"


def kv_cache_bytes(n_layer, n_head, n_kv_head, hidden_dim, batch_size, tokens, number):
    return 2 * n_layer * hidden_dim * number * batch_size * tokens
