"""Lab 01: changes to the reference's code. Hurried ones, none of which may get all points, and harmless ones."""

HURRIED = {
    "norms have a bias": ("parameter_count", "C + 2 * C\n", "C + 4 * C\n"),
    "tied is taken off": ("parameter_count", "output = 0 if tied", "output = -vocab_size * C if tied"),
    "momentum counts steps": ("state_bytes", 'if optimizer == "adamw"', 'if optimizer != "sgd"'),
    "one statistic a token": ("activation_bytes", "4 * n_head if fused", "4 if fused"),
    "each view is a storage": ("saved_bytes", "kept[storage.data_ptr()] =", "kept[id(tensor)] ="),
    "heads shared the wrong way": ("kv_cache_bytes", "hidden_dim // n_head", "hidden_dim // n_kv_head"),
    "stops two apart": ("largest_micro_batch", "too_large - fits > 1", "too_large - fits > 2"),
    "one norm too many in a block": (
        "parameter_count",
        "n_layer * block + C + output",
        "n_layer * (block + C) + output",
    ),
}

RIGHT = {
    "a defaultdict": ("state_bytes", "    return {\n", "    return __import__('collections').defaultdict(int) | {\n")
}

EQUIVALENT = {
    "neither needs the other": (
        "state_bytes: swapped: weight, gradient, master, average = {'f… | averages = {'sgd': 0, 'momentum': 1, 'a…",
        "state_bytes: swapped: averages = {'sgd': 0, 'momentum': 1, 'a… | steps = 4 * n_tensors if optimizer == '…",
        "saved_bytes: swapped: own = {parameter.untyped_storage().data… | kept = {}",
        "largest_micro_batch: swapped: if peak(1) > budget: | fits, too_large = (1, 2)",
    ),
    "it is let go when the function ends": (
        "saved_bytes: left out: del output",
        "saved_bytes: swapped: del output | return sum((storage.nbytes() for storag…",
    ),
    "no backward ever asks for what was kept": ("saved_bytes: left out: return tensor",),
}
