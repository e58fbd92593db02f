"""Right answers to Lab 01 that differ from the reference, and automatic changes to it that change no behavior."""

RIGHT = {
    "state_bytes": {
        "a defaultdict": """
-    return {
+    return __import__('collections').defaultdict(int) | {
""",
    },
}

EQUIVALENT = {
    "the two statements are independent": (
        "state_bytes: swapped: weight, gradient, master, average = {'f… | averages = {'sgd': 0, 'momentum': 1, 'a…",
        "state_bytes: swapped: averages = {'sgd': 0, 'momentum': 1, 'a… | steps = 4 * n_tensors if optimizer == '…",
        "saved_bytes: swapped: own = {parameter.untyped_storage().data… | kept = {}",
        "largest_micro_batch: swapped: if peak(1) > budget: | fits, too_large = (1, 2)",
    ),
    "the output is freed when the function ends": (
        "saved_bytes: left out: del output",
        "saved_bytes: swapped: del output | return sum((storage.nbytes() for storag…",
    ),
    "no backward pass reads the saved tensors": ("saved_bytes: left out: return tensor",),
}
