"""Lab 09, checks: what each exercise's code must do, for how many points, and how a mistake is worded."""

from typing import Any

from rankzero.exercises.checks.check import Check, Exercise, Judge
from rankzero.exercises.checks.judges import all_of, equals_reference, mismatch_text, shorten
from rankzero.exercises.probes.answers import Answers, equal

EXACT, SIX_DIGITS = 1e-9, 1e-6


def items(got: object, expected: list[Any]) -> list[Any]:
    """Returns the list `got` if it is as long as `expected`, and otherwise as many times None."""
    return got if isinstance(got, list) and len(got) == len(expected) else [None] * len(expected)


def holds(name: str, failure: str) -> Judge:
    """Passes if the answer `name` equals the reference's; the failure is one sentence."""
    return equals_reference(name, 0, lambda *_: failure)


def each_holds(name: str, subjects: tuple[str, ...], failure: str) -> Judge:
    """Passes if each item of the list `name` equals the reference's; the failure begins with the item's subject."""

    def judge(got: Answers, expected: Answers) -> str | None:
        for subject, item, reference in zip(
            subjects, items(got.get(name), expected[name]), expected[name], strict=True
        ):
            if not equal(item, reference):
                return f"{subject}: {failure.format(got=shorten(item), expected=shorten(reference))}"
        return None

    return judge


# -------------------------------------------------------------------------------------------------------- save_durably
CONTENTS = ("a new file", "a file in place of a longer one", "an empty file in place of another")
CASES = (
    *("writing on a full disk", "an fsync that fails", "a Ctrl-C in fsync", "a rename that fails"),
    *("too many open files", "an fsync of the folder that fails"),
)


def order_of_calls(got: Answers, expected: Answers) -> str | None:
    """The file is synced, then renamed, then its folder is synced."""
    if not equal(got.get("renames"), 1):
        return f"the file that is there at the end came by {shorten(got.get('renames'))} renames; expected 1."
    if got.get("same folder") is not True:
        return "the new file is renamed from another folder: across file systems that is no rename but a copy."
    if not equal(got.get("file"), "synced"):
        when = f"before the rename, the new file is {shorten(got.get('file'))}"
        return f"{when}: the rename may be on the disk and the bytes not."
    if not equal(got.get("folder"), "synced"):
        when = f"after the rename, the folder is not synced ({shorten(got.get('folder'))})"
        return f"{when}: the rename itself may not be on the disk."
    return None if got.get("partial") is True else "the partial file's name does not end in .partial."


def files_while_killed(got: Answers, expected: Answers) -> str | None:
    """At each moment the file is the old or the new one; the next save works."""
    found = shorten(got.get("found"))
    if found != "whole":
        bad = "missing" if "missing" in found else "neither the old nor the new one"
        return f"killed before one of the lines of save_durably, it leaves a file that is {bad}."
    if not equal(got.get("ended"), ["no error"]) or not equal(got.get("again"), expected["again"]):
        given = got.get("ended")
        errors = [text for text in given if not equal(text, "no error")] if isinstance(given, list) else given
        return f"the next save, beside a partial file that a killed save left: {shorten(errors)}."
    return None


# ---------------------------------------------------------------------------------------------------------------- seal
FLIPS = ("a bit flipped in the digest", *["a bit flipped in the weights"] * 3, *["a bit flipped somewhere"] * 6)
LENGTHS = (
    *("a file cut in its content", "a file cut after its digest", "a file cut in its digest", "an empty file"),
    *("a file with one byte more", "a file that stands there twice"),
)
FOREIGN = ("random bytes", "half of torch's file", "nothing", "a file that runs code when it is unpickled")
UNSEALED = "unseal ended with {got}; expected {expected}."


# ------------------------------------------------------------------------------------------------------- newest_intact
def newest_is(got: Answers, expected: Answers) -> str | None:
    """The step, its content and the files that were read."""
    step, content = items(got.get("answer"), expected["answer"])
    if not equal(step, expected["answer"][0]):
        return f"the newest intact step is {shorten(step)}; expected {expected['answer'][0]}."
    if content is not True:
        return f"with step {step}, the content is not what read returned for step-{step}.pt."
    if not equal(got.get("read"), expected["read"]):
        return f"the files read were {shorten(got.get('read'))}; expected {expected['read']}."
    return None


