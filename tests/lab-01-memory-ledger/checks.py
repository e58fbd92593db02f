"""Lab 01, checks: what each exercise's code must do, for how many points, and how a mistake is worded.

Bytes and parameters are whole numbers, so every judge asks for equality.
"""

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import combinations

from rankzero.exercises.checks.check import Check, Exercise, Judge
from rankzero.exercises.checks.judges import all_of, equals_reference, items_of, same_length, shorten
from rankzero.exercises.probes.answers import Answers, equal


def whole_number(name: str, what: str, *sizes: str) -> Judge:
    """Passes if the answer `name` is the reference's; the failure names the sizes that the probe asked for.

    Where no product of these is the difference, there and in the small cases of the probe, it names instead the
    smallest case that differs, if one does.
    """

    def judge(got: Answers, expected: Answers) -> str | None:
        if _same(got[name], expected[name]):
            return None
        values = {size: value for size, value in expected.items() if size != name and " " not in size}
        small = _smallest(got, expected)
        off = _off(got[name], expected[name], values, _small_differences(got, expected) if small else ())
        if off.endswith(("too many.", "too few.")) and small:
            return f"{what} in the smallest case that differs, {small}."
        asked = ", ".join(f"{size} {_text(expected[size])}" for size in sizes)
        return f"{what}{f' for {asked}' if asked else ''}: got {_text(got[name])}; expected {expected[name]:,}.{off}"

    return judge


def _smallest(got: Answers, expected: Answers) -> str:
    """Returns the smallest case that differs, one to follow by hand, with both numbers; '' if none does."""
    wanted = expected.get("small numbers", [])
    found = items_of(got, "small numbers", len(wanted))
    for case, number, right in zip(expected.get("small cases", []), found, wanted, strict=True):
        if not _same(number, right):
            return f"{case}: got {_text(number)}; expected {right:,}"
    return ""


def _small_differences(got: Answers, expected: Answers) -> list[tuple[dict[str, int], int]]:
    """Returns the sizes of each small case, with the difference of its two numbers; 0 where an answer is no number."""
    wanted = expected["small numbers"]
    cases = [{name: int(size) for name, size in map(str.split, case.split(", "))} for case in expected["small cases"]]
    found = items_of(got, "small numbers", len(wanted))
    differences = [abs(n - right) if type(n) is int else 0 for n, right in zip(found, wanted, strict=True)]
    return list(zip(cases, differences, strict=True))


def _off(
    got: object, expected: int, sizes: Mapping[str, object], small: Sequence[tuple[dict[str, int], int]] = ()
) -> str:
    """Returns the error as a whole factor or as a difference, and the sizes whose product it is, in `small` too."""
    if type(got) is not int or abs(got) > 10**30:
        return " Expected a whole number, Python's int."
    if 0 < got < expected and expected % got == 0:
        return f" The expected number is {expected // got:,} times as large{_equal_sizes(expected // got, sizes)}."
    if got > 0 and expected and got % expected == 0:
        return f" That is {got // expected:,} times the expected number{_equal_sizes(got // expected, sizes)}."
    products = (
        (times, names)
        for times, names in _products(abs(got - expected), sizes)
        if all(times * math.prod(case.get(name, 0) for name in names) == off for case, off in small)
    )
    times, names = min(products, default=(1, []))
    text = " · ".join(
        [str(times)] * (times > 1) + [f"{name}²" if names.count(name) > 1 else name for name in dict.fromkeys(names)]
    )
    return f" That is {abs(got - expected):,} too {'many' if got > expected else 'few'}{text and f': {text}'}."


def _equal_sizes(factor: int, sizes: Mapping[str, object]) -> str:
    names = [name for name, size in sizes.items() if _same(size, factor)]
    return f", and {' and '.join(names)} {'are' if len(names) > 1 else 'is'} {factor:,}" if names else ""


