"""The learned positions are missing: a second embedding, block_size rows of hidden_dim numbers. Models with rotary
positions have none, this one has."""

EXERCISE = "parameter_count"
FAILS = ("parameter_count/tied",)
READ = "handbook/memory.md#seven-kinds-four-moments"


def parameter_count(vocab_size, block_size, n_layer, hidden_dim, tied):
    C = hidden_dim
    block = 12 * C * C + 2 * C
    return vocab_size * C * (1 if tied else 2) + n_layer * block + C