def falls_back(got: Answers, expected: Answers) -> str | None:
    """With each kind of damage: no exception, the step and its content, and the files that were read."""
    for place, kind in enumerate(("ValueError", "OSError")):
        ended = items(got.get("ended"), expected["ended"])[place]
        if not equal(ended, "no error"):
            return f"read raised {kind} for the newest file, and newest_intact ended with {shorten(ended)}."
        case = {"answer": items(got.get("answers"), expected["answers"])[place]}
        case["read"] = items(got.get("reads"), expected["reads"])[place]
        reference = {"answer": expected["answers"][place], "read": expected["reads"][place]}
        if failure := newest_is(case, reference):
            return f"read raised {kind} for the newest files: {failure}"
    return None


# ----------------------------------------------------------------------------------------------------- steps_to_delete
def deletions(got: Answers, expected: Answers) -> str | None:
    """The steps of each case."""
    for case, keep, answer, reference in zip(
        expected["cases"],
        expected["keep"],
        items(got.get("answers"), expected["answers"]),
        expected["answers"],
        strict=True,
    ):
        if not equal(answer, reference):
            losses = "{" + ", ".join(f"{step}: {loss}" for step, loss in case) + "}"
            found = "no list" if answer is None else shorten(answer)
            return f"with the losses {losses} and keep={keep}: {found}; expected {reference}."
    return None if equal(got.get("after"), expected["after"]) else "val_losses itself was changed."


# -------------------------------------------------------------------------------------------------------- EpochSampler
def true(name: str, failure: str) -> Judge:
    """Passes if the answer `name` is True, or a list of nothing but True as long as the reference's."""

    def judge(got: Answers, expected: Answers) -> str | None:
        return None if equal(got.get(name), expected[name]) else failure

    return judge


def parts(**failures: str) -> Judge:
    """Passes if each named answer is True; the name's underscores stand for spaces."""
    return all_of(*(true(name.replace("_", " "), failure) for name, failure in failures.items()))


# --------------------------------------------------------------------------------------------------- run_until_stopped
def first_difference(events: object, expected: list[str]) -> str:
    """Returns the steps and saves from the first that differs on, each list cut after five."""
    if not isinstance(events, list):
        return f"the steps and saves are {shorten(events)}; expected a list."
    pairs = zip(events, expected, strict=False)
    place = next(
        (at for at, (one, other) in enumerate(pairs) if not equal(one, other)), min(len(events), len(expected))
    )
    before = f"after {expected[place - 1]}, " if place else ""
    rest, right = (
        ", ".join(shorten(event, 20) for event in some[place : place + 5]) + (", ..." if len(some) > place + 5 else "")
        for some in (events, expected)
    )
    return f"{before}{rest or 'nothing'}; expected {right or 'nothing'}."


def runs_equal(got: Answers, expected: Answers) -> str | None:
    """Of each run: what is returned, the steps and saves in their order, and the handler that is left."""
    runs = items(got.get("runs"), expected["runs"])
    plans = expected.get("plans") or [expected.get("plan")] * len(runs)
    for plan, run, reference in zip(plans, runs, expected["runs"], strict=True):
        returned, events, back, earlier = items(run, reference)
        where = "" if plan is None else "with done={}, last={}, every={}: ".format(*plan)
        if not equal(events, reference[1]):
            return f"{where}{first_difference(events, reference[1])}"
        if not equal(returned, reference[0]):
            return f"{where}returned {shorten(returned)}; expected {reference[0]}."
        if back is not True:
            return f"{where}SIGTERM's earlier handler is not back in place at the end."
        if not equal(earlier, reference[3]):
            return f"{where}a SIGTERM reached the earlier handler while the function ran."
    return None


