"""Lab 01, checks: what each exercise's code must do, for how many points, and how a mistake is worded.

Bytes and parameters are whole numbers, so every judge asks for equality.
"""

import math
from collections.abc import Callable, Iterator, Mapping
from itertools import combinations

from rankzero.exercises.checks.check import Check, Exercise, Judge
from rankzero.exercises.checks.judges import all_of, equals_reference, same_length, shorten
from rankzero.exercises.probes.answers import Answers, equal


def whole_number(name: str, what: str, *sizes: str) -> Judge:
    """The answer `name` is the reference's; the sentence tells the sizes that it was asked with."""

    def judge(got: Answers, expected: Answers) -> str | None:
        if _same(got[name], expected[name]):
            return None
        asked = ", ".join(f"{size} {_text(expected[size])}" for size in sizes)
        return f"{what}{f' for {asked}' if asked else ''} is {_text(got[name])}; expected {expected[name]:,}." + _off(
            got[name],
            expected[name],
            {size: value for size, value in expected.items() if size != name and " " not in size},
        )

    return judge


def _off(got: object, expected: int, sizes: Mapping[str, object]) -> str:
    """By how much, as a whole factor or as a difference, and which sizes make that number."""
    if type(got) is not int or abs(got) > 10**30:
        return " Expected a whole number, Python's int."
    if 0 < got < expected and expected % got == 0:
        return f" The expected number is {expected // got:,} times as large{_equal_sizes(expected // got, sizes)}."
    if got > 0 and expected and got % expected == 0:
        return f" That is {got // expected:,} times the expected number{_equal_sizes(got // expected, sizes)}."
    times, names = min(_products(abs(got - expected), sizes), default=(1, []))
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
    """All three roles are there, and each has its bytes; names the first that has not."""
    if not (equal(got["type"], "dict") and equal(got["names"], sorted(ROLES))):
        a_dict = equal(got["type"], "dict") and isinstance(got["names"], list)
        found = f"a dict with {shorten(', '.join(map(str, got['names'])))}" if a_dict else f"a {shorten(got['type'])}"
        return f"what came back is {found}; a dict with {', '.join(ROLES)} was expected."
    for role, bytes_, wanted in zip(ROLES, _three(got["roles"]), expected["roles"], strict=True):
        if not _same(bytes_, wanted):
            each, right = _per_parameter(bytes_, wanted, expected["parameters"])
            model = f"{expected['parameters']:,} parameters in {expected['tensors']:,} tensors"
            off = _off(bytes_, wanted, {name: expected[name] for name in ("parameters", "tensors")})
            return f"the bytes of {role} of {model} are {_text(bytes_)}{each}; expected {wanted:,}{right}.{off}"
    return None


def _three(found: object) -> list[object]:
    """Of each role its bytes, however many came back."""
    return found if isinstance(found, list) and len(found) == len(ROLES) else [None] * len(ROLES)


def every_case(got: Answers, expected: Answers) -> str | None:
    """SGD and momentum by every recipe; names the first case and role that is off."""
    for case, found, wanted in zip(expected["cases"], got["roles"], expected["roles"], strict=True):
        for role, bytes_, right in zip(ROLES, _three(found), wanted, strict=True):
            if not _same(bytes_, right):
                model = f"{expected['parameters']:,} parameters, {case},"
                off = _off(bytes_, right, {name: expected[name] for name in ("parameters", "tensors")})
                return f"the bytes of {role} of {model} are {_text(bytes_)}; expected {right:,}.{off}"
    return None


def found(words: Callable[[int], str]) -> Judge:
    """Every search found the reference's answer; `words` say of the first that did not what was to be found."""

    def judge(got: Answers, expected: Answers) -> str | None:
        for one, wanted in zip(got["found"], expected["found"], strict=True):
            if not _same(one, wanted):
                return f"{words(wanted)}, it found {_text(one)}."
        return None

    return all_of(same_length("found"), judge)


def zero_found(got: Answers, expected: Answers) -> str | None:
    """Where nothing fits it says 0, and something else where something does; how much is another check's."""
    for one, wanted in zip(got["found"], expected["found"], strict=True):
        if not wanted and not _same(one, 0):
            return f"where one sequence is already too large, it found {_text(one)}; expected 0."
        if wanted and (type(one) is not int or not 0 < one < 2**63):
            return f"where {wanted} sequences fit, it found {_text(one)}."
    return None


