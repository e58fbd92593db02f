"""The MLP has two matrices of 4C times C, one that widens and one that narrows. Here only one is counted: a block
then has 8 C squared instead of 12."""

EXERCISE = "parameter_count"
FAILS = ("parameter_count/block",)
READ = "handbook/memory.md#seven-kinds-four-moments"


def parameter_count(vocab_size, block_size, n_layer, hidden_dim, tied):
    C = hidden_dim
    block = 3 * C * C + C * C + 4 * C * C + 2 * C
    return (vocab_size * (1 if tied else 2) + block_size) * C + n_layer * block + C
