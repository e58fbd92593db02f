"""Known-wrong solutions of Lab 09, and hurried answers, as changes to exercises.py."""

from rankzero.exercises.checks.known_wrong import KnownWrong

TASKS = "labs/lab-09-checkpoint-resume.md#exercises"
CHAPTER = "handbook/checkpoints-and-faults.md"
STATE = f"{CHAPTER}#contents-of-a-checkpoint"
FILE = f"{CHAPTER}#writing-the-files"
DAMAGED = f"{CHAPTER}#damaged-files"
DELETED = f"{CHAPTER}#deleting-old-checkpoints"
STOPPED = f"{CHAPTER}#stopping-on-request"
BACKGROUND = f"{CHAPTER}#saving-while-training-goes-on"


def not_restored(name: str, fails: str, line: str, explanation: str) -> KnownWrong:
    """Returns a solution whose restore_training_state leaves out one line."""
    return KnownWrong(name, (fails,), STATE, explanation, change=f"-    {line}")


KNOWN_WRONG = (
    KnownWrong(
        "folder_left_open",
        fails=("save_durably/content",),
        read=TASKS,
        explanation="""Each save leaves a file or a folder open. A process may have about a thousand open files. When a
        long run reaches this limit, every further save fails.""",
        change="""
-    try:
-        os.fsync(folder)
-    finally:
-        os.close(folder)
+    os.fsync(folder)
""",
    ),
    KnownWrong(
        "written_in_place",
        fails=("save_durably/order",),
        read=FILE,
        explanation="""The bytes are written to the file itself. Opening it for writing deletes the old checkpoint, and
        the new one is complete only after the last byte. A kill in between loses both.""",
        definitions="""
def save_durably(path, data):
    path.write_bytes(data)
""",
    ),
    KnownWrong(
        "file_not_synced",
        fails=("save_durably/order",),
        read=FILE,
        explanation="""The file is renamed before its bytes are on disk. The kernel writes names and bytes in any order,
        so after a power cut the new name may belong to an empty file, and the old checkpoint is gone. A kill of the
        process does not show this mistake, because the kernel still writes the bytes.""",
        change="""
             file.write(data)
-            file.flush()
-            os.fsync(file.fileno())
""",
    ),
    KnownWrong(
        "synced_before_flush",
        fails=("save_durably/order",),
        read=FILE,
        explanation="""fsync is called before the bytes have left Python's buffer. It puts on disk what the kernel has
        of the file, and the end of the file is still missing. Call flush first.""",
        change="""
             file.write(data)
-            file.flush()
             os.fsync(file.fileno())
""",
    ),
    KnownWrong(
        "folder_not_synced",
        fails=("save_durably/order",),
        read=FILE,
        explanation="""The rename is not put on disk. A rename changes the folder, so only an fsync of the folder waits
        for it. After a power cut, the folder may still have the old file, although the program has continued and may
        have deleted an older checkpoint.""",
        change="""
-    folder = os.open(path.parent, os.O_RDONLY)
-    try:
-        os.fsync(folder)
-    finally:
-        os.close(folder)
""",
    ),
    KnownWrong(
        "old_removed_first",
        fails=("save_durably/failures", "save_durably/killed"),
        read=FILE,
        explanation="""The old file is removed before the new file gets its name. In between, there is no checkpoint.
        os.replace replaces an old file in one step.""",
        change="""
+        path.unlink(missing_ok=True)
         os.replace(partial, path)
""",
    ),
    KnownWrong(
        "partial_in_the_way",
        fails=("save_durably/killed",),
        read=TASKS,
        explanation="""The save fails if a partial file exists already, as with open(..., "xb") or O_EXCL. A killed save
        has left such a file, so the first save of the restarted run fails.""",
        change="""
-        with partial.open("wb") as file:
+        with partial.open("xb") as file:
""",
    ),
    KnownWrong(
        "sorted_as_text",
        fails=("newest_intact/order",),
        read=DELETED,
        explanation="""The steps are sorted as texts, and as texts '9' comes after '10'. The run resumes from step 9
        instead of 10, or 900 instead of 1000, and trains the steps in between again.""",
        change="""
-    for step in sorted((int(match[1]) for match in matches if match), reverse=True):
+    for step in sorted((match[1] for match in matches if match), reverse=True):
@@
-            return step, read(folder / f"step-{step}.pt")
+            return int(step), read(folder / f"step-{step}.pt")
""",
    ),
    KnownWrong(
        "any_number_in_a_name",
        fails=("newest_intact/names",),
        read=TASKS,
        explanation="""Every name that contains a step counts, also step-12.pt.partial. The file of a killed save is
        taken for a checkpoint.""",
        change="""
-    matches = [re.fullmatch(r"step-([0-9]+)\\.pt", file.name) for file in folder.glob("*")]
+    matches = [re.search(r"step-([0-9]+).pt", file.name) for file in folder.glob("*")]
""",
    ),
    KnownWrong(
        "damaged_file_ends_the_run",
        fails=("newest_intact/damaged", "newest_intact/none"),
        read=DAMAGED,
        explanation="""The newest file is damaged, and its exception ends the program although older checkpoints are
        intact. Older checkpoints are kept for this case.""",
        change="""
-        try:
-            return step, read(folder / f"step-{step}.pt")
-        except (ValueError, OSError):
-            continue
+        return step, read(folder / f"step-{step}.pt")
""",
    ),
    KnownWrong(
        "every_error_is_damage",
        fails=("newest_intact/none",),
        read=TASKS,
        explanation="""Every exception counts as damage. With a MemoryError or a bug in `read`, every checkpoint is
        skipped, and the run starts again at step 0 without an error.""",
        change="""
+    from contextlib import suppress
+
     matches = [re.fullmatch(r"step-([0-9]+)\\.pt", file.name) for file in folder.glob("*")]
@@
-        try:
-            return step, read(folder / f"step-{step}.pt")
-        except (ValueError, OSError):
-            continue
+        with suppress(Exception):
+            return step, read(folder / f"step-{step}.pt")
""",
    ),
    not_restored(
        "optimizer_forgotten",
        "training_state/model",
        'optimizer.load_state_dict(state["optimizer"])',
        """The optimizer starts with empty averages and its initial learning rate. After each resume, AdamW's bias
        correction makes the first steps as large as those of a new run.""",
    ),
    not_restored(
        "sampler_forgotten",
        "training_state/others",
        'sampler.load_state_dict(state["sampler"])',
        """The sampler starts at its beginning again. The run trains a second time on samples that it has seen, and a
        run that is killed often never draws the last samples.""",
    ),
    not_restored(
        "cuda_generators_forgotten",
        "training_state/random",
        'torch.cuda.set_rng_state_all(state["cuda"])',
        """The generators of the GPUs are not restored. Dropout on a GPU draws from the GPU's own generator, so later
        losses differ on a GPU and are right on a CPU.""",
    ),
    KnownWrong(
        "weights_assigned",
        fails=("training_state/continues",),
        read=STATE,
        explanation="""The model's parameters are replaced by new tensors, as with load_state_dict(..., assign=True).
        The optimizer still updates the old tensors, so the model learns nothing more. load_state_dict without assign
        copies the values into the parameters.""",
        change="""
-    model.load_state_dict(state["model"])
+    model.load_state_dict(state["model"], assign=True)
""",
    ),
    KnownWrong(
        "numpy_array_in_the_file",
        fails=("training_state/safe",),
        read=DAMAGED,
        explanation="""torch.load refuses the file with weights_only=True, because the file holds objects other than
        tensors and plain values, such as a NumPy array. People then load it with weights_only=False, and such a file
        can run code.""",
        change="""
-        "numpy": [np.asarray(keys).tolist(), position, has_gauss, gauss],
+        "numpy": [keys, position, has_gauss, gauss],
""",
    ),
    KnownWrong(
        "left_in_evaluation_mode",
        fails=("training_state/untouched",),
        read=TASKS,
        explanation="""Saving changes the model's mode. After a save, the run trains without dropout, so the steps at
        which it saves change its weights.""",
        change="""
+    model.eval()
     return {
""",
    ),
    KnownWrong(
        "last_step_unsaved",
        fails=("run_until_stopped/plan",),
        read=STOPPED,
        explanation="""Only each step that `every` divides is saved. A run that ends or is stopped at another step loses
        the steps since the last save.""",
        change="""
-        if done != saved:
-            save(done)
""",
    ),
    KnownWrong(
        "saved_in_the_handler",
        fails=("run_until_stopped/step",),
        read=STOPPED,
        explanation="""The checkpoint is written inside the signal handler. Python may call the handler in the middle of
        optimizer.step(): some weights are then from the new step and others from the old step.""",
        change="""
-        nonlocal stop
-        stop = True
+        nonlocal stop, saved
+        stop, saved = True, done + 1
+        save(done)
@@
-    before = signal.signal(signal.SIGTERM, handle)
-    try:
-        saved = done
+    saved = done
+    before = signal.signal(signal.SIGTERM, handle)
+    try:
""",
    ),
    KnownWrong(
        "one_step_more",
        fails=("run_until_stopped/save",),
        read=STOPPED,
        explanation="""A SIGTERM that comes during a save is noticed one step too late. The notice may be over before
        that step ends. The step is not needed.""",
        change="""
-        while done < last and not stop:
+        while done < last:
             step(done + 1)
             done += 1
+            stopping = stop
             if done % every == 0:
                 save(done)
                 saved = done
+            if stopping:
+                break
""",
    ),
    KnownWrong(
        "flag_read_twice",
        fails=("run_until_stopped/anywhere",),
        read=TASKS,
        explanation="""The flag is read once for the save and once more for the next step. If SIGTERM comes between the
        two, the run ends and its last step is not saved. Decide about the last save after the loop.""",
        change="""
-            if done % every == 0:
+            if stop or done % every == 0 or done == last:
                 save(done)
-                saved = done
-        if done != saved:
-            save(done)
""",
    ),
    KnownWrong(
        "handler_left_after_an_error",
        fails=("run_until_stopped/error",),
        read=TASKS,
        explanation="""The earlier handler is installed again when the run ends as planned, but not after an exception.
        In a notebook or a server, the program continues after the exception, and then ignores SIGTERM.""",
        change="""
-        return done
-    finally:
-        signal.signal(signal.SIGTERM, before)
+        signal.signal(signal.SIGTERM, before)
+        return done
+    finally:
+        pass
""",
    ),
    KnownWrong(
        "deepcopied",
        fails=("snapshot/copy",),
        read=TASKS,
        explanation="""copy.deepcopy keeps the kind of each object: parameters stay parameters, and tensors stay on
        their GPU, where the copy takes memory that training needs. It refuses a tensor with a graph.""",
        definitions="""
def snapshot(state):
    import copy

    return copy.deepcopy(state)
""",
    ),
    KnownWrong(
        "shared_with_the_running_step",
        fails=("snapshot/independent",),
        read=BACKGROUND,
        explanation="""The tensors of the snapshot share memory with the live tensors: detach() copies nothing, and
        cpu() copies nothing if the tensor is on the CPU already. The next optimizer.step() changes the snapshot while
        it is written, so the file mixes two steps.""",
        change="""
-            storage = value.untyped_storage()
-            if storage._cdata not in storages:
-                storages[storage._cdata] = torch.UntypedStorage(storage.nbytes()).copy_(storage)
-            empty = torch.empty(0, dtype=value.dtype)
-            return empty.set_(storages[storage._cdata], value.storage_offset(), value.size(), value.stride())
+            return value.detach().cpu()
""",
    ),
    KnownWrong(
        "tied_weights_copied_twice",
        fails=("snapshot/tied",),
        read=TASKS,
        explanation="""Each tensor is cloned separately, so tied weights become two tensors. The snapshot takes more
        memory than the model. The file is larger too, because torch.save writes each storage once.""",
        change="""
-            storage = value.untyped_storage()
-            if storage._cdata not in storages:
-                storages[storage._cdata] = torch.UntypedStorage(storage.nbytes()).copy_(storage)
-            empty = torch.empty(0, dtype=value.dtype)
-            return empty.set_(storages[storage._cdata], value.storage_offset(), value.size(), value.stride())
+            return value.detach().cpu().clone()
""",
    ),
    KnownWrong(
        "in_the_foreground",
        fails=("BackgroundSaver/background",),
        read=BACKGROUND,
        explanation="""save returns when the write has ended, and training waits for the disk, as without a thread.""",
        change="""
-        self.pending = self.thread.submit(self.write, snapshot(state))
+        self.thread.submit(self.write, snapshot(state)).result()
""",
    ),
    KnownWrong(
        "no_snapshot",
        fails=("BackgroundSaver/consistent",),
        read=BACKGROUND,
        explanation="""The thread writes the live state while training changes it. The file then holds weights of
        several steps, and nothing in it shows this.""",
        change="""
-        self.pending = self.thread.submit(self.write, snapshot(state))
+        self.pending = self.thread.submit(self.write, state)
""",
    ),
    KnownWrong(
        "snapshot_in_the_thread",
        fails=("BackgroundSaver/consistent",),
        read=BACKGROUND,
        explanation="""The thread takes the snapshot, and save does not wait for it. The next step can change the
        weights before the thread has copied them. The thread is usually fast enough, so tests of the file rarely show
        the mistake.""",
        change="""
-        self.pending = self.thread.submit(self.write, snapshot(state))
+        self.pending = self.thread.submit(lambda: self.write(snapshot(state)))
""",
    ),
    KnownWrong(
        "saves_pile_up",
        fails=("BackgroundSaver/one-at-a-time", "BackgroundSaver/errors"),
        read=BACKGROUND,
        explanation="""save does not wait for the earlier write. If writing takes longer than the interval between
        saves, snapshots fill the memory. The exception of an earlier write is never raised.""",
        change="""
-        self.wait()
         self.pending = self.thread.submit(self.write, snapshot(state))
""",
    ),
    KnownWrong(
        "error_of_the_thread_lost",
        fails=("BackgroundSaver/errors",),
        read=BACKGROUND,
        explanation="""An exception in the thread is not raised in the program. If the disk is full, every save fails,
        and training continues for days without a checkpoint.""",
        change="""
-            pending.result()
+            pending.exception()
""",
    ),
)