# ------------------------------------------------------------------------------------------------------- the intervals
def numbers_of_cases(name: str, words: str, tolerance: float) -> Judge:
    """Passes if each number of the list `name` equals the reference's; `words` describe the case's numbers."""

    def judge(got: Answers, expected: Answers) -> str | None:
        for case, number, reference in zip(
            expected["cases"], items(got.get(name), expected[name]), expected[name], strict=True
        ):
            same = type(number) is float and abs(number - reference) <= tolerance * abs(reference)
            if not same:
                return (
                    f"{words.format(*(f'{value:g}' for value in case))}, the result {mismatch_text(number, reference)}"
                )
        return None if equal(got.get("types"), expected["types"]) else "the result is no Python float."

    return judge


SECONDS = numbers_of_cases("seconds", "with work {}, interval {}, save {}, restart {}, M {}", EXACT)
INTERVALS = numbers_of_cases("intervals", "with save {} and M {}", SIX_DIGITS)

EXERCISES = (
    Exercise(
        name="save_durably",
        functions=("save_durably",),
        minutes=20,
        difficulty="medium",
        proves="you can write a file that a kill or a power cut cannot damage",
        hints=(
            "A rename within one folder is atomic; a write is not. Write elsewhere, then rename.",
            "file.write fills a buffer of Python, flush passes the buffer to the kernel, and os.fsync waits until the "
            "bytes are on disk. Which of these calls must have returned before the rename?",
            "A folder is a file that lists names. os.open(folder, os.O_RDONLY) opens it, and os.fsync puts it on disk.",
        ),
        checks=(
            Check(
                "save_durably/content",
                "writes all bytes, in place of any file that is there, and leaves nothing else",
                points=2,
                probe="saved",
                judge=all_of(
                    each_holds("contents", CONTENTS, "the bytes in the file are not those of data."),
                    each_holds("files", CONTENTS, "{got} files are in the folder; expected {expected}."),
                    holds("open", "a file or a folder that was opened is still open at the end."),
                ),
            ),
            Check(
                "save_durably/order",
                "syncs the file, renames it, and syncs the folder, in this order",
                points=4,
                probe="order",
                judge=order_of_calls,
                requires=("save_durably/content",),
            ),
            Check(
                "save_durably/failures",
                "keeps the earlier file and leaves no partial one where the save fails",
                points=2,
                probe="failing",
                judge=all_of(
                    each_holds("ended", CASES, "save_durably ended with {got}; expected {expected}."),
                    each_holds("earlier", CASES[:-1], "the earlier file is gone or changed."),
                    holds("new", f"{CASES[-1]}: the new file, which has its name already, is gone or changed."),
                    each_holds("files", CASES, "{got} files are in the folder; expected {expected}."),
                    each_holds("open", CASES, "a file or a folder that was opened is still open at the end."),
                ),
                requires=("save_durably/order",),
            ),
            Check(
                "save_durably/killed",
                "leaves the old or the new file, whole, wherever it is killed",
                points=2,
                probe="killed",
                judge=files_while_killed,
                requires=("save_durably/order",),
            ),
        ),
    ),
    Exercise(
        name="seal",
        functions=("seal", "unseal"),
        minutes=15,
        difficulty="easy",
        proves="you can tell a damaged checkpoint from an intact one before a run continues from it",
        hints=(
            "torch.save can write into an io.BytesIO instead of a file; hashlib.sha256(data).digest() goes in front.",
            "torch.load puts a tensor on the device from which it was saved, such as a GPU, unless map_location names "
            "another device.",
            "unseal compares the digest first. For a foreign file torch.load raises errors of many types: catch "
            "Exception, and raise ValueError from it.",
        ),
        checks=(
            Check(
                "seal/format",
                "puts a digest in front of torch's bytes, and unseals such bytes",
                points=2,
                probe="seal_and_unseal",
                judge=all_of(
                    equals_reference(
                        "type", 0, lambda got, _: f"seal returned a value of type {shorten(got)}, not bytes."
                    ),
                    holds("content", "torch.load of the bytes after the first 32 does not give the state."),
                    holds("digest", "the first 32 bytes are not the SHA-256 digest of all bytes after them."),
                    holds("state", "seal has changed the state."),
                    equals_reference("ended", 0, lambda got, _: f"unseal of an intact file ended with {shorten(got)}."),
                    holds("unsealed", "unseal does not return the state of a sealed file."),
                ),
            ),
            Check(
                "seal/bits",
                "refuses a file in which one bit is flipped",
                points=3,
                probe="flipped_bits",
                judge=each_holds("outcomes", FLIPS, UNSEALED),
                requires=("seal/format",),
            ),
            Check(
                "seal/lengths",
                "refuses a file that is cut, too long or empty",
                points=1,
                probe="other_lengths",
                judge=each_holds("outcomes", LENGTHS, UNSEALED),
                requires=("seal/format",),
            ),
            Check(
                "seal/device",
                "reads a file that was written on a GPU into the CPU's memory",
                points=1,
                probe="written_on_a_gpu",
                judge=all_of(
                    equals_reference(
                        "ended", 0, lambda got, _: f"unseal ended with {shorten(got)}; expected no error."
                    ),
                    equals_reference("devices", 0, lambda got, _: f"the tensors are on {shorten(got)}, not the CPU."),
                    holds("state", "unseal does not return the state."),
                ),
                requires=("seal/format",),
            ),
            Check(
                "seal/foreign",
                "refuses what is no checkpoint, and runs no code from a file",
                points=2,
                probe="foreign",
                judge=all_of(
                    holds("sprung", "unseal ran code that a file contains."),
                    each_holds("outcomes", FOREIGN, "with a right digest in front, " + UNSEALED),
                ),
                requires=("seal/format",),
            ),
        ),
    ),
    Exercise(
        name="newest_intact",
        functions=("newest_intact",),
        minutes=10,
        difficulty="easy",
        proves="you can resume although the newest checkpoint is damaged",
        hints=(
            "re.fullmatch tests whether a name is step-N.pt, and a group of the pattern gives N. Convert N to int: as "
            "texts, '9' comes after '10'.",
            "Go through the steps from the highest down, and try to read each file. On ValueError or OSError, "
            "`continue` with the next older step.",
        ),
        checks=(
            Check(
                "newest_intact/order",
                "returns the newest checkpoint by its step",
                points=2,
                probe="newest",
                judge=all_of(
                    newest_is,
                    holds("left", "files in the folder were removed or added."),
                    holds("empty", "a checkpoint that is intact and whose content is an empty dict is not returned."),
                ),
            ),
            Check(
                "newest_intact/names",
                "ignores partial files and other names",
                points=1,
                probe="other_names",
                judge=newest_is,
            ),
            Check(
                "newest_intact/damaged",
                "falls back to the next older one, and reads no more than it must",
                points=2,
                probe="damaged_ones",
                judge=falls_back,
                requires=("newest_intact/order",),
            ),
            Check(
                "newest_intact/none",
                "returns None where nothing is intact, and lets other errors through",
                points=1,
                probe="nothing_intact",
                judge=all_of(
                    each_holds(
                        "answers",
                        ("in an empty folder", "in a folder that does not exist", "where all files are damaged"),
                        "the result is {got}; expected {expected}.",
                    ),
                    each_holds(
                        "others",
                        ("a MemoryError of read", "a KeyError of read", "a KeyboardInterrupt of read"),
                        "newest_intact ended with {got}; expected {expected}, which is no sign of damage.",
                    ),
                    holds("read", "not every damaged file was read once."),
                ),
                requires=("newest_intact/order",),
            ),
        ),
    ),
    Exercise(
        name="steps_to_delete",
        functions=("steps_to_delete",),
        minutes=10,
        difficulty="easy",
        proves="you can free disk space without deleting the checkpoint that you need",
        hints=(
            "Collect the steps to keep in a set: sorted(val_losses)[-keep:], and the step with the lowest loss.",
            "A comparison with nan is always false, so min may return nan: leave nan out first. Of equal values, min "
            "returns the first.",
        ),
        checks=(
            Check(
                "steps_to_delete/rule",
                "keeps the newest and the best",
                points=2,
                probe="deleted",
                judge=deletions,
            ),
            Check(
                "steps_to_delete/few",
                "deletes nothing where there are no more than it keeps",
                points=1,
                probe="few",
                judge=deletions,
            ),
            Check(
                "steps_to_delete/nan",
                "never takes nan for the best",
                points=1,
                probe="not_a_number",
                judge=deletions,
                requires=("steps_to_delete/rule",),
            ),
            Check(
                "steps_to_delete/equal",
                "takes the earliest of equal losses for the best",
                points=1,
                probe="equal_losses",
                judge=deletions,
                requires=("steps_to_delete/rule",),
            ),
        ),
    ),
    Exercise(
        name="EpochSampler",
        functions=("EpochSampler",),
        minutes=25,
        difficulty="medium",
        proves="you can resume in the middle of an epoch and draw no sample twice",
        hints=(
            "If (seed, epoch) decides the order, the state is two ints: the epoch, and the number of samples drawn in "
            "this epoch.",
            "np.random.default_rng((seed, epoch)) makes a new generator, and its permutation(n) is the epoch's order.",
            "next_batch: while the batch is not full, take from the epoch's order at the position; at the epoch's end, "
            "set the position to 0 and go to the next epoch.",
        ),
        checks=(
            Check(
                "EpochSampler/epochs",
                "draws each sample once per epoch, in an order that changes, and fills each batch",
                points=2,
                probe="epochs",
                judge=all_of(
                    holds("kinds", "next_batch returned something else than an int64 tensor of one dimension."),
                    holds("sizes", "not every batch has batch_size samples: at an epoch's end, go on with the next."),
                    parts(
                        once="an epoch does not hold each of the n samples exactly once.",
                        shuffled="the samples of an epoch come in ascending order.",
                        other_orders="two epochs have the same order.",
                        small="with batches larger than n, an epoch does not hold each sample once.",
                    ),
                ),
            ),
            Check(
                "EpochSampler/seeds",
                "makes the order a function of (seed, epoch)",
                points=1,
                probe="seeds",
                judge=parts(
                    same="two samplers of the same seed draw different samples.",
                    other="two seeds give the same order.",
                    shifted="the order of seed s in epoch 1 is that of seed s + 1 in epoch 0.",
                    digits="the order of seed s in epoch 12 is that of seed 10 s + 1 in epoch 2, or likewise.",
                ),
                requires=("EpochSampler/epochs",),
            ),
            Check(
                "EpochSampler/global",
                "neither uses nor changes the global random generators",
                points=1,
                probe="global_generators",
                judge=all_of(
                    holds("same order", "the order depends on a global random generator, or on its seed."),
                    each_holds(
                        "untouched",
                        ("Python's generator", "NumPy's generator", "torch's generator"),
                        "draws another number after the sampler has run.",
                    ),
                ),
                requires=("EpochSampler/epochs",),
            ),
            Check(
                "EpochSampler/resumed",
                "goes on exactly, in mid-epoch and across the end of one",
                points=3,
                probe="resumed",
                judge=each_holds(
                    "equal",
                    ("saved in the first epoch", "saved at the first epoch's end", "saved in a later epoch"),
                    "the samples after load_state_dict are not those that the saved sampler drew next.",
                ),
                requires=("EpochSampler/epochs", "EpochSampler/seeds", "EpochSampler/global"),
            ),
            Check(
                "EpochSampler/state",
                "has a state of a few ints, which stays as it is",
                points=1,
                probe="states",
                judge=all_of(
                    equals_reference("kinds", 0, lambda got, _: f"a state holds {shorten(got)}; expected ints only."),
                    parts(
                        few="a state is empty, or not a dict, or holds more than a few numbers.",
                        kept="a state changes while the sampler goes on: it is the sampler's own dict.",
                        not_written="the state that was loaded changes while the sampler goes on.",
                        first="after state_dict was called, the epoch no longer holds each sample once.",
                    ),
                ),
            ),
            Check(
                "EpochSampler/batch-size",
                "goes on with another batch size",
                points=1,
                probe="other_batch_size",
                judge=each_holds(
                    "equal",
                    ("with a smaller batch", "with a larger batch"),
                    "the samples after load_state_dict are not those that come next.",
                ),
                requires=("EpochSampler/resumed",),
            ),
        ),
    ),
    Exercise(
        name="training_state",
        functions=("training_state", "restore_training_state"),
        minutes=20,
        difficulty="medium",
        proves="you can name everything that the next step depends on",
        hints=(
            "Six objects have a state_dict(); each generator has a getter and a setter of its own.",
            "random.getstate, random.setstate; np.random.get_state, set_state; torch.get_rng_state, set_rng_state; "
            "torch.cuda.get_rng_state_all, set_rng_state_all, which also work where there is no GPU.",
            "np.random.get_state() is a tuple whose second item is an array: tolist() makes plain ints of it. "
            'np.random.set_state(("MT19937", *rest)) takes the list as well.',
        ),
        checks=(
            Check(
                "training_state/model",
                "restores the model, the optimizer and the step",
                points=2,
                probe="state_of_model",
                judge=all_of(
                    parts(
                        model="the model's weights or buffers are not those that were saved.",
                        moments="the optimizer's averages are not those that were saved.",
                        settings="the settings of the optimizer's groups are not those that were saved.",
                    ),
                    equals_reference("step", 0, lambda got, wanted: f"the step {mismatch_text(got, wanted)}"),
                    equals_reference("type", 0, lambda got, _: f"the step is of type {shorten(got)}, not int."),
                ),
            ),
            Check(
                "training_state/others",
                "restores the scheduler, the loss scaler, the average and the sampler",
                points=3,
                probe="state_of_others",
                judge=parts(
                    scheduler="the scheduler is not where it was when it was saved.",
                    scaler="the loss scale, or its count of steps since it grew, is not the one that was saved.",
                    average="the average of the weights is not the one that was saved.",
                    sampler="the sampler is not where it was when it was saved.",
                ),
            ),
            Check(
                "training_state/random",
                "restores the random generators of Python, NumPy, torch and each GPU",
                points=3,
                probe="state_of_generators",
                judge=parts(
                    python="after restoring, random.random() draws another number than the run that went on.",
                    numpy="after restoring, np.random.normal() draws another number than the run that went on.",
                    torch="after restoring, torch.rand() draws another number than the run that went on.",
                    cuda="with two GPUs, after restoring, a GPU's generator draws another number.",
                ),
            ),
            Check(
                "training_state/continues",
                "makes later steps equal to those of an uninterrupted run, bit for bit",
                points=2,
                probe="state_goes_on",
                judge=parts(
                    losses="the losses of later steps differ from those of the run that went on.",
                    end="after six more steps, the learning rate or the loss scale differs.",
                ),
                requires=("training_state/model", "training_state/others", "training_state/random"),
            ),
            Check(
                "training_state/safe",
                "holds tensors and plain values only, so that weights_only=True loads it",
                points=1,
                probe="state_is_safe",
                judge=holds("refused", "torch.load refuses the saved state with weights_only=True."),
                requires=("training_state/model",),
            ),
            Check(
                "training_state/untouched",
                "changes nothing in the run that saves",
                points=1,
                probe="saving_changes_nothing",
                judge=each_holds(
                    "same",
                    ("the model", "the optimizer", "the next random numbers", "the next losses", "the model's mode"),
                    "different in a run that has called training_state.",
                ),
                requires=("training_state/model",),
            ),
        ),
    ),
    Exercise(
        name="run_until_stopped",
        functions=("run_until_stopped",),
        minutes=20,
        difficulty="medium",
        proves="you can stop a run on request without losing a step or saving half of one",
        hints=(
            "The handler may come between any two lines, in the middle of a step. Let it set a flag, and nothing else.",
            "Note the last step that was saved: after the loop, save if it is not the last step that ran.",
            "signal.signal returns the earlier handler: put it back in a finally clause.",
        ),
        checks=(
            Check(
                "run_until_stopped/plan",
                "runs the steps and saves on time where no signal comes",
                points=2,
                probe="undisturbed",
                judge=runs_equal,
            ),
            Check(
                "run_until_stopped/step",
                "finishes the step in which SIGTERM comes, saves once, and stops",
                points=3,
                probe="stopped_in_a_step",
                judge=runs_equal,
                requires=("run_until_stopped/plan",),
            ),
            Check(
                "run_until_stopped/save",
                "finishes the save in which SIGTERM comes, and does not repeat it",
                points=2,
                probe="stopped_in_a_save",
                judge=runs_equal,
                requires=("run_until_stopped/step",),
            ),
            Check(
                "run_until_stopped/anywhere",
                "saves the last step although SIGTERM comes between any two lines",
                points=1,
                probe="stopped_anywhere",
                judge=holds(
                    "unsaved", "a SIGTERM between two lines ends the run with its last step unsaved or saved twice."
                ),
                requires=("run_until_stopped/step",),
            ),
            Check(
                "run_until_stopped/error",
                "lets an exception through, and puts the earlier handler back",
                points=1,
                probe="raising",
                judge=runs_equal,
                requires=("run_until_stopped/plan",),
            ),
        ),
    ),
    Exercise(
        name="snapshot",
        functions=("snapshot",),
        minutes=15,
        difficulty="medium",
        proves="you can copy a state so that training may go on while the copy is written",
        hints=(
            "Use recursion for dicts, lists and tuples; copy tensors; return plain values as they are.",
            "tensor.untyped_storage() is the memory of a tensor's numbers. Keep a dict from each storage to its copy.",
            "torch.empty(0, dtype=...).set_(storage, offset, size, stride) is a tensor in a given storage.",
        ),
        checks=(
            Check(
                "snapshot/copy",
                "has the same numbers, dtypes, shapes and containers, without gradients",
                points=2,
                probe="copied",
                judge=all_of(
                    parts(
                        copy="the copy differs from the state in numbers, dtypes, keys or containers.",
                        shapes="the copy has tensors of other shapes.",
                        unchanged="the state itself was changed.",
                    ),
                    equals_reference("types", 0, lambda got, _: f"the copy's tensors are of types {shorten(got)}."),
                    equals_reference(
                        "gradients",
                        0,
                        lambda got, _: f"{shorten(got)} tensors of the copy require a gradient; expected 0.",
                    ),
                    equals_reference("devices", 0, lambda got, _: f"the copy is on {shorten(got)}; expected the CPU."),
                ),
            ),
            Check(
                "snapshot/independent",
                "stays as it is when training goes on",
                points=3,
                probe="changed_afterwards",
                judge=parts(
                    tensors="an in-place change of the live tensors changes the copy.",
                    containers="a change of the live dicts and lists changes the copy.",
                ),
                requires=("snapshot/copy",),
            ),
            Check(
                "snapshot/tied",
                "copies tied tensors once, and they stay tied",
                points=2,
                probe="tied",
                judge=all_of(
                    equals_reference(
                        "storages", 0, lambda got, want: f"the copy has {shorten(got)} storages; expected {want}."
                    ),
                    equals_reference(
                        "bytes", 0, lambda got, want: f"the copy holds {shorten(got)} bytes; expected {want}."
                    ),
                    parts(
                        weights="two weights that were tied are two tensors in the copy.",
                        part="a part of a tensor no longer shares memory with the whole in the copy.",
                        equal_but_not_tied="two tensors with equal numbers share memory in the copy only.",
                    ),
                ),
                requires=("snapshot/copy",),
            ),
        ),
    ),
    Exercise(
        name="BackgroundSaver",
        functions=("BackgroundSaver",),
        minutes=20,
        difficulty="medium",
        proves="you can save while training goes on, and notice when a save fails",
        hints=(
            "save has three parts, in this order: wait for the earlier write, take the snapshot, start the thread.",
            "concurrent.futures.ThreadPoolExecutor(1).submit returns a Future; its result() waits, and raises what the "
            "function raised.",
            "Set the Future aside before you call result(), so that its exception is raised once.",
        ),
        checks=(
            Check(
                "BackgroundSaver/background",
                "writes in another thread: save returns before the write ends, wait after it",
                points=2,
                probe="background",
                judge=all_of(
                    holds("before", "save returned only when the write had ended."),
                    holds("after", "wait returned before the write had ended, or the write ran more than once."),
                    holds("other thread", "the write ran in the thread that called save."),
                    holds("written", "what was written is not the state."),
                    holds("returned", "save and wait return None."),
                    holds("idle", "wait returns None before any save."),
                ),
            ),
            Check(
                "BackgroundSaver/consistent",
                "writes the state as it was when save was called",
                points=2,
                probe="consistent",
                judge=all_of(
                    holds("copy", "the write gets the live state, not a snapshot."),
                    holds("as it was", "training changed the state after save, and the changed state was written."),
                ),
                requires=("BackgroundSaver/background", "snapshot/independent"),
            ),
            Check(
                "BackgroundSaver/one-at-a-time",
                "runs one write at a time, in order",
                points=2,
                probe="one_at_a_time",
                judge=all_of(
                    equals_reference(
                        "most", 0, lambda got, _: f"{shorten(got)} writes ran at the same time; expected 1."
                    ),
                    equals_reference(
                        "order", 0, lambda got, want: f"the writes ended in the order {shorten(got)}; expected {want}."
                    ),
                    holds("behind", "save returned while an earlier write was still waiting for its turn."),
                ),
                requires=("BackgroundSaver/background",),
            ),
            Check(
                "BackgroundSaver/errors",
                "raises a write's exception once, at the next save or wait",
                points=2,
                probe="errors_of_the_thread",
                judge=all_of(
                    each_holds(
                        "wait",
                        ("save of a state whose write fails", "the wait after it", "a second wait"),
                        "{got}; expected {expected}.",
                    ),
                    each_holds(
                        "save",
                        (
                            *("save of a state whose write fails", "the save after it", "the wait after that"),
                            *("the next save", "the wait after that"),
                        ),
                        "{got}; expected {expected}.",
                    ),
                    equals_reference(
                        "written",
                        0,
                        lambda got, want: f"after each save, {shorten(got)} states are written; expected {want}.",
                    ),
                ),
                requires=("BackgroundSaver/background",),
            ),
        ),
    ),
    Exercise(
        name="expected_seconds",
        functions=("expected_seconds",),
        minutes=10,
        difficulty="easy",
        proves="you can say what failures cost a run",
        hints=(
            "A failure during the save loses the whole segment, as a failure during its training does. So the length "
            "of a segment is interval + save.",
            "For small x, exp(x) - 1 consists mostly of rounding errors. math.expm1(x) has all its digits.",
        ),
        checks=(
            Check(
                "expected_seconds/failures",
                "counts training, saves, lost time and restarts",
                points=3,
                probe="expected",
                judge=SECONDS,
            ),
            Check(
                "expected_seconds/rare",
                "is exact where failures are rare, or never come",
                points=2,
                probe="rare_failures",
                judge=SECONDS,
                requires=("expected_seconds/failures",),
            ),
        ),
    ),
    Exercise(
        name="best_interval",
        functions=("best_interval",),
        minutes=15,
        difficulty="medium",
        proves="you can choose how often to save",
        hints=(
            "At t = 0 the right side of the docstring's equation is above t, and at t = M it is below t: the root is "
            "between 0 and M.",
            "Halve the bracket a hundred times, and keep the half in which (right side - t) changes its sign.",
        ),
        checks=(
            Check(
                "best_interval/rare",
                "finds the interval where failures are rare",
                points=2,
                probe="best_of_rare",
                judge=INTERVALS,
            ),
            Check(
                "best_interval/frequent",
                "finds the interval where failures are as frequent as saves",
                points=2,
                probe="best_of_frequent",
                judge=INTERVALS,
            ),
        ),
    ),
)