def _products(number: int, sizes: Mapping[str, object]) -> Iterator[tuple[int, list[str]]]:
    """Yields each product that is `number`: a number from 1 to 16, and sizes, some of them twice."""
    whole = {name: size for name, size in sizes.items() if type(size) is int and size > 1}
    names = sorted([*whole, *(whole.keys() & {"hidden_dim", "seq_len"})])
    for count in range(1, len(names) + 1):
        for factors in combinations(names, count):
            times, rest = divmod(number, math.prod(whole[name] for name in factors))
            if not rest and 0 < times <= 16:
                yield times, list(factors)


def _same(got: object, expected: int) -> bool:
    return type(got) is int and got == expected


def _text(value: object) -> str:
    return f"{value:,}" if type(value) is int and abs(value) < 10**30 else shorten(value, 80)


def _per_parameter(bytes_: object, wanted: int, parameters: int) -> tuple[str, str]:
    """Returns the bytes per parameter of both numbers in words; nothing where they would read the same."""
    if type(bytes_) is not int or abs(bytes_) >= 10**30:
        return "", ""
    got, right = (f", {number / parameters:.3g} B per parameter" for number in (bytes_, wanted))
    return (got, right) if got != right else ("", "")


ROLES = ("weights", "gradients", "optimizer state")


def roles(got: Answers, expected: Answers) -> str | None:
    """Passes if all three roles have the right bytes; names the first role that is wrong."""
    if not (equal(got["type"], "dict") and equal(got["names"], sorted(ROLES))):
        a_dict = equal(got["type"], "dict") and isinstance(got["names"], list)
        found = f"a dict with {shorten(', '.join(map(str, got['names'])))}" if a_dict else f"a {shorten(got['type'])}"
        return f"the return value is {found}; expected a dict with {', '.join(ROLES)}."
    for role, bytes_, wanted in zip(ROLES, _three(got["roles"]), expected["roles"], strict=True):
        if not _same(bytes_, wanted):
            each, right = _per_parameter(bytes_, wanted, expected["parameters"])
            model = f"{expected['parameters']:,} parameters in {expected['tensors']:,} tensors"
            off = _off(bytes_, wanted, {name: expected[name] for name in ("parameters", "tensors")})
            return f"the bytes of {role} of {model} are {_text(bytes_)}{each}; expected {wanted:,}{right}.{off}"
    return None


def _three(found: object) -> list[object]:
    """Returns the bytes of the three roles, or three times None where the answer has another length."""
    return found if isinstance(found, list) and len(found) == len(ROLES) else [None] * len(ROLES)


def every_case(got: Answers, expected: Answers) -> str | None:
    """Passes if SGD and momentum are right in every recipe; names the first case and role that is wrong."""
    for case, found, wanted in zip(expected["cases"], got["roles"], expected["roles"], strict=True):
        for role, bytes_, right in zip(ROLES, _three(found), wanted, strict=True):
            if not _same(bytes_, right):
                model = f"{expected['parameters']:,} parameters, {case},"
                off = _off(bytes_, right, {name: expected[name] for name in ("parameters", "tensors")})
                return f"the bytes of {role} of {model} are {_text(bytes_)}; expected {right:,}.{off}"
    return None


def adds_up(got: Answers, expected: Answers) -> str | None:
    """Passes if a second call counts the same, and if 30 equal pairs of layers keep 30 times the bytes of one pair."""
    if got["again"] is not True:
        return "a second call with the same model and `x` counts another number. The count depends on earlier calls."
    if got["deep"] is True:
        return None
    return (
        "30 pairs of linear and GELU do not keep 30 times the bytes of one pair. Where a saved tensor is freed during "
        "the call, another one gets its address."
    )


def found(words: Callable[[int], str]) -> Judge:
    """Passes if every search returned the reference's answer; `words` describes the first search that did not."""

    def judge(got: Answers, expected: Answers) -> str | None:
        wanted_list = expected["found"]
        others = items_of(got, "in reverse", len(wanted_list)) if "in reverse" in expected else got["found"]
        for one, other, wanted in zip(got["found"], others, wanted_list, strict=True):
            if not (_same(one, wanted) and _same(other, wanted)):
                depends = (
                    f" Called in another order, it returned {_text(other)}: the answer depends on earlier calls. Keep "
                    "nothing from one call to the next."
                )
                differ = not equal(one, other)
                return f"{words(wanted)}; the function returned {_text(one)}.{depends if differ else ''}"
        return None

    return all_of(same_length("found"), judge)