HURRIED = {
    "save_durably": {
        "renamed, nothing synced": """
-            file.flush()
-            os.fsync(file.fileno())
""",
        "the partial file is enough": """
-        os.replace(partial, path)
+        path.write_bytes(data)
""",
        "appends to what is left": """
-        with partial.open("wb") as file:
+        with partial.open("ab") as file:
""",
    },
    "newest_intact": {
        "the oldest": """
-    for step in sorted((int(match[1]) for match in matches if match), reverse=True):
+    for step in sorted(int(match[1]) for match in matches if match):
""",
    },
    "training_state": {
        "the model alone": """
-    optimizer.load_state_dict(state["optimizer"])
-    scheduler.load_state_dict(state["scheduler"])
-    scaler.load_state_dict(state["scaler"])
-    average.load_state_dict(state["average"])
-    sampler.load_state_dict(state["sampler"])
-    random.setstate(state["python"])
-    np.random.set_state(("MT19937", *state["numpy"]))
-    torch.set_rng_state(state["torch"])
""",
    },
    "run_until_stopped": {
        "no handler": """
-    before = signal.signal(signal.SIGTERM, handle)
+    before = signal.getsignal(signal.SIGTERM)
""",
        "saves after every step": """
-            if done % every == 0:
+            if done:
""",
    },
    "snapshot": {
        "a copy of the outer dict": """
-    return copied(state)
+    return dict(state)
""",
    },
    "BackgroundSaver": {
        "writes at once": """
-        self.pending = self.thread.submit(self.write, snapshot(state))
+        self.write(snapshot(state))
""",
        "two copies in memory": """
+        copy = snapshot(state)
         self.wait()
-        self.pending = self.thread.submit(self.write, snapshot(state))
+        self.pending = self.thread.submit(self.write, copy)
""",
    },
}
