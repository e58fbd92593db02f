"""Every matrix is given a bias. GPT-2 had them; this GPT, like most models since, has none, and a count from a
paper's table may mean either."""

EXERCISE = "parameter_count"
FAILS = ("parameter_count/block",)
READ = "handbook/memory.md#seven-kinds-four-moments"


def parameter_count(vocab_size, block_size, n_layer, hidden_dim, tied):
    C = hidden_dim
    block = 12 * C * C + 9 * C + 2 * 2 * C
    return (vocab_size * (1 if tied else 2) + block_size) * C + n_layer * block + 2 * C
