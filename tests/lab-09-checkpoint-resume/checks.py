"""Lab 09, checks: what each exercise's code must do, for how many points, and how a mistake is worded."""

from rankzero.exercises.checks.check import Check, Exercise, Judge
from rankzero.exercises.checks.judges import all_of, each_says, equals_reference, items, mismatch_text, says, shorten
from rankzero.exercises.probes.answers import Answers, equal


def parts(**failures: str) -> Judge:
    """Passes if each named answer equals the reference's; the name's underscores stand for spaces."""
    return all_of(*(says(name.replace("_", " "), failure) for name, failure in failures.items()))


# -------------------------------------------------------------------------------------------------------- save_durably
NOT_DAMAGE = "MemoryError", "KeyError", "RuntimeError", "EOFError", "KeyboardInterrupt"
CONTENTS = ("a new file", "a file in place of a longer one", "an empty file in place of another")
CASES = (
    *("writing on a full disk", "an fsync that fails", "a Ctrl-C in fsync", "a rename that fails"),
    *("too many open files, so that no partial file was made", "an fsync of the folder that fails"),
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
        return f"the folder is {shorten(got.get('folder'))}: the rename itself may not be on the disk."
    return None if got.get("partial") is True else "the partial file's name does not end in .partial."


def files_while_killed(got: Answers, expected: Answers) -> str | None:
    """At each moment the file is the old or the new one; the next save works."""
    found, ended, again = shorten(got.get("found")), got.get("ended"), got.get("again")
    if found != "whole":
        bad = "missing" if "missing" in found else "neither the old nor the new one"
        return f"killed before one of the lines of save_durably, it leaves a file that is {bad}."
    if not equal(ended, ["no error"]):
        errors = [text for text in ended if not equal(text, "no error")] if isinstance(ended, list) else ended
        return f"the next save, beside a partial file that a killed save left, ended with {shorten(errors)}."
    if again is not True:
        return "after a save beside a partial file that a killed save left, the file is not the bytes of data."
    return None


# ------------------------------------------------------------------------------------------------------- newest_intact
def newest_is(got: Answers, expected: Answers) -> str | None:
    """The step, its content and, if they are among the answers, the files that were read."""
    step, content = items(got.get("answer"), expected["answer"])
    read, reference = shorten(got.get("read")), expected["answer"][0]
    files = f" The files read were {read}." if "read" in expected else ""
    if isinstance(step, str):
        return f"the result is {shorten(step)}; expected a tuple of step {reference} and its content."
    if not equal(step, reference):
        return f"the newest intact step is {shorten(step)}; expected {reference}.{files}"
    if content is not True:
        return f"with step {step}, the content is not what read returned for step-{step}.pt."
    if "read" in expected and not equal(got.get("read"), expected["read"]):
        return f"the files read were {read}; expected {expected['read']}."
    return None


def falls_back(got: Answers, expected: Answers) -> str | None:
    """With each kind of damage: no exception, no file removed, the step, its content, and the files that were read."""
    for place, case in enumerate(
        ("ValueError for the newest", "OSError for the newest", "ValueError for all but step 0")
    ):
        ended, left = (items(got.get(name), expected[name])[place] for name in ("ended", "left"))
        if not equal(ended, "no error"):
            return f"read raised {case}, and newest_intact ended with {shorten(ended)}."
        if left is not True:
            return f"read raised {case}, and files in the folder were removed, renamed or added."
        answer = {"answer": items(got.get("answers"), expected["answers"])[place]}
        answer["read"] = items(got.get("reads"), expected["reads"])[place]
        reference = {"answer": expected["answers"][place], "read": expected["reads"][place]}
        if failure := newest_is(answer, reference):
            return f"read raised {case}: {failure}"
    return None


# ----------------------------------------------------------------------------------- training_state, run_until_stopped
CONTINUED = (
    *("the model", "the optimizer", "the scheduler", "the loss scaler", "the average", "the sampler"),
    *("the next random numbers", "the next losses", "the modes of model and average", "the gradients"),
)


def first_difference(events: object, expected: list[str]) -> str:
    """Returns five steps and saves from the first that differs on, and the expected ones."""
    if not isinstance(events, list):
        return f"the steps and saves are {shorten(events)}; expected a list."
    same = (equal(*pair) for pair in zip(events, expected, strict=False))
    place = next((at for at, equals in enumerate(same) if not equals), min(len(events), len(expected)))
    before = f"after {expected[place - 1]}, " if place else ""
    rest, right = (
        ", ".join(shorten(event, 20) for event in some[place : place + 5]) or "nothing" for some in (events, expected)
    )
    return f"{before}{rest}; expected {right}."


def runs_equal(got: Answers, expected: Answers) -> str | None:
    """Of each run: what is returned, the steps and saves in order, and the signals that its handler did not get."""
    runs = items(got.get("runs"), expected["runs"])
    plans = expected.get("plans") or [expected.get("plan")] * len(runs)
    for plan, run, reference in zip(plans, runs, expected["runs"], strict=True):
        returned, events, earlier = items(run, reference)
        where = "" if plan is None else "with done={}, last={}, every={}: ".format(*plan)
        if not equal(events, reference[1]):
            return f"{where}{first_difference(events, reference[1])}"
        if not equal(returned, reference[0]):
            return f"{where}returned {shorten(returned)}; expected {reference[0]}."
        if not equal(earlier, reference[2]):
            return f"{where}a SIGTERM reached the earlier handler while the function ran."
    return None


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
                "writes all bytes, replaces an old file, and leaves no other file",
                points=2,
                probe="saved",
                judge=all_of(
                    each_says("contents", CONTENTS, "the bytes in the file are not those of data."),
                    each_says("files", CONTENTS, "{got} files are in the folder; expected {expected}."),
                    says("open", "a file or a folder that was opened is still open at the end."),
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
                "keeps the old file and leaves no partial file if the save fails",
                points=2,
                probe="failing",
                judge=all_of(
                    each_says("ended", CASES, "save_durably ended with {got}; expected {expected}."),
                    each_says("earlier", CASES[:-1], "the old file is gone or changed."),
                    says("new", f"{CASES[-1]}: the new file, which has its name already, is gone or changed."),
                    each_says("files", CASES, "{got} files are in the folder; expected {expected}."),
                    each_says("open", CASES, "a file or a folder that was opened is still open at the end."),
                    says("here", 'with path=Path("step-1.pt"), save_durably ended with {got}; expected {expected}.'),
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
                    says("left", "files in the folder were removed or added."),
                    says("empty", "a checkpoint that is intact and whose content is an empty dict is not returned."),
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
                "falls back to the next older checkpoint, and reads no more files than it must",
                points=2,
                probe="damaged_ones",
                judge=falls_back,
                requires=("newest_intact/order",),
            ),
            Check(
                "newest_intact/none",
                "returns None if no file is intact, and lets other exceptions through",
                points=1,
                probe="nothing_intact",
                judge=all_of(
                    each_says(
                        "answers",
                        ("in an empty folder", "in a folder that does not exist", "with all files damaged"),
                        "the result is {got}; expected {expected}.",
                    ),
                    each_says(
                        "others",
                        tuple(f"{name} of read" for name in NOT_DAMAGE),
                        "newest_intact ended with {got}; expected {expected}, which does not mean a damaged file.",
                    ),
                    says("read", "not every damaged file was read once."),
                ),
                requires=("newest_intact/order",),
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
            "torch.cuda.get_rng_state_all, set_rng_state_all, which also work without a GPU.",
            "np.random.get_state() is a tuple whose second item is an array: tolist() makes plain ints of it. "
            'np.random.set_state(("MT19937", *rest)) takes the list as well.',
        ),
        checks=(
            Check(
                "training_state/model",
                "restores the model, the optimizer and the step",
                points=2,
                probe="restore_run",
                after="save_run",
                judge=all_of(
                    parts(
                        model="the model's weights or buffers are not those that were saved.",
                        moments="the optimizer's averages are not those that were saved.",
                        settings="the settings of the optimizer's groups are not those that were saved.",
                        type="the step is of type {got}, not int.",
                    ),
                    equals_reference("step", 0, lambda got, wanted: f"the step {mismatch_text(got, wanted)}"),
                ),
            ),
            Check(
                "training_state/others",
                "restores the scheduler, the loss scaler, the average and the sampler",
                points=3,
                probe="restore_run",
                after="save_run",
                judge=parts(
                    scheduler="the scheduler is not in the state that was saved.",
                    scaler="the loss scale, or its count of steps since it grew, is not the one that was saved.",
                    average="the average of the weights is not the one that was saved.",
                    sampler="the sampler is not at the position that was saved.",
                ),
            ),
            Check(
                "training_state/random",
                "restores the random generators of Python, NumPy, torch and each GPU",
                points=3,
                probe="restore_run",
                after="save_run",
                judge=parts(
                    python="after restoring, random.random() draws another number than in the uninterrupted run.",
                    numpy="after restoring, np.random.normal() draws another number than in the uninterrupted run.",
                    torch="after restoring, torch.rand() draws another number than in the uninterrupted run.",
                    cuda="with two GPUs, after restoring, a GPU's generator draws another number.",
                ),
            ),
            Check(
                "training_state/continues",
                "makes later steps equal to those of an uninterrupted run, bit for bit",
                points=2,
                probe="restore_run",
                after="save_run",
                judge=parts(
                    ended="a later step of the run ended with {got}; expected {expected}.",
                    losses="the losses of later steps differ from those of the uninterrupted run.",
                    end="after six more steps, the learning rate or the loss scale differs.",
                ),
                requires=("training_state/model", "training_state/others", "training_state/random"),
            ),
            Check(
                "training_state/safe",
                "holds tensors and plain values only, so that weights_only=True loads it",
                points=1,
                probe="restore_run",
                after="save_run",
                judge=says("refused", "torch.load refuses the saved state with weights_only=True: {got}"),
                requires=("training_state/model",),
            ),
            Check(
                "training_state/untouched",
                "changes nothing in the run that saves",
                points=1,
                probe="restore_run",
                after="save_run",
                judge=each_says(
                    "continued",
                    CONTINUED,
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
            "The handler may run between any two lines, in the middle of a step. Let it set a flag, and nothing else.",
            "Note the last step that was saved. After the loop, save if it is not the last step that ran.",
            "signal.signal returns the earlier handler: install it again in a finally clause.",
        ),
        checks=(
            Check(
                "run_until_stopped/plan",
                "runs the steps and saves on time if no signal comes",
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
                "saves the last step once if SIGTERM comes between any two lines",
                points=1,
                probe="stopped_anywhere",
                judge=says(
                    "unsaved", "a SIGTERM between two lines ends the run with its last step unsaved or saved twice."
                ),
                requires=("run_until_stopped/step",),
            ),
            Check(
                "run_until_stopped/error",
                "lets an exception through, and installs the earlier handler again",
                points=1,
                probe="raising",
                judge=all_of(
                    runs_equal,
                    each_says(
                        "back",
                        ("without a step", "without an error", "with a step that fails", "with a save that fails"),
                        "at the end, SIGTERM does not have its earlier handler.",
                    ),
                ),
                requires=("run_until_stopped/plan",),
            ),
        ),
    ),
    Exercise(
        name="snapshot",
        functions=("snapshot",),
        minutes=15,
        difficulty="medium",
        proves="you can copy a state so that training may continue while the copy is written",
        hints=(
            "Use recursion for dicts, lists and tuples; copy tensors; return plain values as they are.",
            "tensor.untyped_storage() is the memory of a tensor's values. Keep a dict from each storage to its copy.",
            "torch.empty(0, dtype=...).set_(storage, offset, size, stride) is a tensor in a given storage.",
        ),
        checks=(
            Check(
                "snapshot/copy",
                "has the same values, dtypes, shapes and containers, without gradients",
                points=2,
                probe="copied",
                judge=parts(
                    copy="the copy differs from the state in values, dtypes, keys or containers.",
                    shapes="the copy has tensors of other shapes.",
                    unchanged="the state itself was changed.",
                    types="the copy's tensors are of types {got}; expected {expected}.",
                    gradients="{got} tensors of the copy require a gradient; expected 0.",
                    devices="the copy is on {got}; expected {expected}.",
                ),
            ),
            Check(
                "snapshot/independent",
                "does not change when training continues",
                points=3,
                probe="changed_afterwards",
                judge=parts(
                    dicts="an in-place change of the live tensors in dicts changes the copy.",
                    lists="an in-place change of the live tensors in a list changes the copy.",
                    tuples="an in-place change of the live tensors in a tuple changes the copy.",
                    containers="a change of the live dicts and lists changes the copy.",
                ),
                requires=("snapshot/copy",),
            ),
            Check(
                "snapshot/tied",
                "copies tied tensors once, and they stay tied",
                points=2,
                probe="tied",
                judge=parts(
                    storages="the copy has {got} storages; expected {expected}.",
                    bytes="the copy holds {got} bytes; expected {expected}.",
                    weights="two weights that were tied are two tensors in the copy.",
                    part="a slice or a transposed view no longer shares memory with its tensor in the copy.",
                    equal_but_not_tied="two tensors with equal values share memory in the copy, and not in the state.",
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
        proves="you can save while training continues, and notice when a save fails",
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
                judge=parts(
                    before="save returned only when the write had ended.",
                    after="wait returned before the write had ended, or the write ran more than once.",
                    other_thread="the write ran in the thread that called save.",
                    written="the value that was written is not the state.",
                    returned="save and wait return {got}; expected {expected}.",
                    idle="wait before any save returns {got}; expected {expected}.",
                    apart="wait of one saver waits for the write of another saver.",
                ),
                requires=("snapshot/copy",),
            ),
            Check(
                "BackgroundSaver/consistent",
                "writes the state as it was when save was called",
                points=2,
                probe="consistent",
                judge=parts(
                    copy="write gets the live state, not a snapshot.",
                    as_it_was="training changed the state after save, and the changed state was written.",
                ),
                requires=("BackgroundSaver/background", "snapshot/independent"),
            ),
            Check(
                "BackgroundSaver/one-at-a-time",
                "runs one write at a time, in order",
                points=2,
                probe="one_at_a_time",
                judge=parts(
                    most="{got} writes ran at the same time; expected 1.",
                    order="the writes ended in the order {got}; expected {expected}.",
                    behind="save returned while an earlier write had not ended.",
                    copies="the snapshot is taken while the earlier one is written: two copies are in memory.",
                ),
                requires=("BackgroundSaver/background",),
            ),
            Check(
                "BackgroundSaver/errors",
                "raises a write's exception once, at the next save or wait",
                points=2,
                probe="errors_of_the_thread",
                judge=all_of(
                    each_says(
                        "wait",
                        ("save of a state whose write fails", "the wait after it", "a second wait"),
                        "{got}; expected {expected}.",
                    ),
                    each_says(
                        "save",
                        (
                            *("save of a state whose write fails", "the save after it", "the wait after that"),
                            *("the next save", "the wait after that"),
                        ),
                        "{got}; expected {expected}.",
                    ),
                    says(
                        "tried",
                        "the writes that began, before and after the second wait, 1 and 2 being those that fail, are "
                        "{got}; expected {expected}.",
                    ),
                ),
                requires=("BackgroundSaver/background",),
            ),
        ),
    ),
)