def found_with_few_calls(got: Answers, expected: Answers) -> str | None:
    """Doubling and halving take 2 log2 of the answer; twice the reference's calls are granted."""
    wanted, calls = expected["found"], got["calls"]
    if not _same(got["found"], wanted):
        return f"where {wanted:,} sequences fit, it found {_text(got['found'])}. The answer has no upper limit."
    if type(calls) is not int or calls < 2:  # that the answer fits, and that one more does not
        return f"it asked for {_text(calls)} predictions to find {wanted:,}; nobody can know it from fewer than 2."
    if calls > 2 * expected["calls"]:
        return f"it asked for {_text(calls)} predictions to find {wanted:,}; {expected['calls']} are enough."
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
            "List the matrices of one block with their shapes. Which of them are there once in the model, which once "
            "per block, and which share their memory?",
            "A block has 3C² + C² in attention and 2 · 4C² in the MLP, and two norms of C. Around the blocks stand two "
            "embeddings and one more norm.",
            "12·C² + 2·C per block. Around the blocks: V rows, block_size rows and one more vector, each C wide. What "
            "does an output layer of its own add?",
        ),
        checks=(
            Check(
                "parameter_count/block",
                "counts what one more block adds",
                points=4,
                probe="one_more_block",
                judge=whole_number("more", "what one more block adds", "hidden_dim"),
            ),
            Check(
                "parameter_count/tied",
                "counts a whole model, the tied matrix once",
                points=4,
                probe="tied_model",
                judge=whole_number("count", "the count", *GPT_SIZES),
                requires=("parameter_count/block",),
            ),
            Check(
                "parameter_count/untied",
                "counts an output layer of its own",
                points=2,
                probe="untied_model",
                judge=whole_number("more", "what an untied output layer adds", "vocab_size", "hidden_dim"),
            ),
        ),
    ),
    Exercise(
        name="state_bytes",
        functions=("state_bytes",),
        minutes=15,
        difficulty="medium",
        proves="you know whose bytes a rule of thumb counts",
        hints=(
            "Make a table: a row per recipe, columns weight, gradient, master weight, one average. Fill in 0, 2 or 4.",
            "fp32 is 4, 4, 0, 4. mixed is 2, 2, 4, 4: the model computes in bf16, and the optimizer updates an "
            "fp32 copy. "
            "Accumulation adds 4 to the gradients and takes nothing away.",
            "optimizer state = (master + averages · average) · n_parameters, and 4 · n_tensors more for AdamW; "
            "averages "
            "are 0, 1, 2 for sgd, momentum, adamw.",
        ),
        checks=(
            Check("state_bytes/fp32", "knows fp32 with AdamW", points=2, probe="fp32", judge=roles),
            Check("state_bytes/mixed", "knows bf16 with fp32 master weights", points=3, probe="mixed", judge=roles),
            Check(
                "state_bytes/accumulation",
                "adds the fp32 sum of the gradients",
                points=2,
                probe="accumulated",
                judge=roles,
                requires=("state_bytes/mixed",),
            ),
            Check("state_bytes/bf16", "knows pure bf16", points=1, probe="pure_bf16", judge=roles),
            Check(
                "state_bytes/optimizers",
                "knows what SGD and momentum keep",
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
        proves="you can walk through a block and say at each step what backward will need",
        hints=(
            "Walk through Block.forward in rankzero/learn/models/gpt.py. At each operation ask what its derivative "
            "reads. An addition reads nothing.",
            "Count in units of B·T·C: two norms keep their inputs, each product keeps its input, GELU keeps its own "
            "input, attention keeps q, k, v and its output. The output of one is often the input of the next: "
            "count it once.",
            "Per token: 16·C numbers and 4 statistics, each of `number` bytes. Attention adds one fp32 number per head "
            "if fused, else one number per head and per token that it looks at.",
        ),
        checks=(
            Check(
                "activation_bytes/fused",
                "counts a block with fused attention in fp32",
                points=5,
                probe="fused_fp32",
                judge=whole_number("bytes", "the bytes of a block with fused attention", *BLOCK_SIZES),
            ),
            Check(
                "activation_bytes/half",
                "knows what stays fp32 when numbers take 2 bytes",
                points=2,
                probe="fused_bf16",
                judge=whole_number("bytes", "the bytes of a block with fused attention", *BLOCK_SIZES),
                requires=("activation_bytes/fused",),
            ),
            Check(
                "activation_bytes/explicit",
                "counts the square that attention keeps if it is not fused",
                points=3,
                probe="explicit",
                judge=all_of(
                    *(
                        whole_number(
                            f"bytes {number}",
                            f"the bytes of a block without fused attention and {number} bytes per number",
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
            "autograd keeps while it is active. pack returns what unpack will be given.",
            "Two tensors are the same memory if tensor.untyped_storage().data_ptr() is the same. Put storages "
            "into a dict "
            "by that address, and leave out the addresses of the parameters.",
            "kept[storage.data_ptr()] = storage in pack, unless it is a parameter's; then sum(storage.nbytes() "
            "for storage "
            "in kept.values()). Keeping the storage in the dict also keeps its address from being used again.",
        ),
        checks=(
            Check(
                "saved_bytes/chain",
                "counts what two layers share once, and no weights",
                points=2,
                probe="chain",
                judge=whole_number("bytes", "what linear, ReLU, linear keep", "shape"),
            ),
            Check(
                "saved_bytes/views",
                "counts three views of one storage once",
                points=1,
                probe="views",
                judge=whole_number("bytes", "what a product and attention over three views of it keep", "shape"),
            ),
            Check(
                "saved_bytes/as-found",
                "runs a model with dropout in the mode it is in, and leaves it as it was",
                points=1,
                probe="as_found",
                judge=all_of(
                    whole_number("training", "what linear, dropout, linear keep in training mode", "shape"),
                    whole_number("evaluation", "what linear, dropout, linear keep in evaluation mode", "shape"),
                    equals_reference("touched", 0, lambda got, _: f"after the call {shorten(got)}."),
                ),
            ),
            Check(
                "saved_bytes/half",
                "counts bytes, not numbers",
                points=1,
                probe="half",
                judge=whole_number("bytes", "what linear and GELU keep", "dtype", "shape"),
            ),
            Check(
                "saved_bytes/square",
                "tells a weight from an input of the same shape",
                points=1,
                probe="square",
                judge=whole_number("bytes", "what a linear layer keeps", "shape"),
            ),
            Check(
                "saved_bytes/frozen",
                "runs the model as it is, a frozen layer and all",
                points=1,
                probe="frozen",
                judge=whole_number("bytes", "what a frozen linear, GELU, linear keep", "shape"),
            ),
            Check(
                "saved_bytes/buffers",
                "leaves out buffers, which are the model's own memory",
                points=1,
                probe="own_buffers",
                judge=whole_number("bytes", "what a linear layer and a mask in a buffer keep", "shape"),
            ),
            Check(
                "saved_bytes/token-ids",
                "counts token ids with their 8 bytes, and no tied weight",
                points=1,
                probe="token_ids",
                judge=whole_number("bytes", "what an embedding and an output layer tied to it keep", "shape"),
            ),
            Check(
                "saved_bytes/whole-storage",
                "counts all of the memory that a view holds on to",
                points=1,
                probe="part_of_a_storage",
                judge=whole_number("bytes", "what the product of half of x with a weight keeps", "shape"),
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
            "For one token, one block and one head: what is kept, and how wide is it?",
            "A key and a value, each hidden_dim / n_head wide. Only n_kv_head heads have them.",
            "Multiply by everything that has its own: blocks, sequences, tokens, and the bytes of a number.",
        ),
        checks=(
            Check(
                "kv_cache_bytes/heads",
                "counts keys and values of every head",
                points=5,
                probe="every_head",
                judge=whole_number("bytes", "the cache", *CACHE_SIZES),
            ),
            Check(
                "kv_cache_bytes/grouped",
                "counts shared heads once",
                points=5,
                probe="grouped",
                judge=whole_number("bytes", "the cache", *CACHE_SIZES),
            ),
        ),
    ),
    Exercise(
        name="largest_micro_batch",
        functions=("largest_micro_batch",),
        minutes=15,
        difficulty="medium",
        proves="you can turn a ledger into a decision, and one that does not run out of memory at night",
        hints=(
            "You do not know how large the answer is. Find something that is too large first, quickly.",
            "Double until it does not fit. Then the answer lies between the last that fit and the first that did not; "
            "halve that range until nothing is between.",
            "Keep two numbers: fits (peak <= budget) and too_large (peak > budget). While too_large - fits > 1, "
            "ask for "
            "the middle and move one of them there. peak(1) > budget means 0.",
        ),
        checks=(
            Check(
                "largest_micro_batch/fits",
                "finds the largest that fits",
                points=4,
                probe="fits",
                judge=found(lambda wanted: f"where {wanted} sequences fit and {wanted + 1} do not"),
            ),
            Check(
                "largest_micro_batch/exactly",
                "takes a budget that is filled to the last byte",
                points=2,
                probe="exactly",
                judge=found(lambda wanted: f"where {wanted} sequences take exactly the budget"),
            ),
            Check(
                "largest_micro_batch/nothing",
                "says 0 if one sequence is too large",
                points=2,
                probe="nothing_fits",
                judge=all_of(same_length("found"), zero_found),
            ),
            Check(
                "largest_micro_batch/calls",
                "asks for few predictions",
                points=2,
                probe="few_calls",
                judge=found_with_few_calls,
                requires=("largest_micro_batch/fits",),
            ),
        ),
    ),
)