def zero_found(got: Answers, expected: Answers) -> str | None:
    """Passes if the function returns 0 where nothing fits, and any positive number where something fits."""
    for one, wanted in zip(got["found"], expected["found"], strict=True):
        if not wanted and not _same(one, 0):
            return f"one sequence is already too large; the function returned {_text(one)}, expected 0."
        if wanted and (type(one) is not int or not 0 < one < 2**63):
            return f"the largest size that fits is {wanted}; the function returned {_text(one)}."
    return None


def found_with_few_calls(got: Answers, expected: Answers) -> str | None:
    """Doubling and halving take 2 log2 of the answer; twice the reference's calls are granted."""
    wanted, calls = expected["found"], got["calls"]
    if not _same(got["found"], wanted):
        return f"the size {wanted:,} fits; the function returned {_text(got['found'])}. The answer has no upper limit."
    if type(calls) is not int or calls < 2:  # that the answer fits, and that one more does not
        return f"peak was called {_text(calls)} times to find {wanted:,}; a search needs at least 2 calls."
    if calls > 2 * expected["calls"]:
        return f"peak was called {_text(calls)} times to find {wanted:,}; {expected['calls']} calls are enough."
    return None


GPT_SIZES = ("vocab_size", "block_size", "n_layer", "hidden_dim")
BLOCK_SIZES = ("batch_size", "seq_len", "hidden_dim", "n_head", "number")
CACHE_SIZES = ("n_layer", "n_head", "n_kv_head", "hidden_dim", "batch_size", "tokens", "number")

EXERCISES = (
    Exercise(
        name="parameter_count",
        functions=("parameter_count",),
        minutes=10,
        difficulty="easy",
        proves="you can say how large a model is from its configuration",
        hints=(
            "List all matrices with their shapes. Which of them does the model have once, which once per block, and "
            "which two share their memory?",
            "A block has 3C² + C² in attention, 2 · 4C² in the MLP, and two norms of C. Outside the blocks, the model "
            "has two embeddings and one more norm.",
            "12·C² + 2·C per block. Outside the blocks: V rows, block_size rows and one norm, each C wide. How many "
            "parameters does an untied output layer add?",
        ),
        checks=(
            Check(
                "parameter_count/block",
                "counts what one more block adds",
                points=4,
                probe="one_more_block",
                judge=whole_number("more", "parameters of one more block", "hidden_dim"),
            ),
            Check(
                "parameter_count/tied",
                "counts a whole model, the tied matrix once",
                points=4,
                probe="tied_model",
                judge=whole_number("count", "number of parameters", *GPT_SIZES),
                requires=("parameter_count/block",),
            ),
            Check(
                "parameter_count/untied",
                "counts an output layer of its own",
                points=2,
                probe="untied_model",
                judge=whole_number("more", "parameters of an untied output layer", "vocab_size", "hidden_dim"),
            ),
        ),
    ),
    Exercise(
        name="state_bytes",
        functions=("state_bytes",),
        minutes=15,
        difficulty="medium",
        proves="you know which bytes a rule of thumb such as 16 bytes per parameter counts",
        hints=(
            "Make a table: a row per recipe, columns weight, gradient, master weight, one average. Fill in 0, 2 or 4.",
            "fp32 is 4, 4, 0, 4. mixed is 2, 2, 4, 4: the model computes in bf16, and the optimizer updates an "
            "fp32 copy. "
            "Accumulation adds 4 bytes to the gradients; the other bytes stay.",
            "optimizer state = (master + averages · average) · n_parameters, and 4 · n_tensors more for AdamW; "
            "averages "
            "are 0, 1, 2 for sgd, momentum, adamw.",
        ),
        checks=(
            Check("state_bytes/fp32", "counts fp32 with AdamW", points=2, probe="fp32", judge=roles),
            Check("state_bytes/mixed", "counts bf16 with fp32 master weights", points=3, probe="mixed", judge=roles),
            Check(
                "state_bytes/accumulation",
                "adds the fp32 sum of the gradients",
                points=2,
                probe="accumulated",
                judge=roles,
                requires=("state_bytes/mixed",),
            ),
            Check("state_bytes/bf16", "counts pure bf16", points=1, probe="pure_bf16", judge=roles),
            Check(
                "state_bytes/optimizers",
                "counts the state of SGD and momentum",
                points=2,
                probe="other_optimizers",
                judge=all_of(same_length("roles"), every_case),
            ),
        ),
    ),
    Exercise(
        name="activation_bytes",
        functions=("activation_bytes",),
        minutes=20,
        difficulty="hard",
        proves="you can say for each operation of a block which tensors its backward pass needs",
        hints=(
            "Read Block.forward in rankzero/learn/models/gpt.py. For each operation, find out which tensors its "
            "derivative reads. The derivative of an addition reads none.",
            "Count in units of B·T·C: two norms keep their inputs, each product keeps its input, GELU keeps its own "
            "input, attention keeps q, k, v and its output. The output of one operation is often the input of the "
            "next: count that tensor once.",
            "Per token: 16·C numbers and 4 statistics, each of `number` bytes. Attention adds one fp32 number per head "
            "if fused, else T numbers of `number` bytes per head.",
        ),
        checks=(
            Check(
                "activation_bytes/fused",
                "counts a block with fused attention in fp32",
                points=5,
                probe="fused_fp32",
                judge=whole_number("bytes", "bytes of a block with fused attention", *BLOCK_SIZES),
            ),
            Check(
                "activation_bytes/half",
                "counts the log-sum-exp in fp32 when numbers take 2 bytes",
                points=2,
                probe="fused_bf16",
                judge=whole_number("bytes", "bytes of a block with fused attention", *BLOCK_SIZES),
                requires=("activation_bytes/fused",),
            ),
            Check(
                "activation_bytes/explicit",
                "counts the probabilities that attention keeps if it is not fused",
                points=3,
                probe="explicit",
                judge=all_of(
                    *(
                        whole_number(
                            f"bytes {number}",
                            f"bytes of a block without fused attention at {number} bytes per number",
                            *BLOCK_SIZES[:-1],
                        )
                        for number in (2, 4)
                    )
                ),
            ),
        ),
    ),
    Exercise(
        name="saved_bytes",
        functions=("saved_bytes",),
        minutes=20,
        difficulty="medium",
        proves="you can measure activation memory of any model, on any machine",
        hints=(
            "torch.autograd.graph.saved_tensors_hooks(pack, unpack) calls your pack(tensor) for each tensor that "
            "autograd saves while the hooks are active. unpack gets the value that pack returned.",
            "Two tensors share memory if tensor.untyped_storage().data_ptr() is the same. Put the storages into a dict "
            "with that address as key, and leave out the addresses of parameters and buffers.",
            "In pack: kept[storage.data_ptr()] = storage, unless the storage belongs to a parameter or a buffer. At "
            "the end: sum(storage.nbytes() for storage in kept.values()). A storage in the dict is not freed, so no "
            "other tensor gets its address.",
        ),
        checks=(
            Check(
                "saved_bytes/chain",
                "counts a tensor that two layers share once, and no weights",
                points=2,
                probe="chain",
                judge=all_of(whole_number("bytes", "bytes that linear, ReLU, linear keep", "shape"), adds_up),
            ),
            Check(
                "saved_bytes/views",
                "counts three views of one storage once",
                points=1,
                probe="views",
                judge=whole_number("bytes", "bytes that a product and attention over three views of it keep", "shape"),
            ),
            Check(
                "saved_bytes/as-found",
                "runs a model with dropout in its mode, and leaves it unchanged",
                points=1,
                probe="as_found",
                judge=all_of(
                    whole_number("training", "bytes that linear, dropout, linear keep in training mode", "shape"),
                    whole_number("evaluation", "bytes that linear, dropout, linear keep in evaluation mode", "shape"),
                    equals_reference("touched", 0, lambda got, _: f"after the call {shorten(got)}."),
                ),
            ),
            Check(
                "saved_bytes/half",
                "counts bytes, not numbers",
                points=1,
                probe="half",
                judge=whole_number("bytes", "bytes that linear and GELU keep", "dtype", "shape"),
            ),
            Check(
                "saved_bytes/square",
                "tells a weight from an input of the same shape",
                points=1,
                probe="square",
                judge=whole_number("bytes", "bytes that a linear layer keeps", "shape"),
            ),
            Check(
                "saved_bytes/frozen",
                "runs the model as it is, with frozen layers",
                points=1,
                probe="frozen",
                judge=whole_number(
                    "bytes", "bytes that a frozen linear, GELU, linear, GELU, frozen linear keep", "shape"
                ),
            ),
            Check(
                "saved_bytes/buffers",
                "leaves out views of parameters and buffers, which are the model's own memory",
                points=1,
                probe="own_buffers",
                judge=whole_number("bytes", "bytes that a linear layer, a gain and two masks in buffers keep", "shape"),
            ),
            Check(
                "saved_bytes/token-ids",
                "counts token ids with their 8 bytes, and no tied weight",
                points=1,
                probe="token_ids",
                judge=whole_number("bytes", "bytes that an embedding and an output layer tied to it keep", "shape"),
            ),
            Check(
                "saved_bytes/whole-storage",
                "counts the whole storage of a view",
                points=1,
                probe="part_of_a_storage",
                judge=whole_number(
                    "bytes",
                    "bytes that a product with half of x keeps, where x is a slice of a larger tensor,",
                    "shape",
                ),
            ),
        ),
    ),
    Exercise(
        name="kv_cache_bytes",
        functions=("kv_cache_bytes",),
        minutes=10,
        difficulty="easy",
        proves="you can say how many users a GPU can serve",
        hints=(
            "For one token, one block and one head: which vectors does the cache hold, and how wide are they?",
            "A key and a value, each hidden_dim / n_head wide. A block has n_kv_head heads with keys and values.",
            "Multiply 2 · head width by blocks, key-value heads, sequences, tokens, and bytes per number.",
        ),
        checks=(
            Check(
                "kv_cache_bytes/heads",
                "counts keys and values of every head",
                points=5,
                probe="every_head",
                judge=whole_number("bytes", "bytes of the cache", *CACHE_SIZES),
            ),
            Check(
                "kv_cache_bytes/grouped",
                "counts shared heads once",
                points=5,
                probe="grouped",
                judge=whole_number("bytes", "bytes of the cache", *CACHE_SIZES),
            ),
        ),
    ),
    Exercise(
        name="largest_micro_batch",
        functions=("largest_micro_batch",),
        minutes=15,
        difficulty="medium",
        proves="you can choose a micro-batch from a memory ledger so that the run does not run out of memory",
        hints=(
            "The answer has no upper limit. First find a size that does not fit, in few calls: which sizes do you try?",
            "Double the size until it does not fit. The answer lies between the last size that fit and the first that "
            "did not. Halve that range until the two sizes are neighbors.",
            "Keep two sizes: fits (peak <= budget) and too_large (peak > budget). While too_large - fits > 1, call "
            "peak on the middle and set one of the two to it. If peak(1) > budget, return 0.",
        ),
        checks=(
            Check(
                "largest_micro_batch/fits",
                "finds the largest that fits",
                points=4,
                probe="fits",
                judge=found(lambda wanted: f"the largest size that fits is {wanted}"),
            ),
            Check(
                "largest_micro_batch/exactly",
                "accepts a batch that takes exactly the budget",
                points=2,
                probe="exactly",
                judge=found(lambda wanted: f"the size {wanted} takes exactly the budget"),
            ),
            Check(
                "largest_micro_batch/nothing",
                "returns 0 if one sequence is too large",
                points=2,
                probe="nothing_fits",
                judge=all_of(same_length("found"), zero_found),
            ),
            Check(
                "largest_micro_batch/calls",
                "calls peak few times",
                points=2,
                probe="few_calls",
                judge=found_with_few_calls,
                requires=("largest_micro_batch/fits",),
            ),
        ),
    ),
)
