"""Known-wrong solutions of Lab 09, and hurried answers, as changes to exercises.py."""

from rankzero.exercises.checks.known_wrong import KnownWrong

TASKS = "labs/lab-09-checkpoint-resume.md#exercises"
CHAPTER = "handbook/checkpoints-and-faults.md"
STATE = f"{CHAPTER}#contents-of-a-checkpoint"
FILE = f"{CHAPTER}#writing-the-files"
DAMAGED = f"{CHAPTER}#damaged-files"
DELETED = f"{CHAPTER}#deleting-old-checkpoints"
INTERVAL = f"{CHAPTER}#how-often-to-save"
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
        explanation="""Each save leaves a file or a folder open. A process may have about a thousand open; a long run
        reaches the limit, and then every save fails.""",
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
        explanation="""The bytes are written into the file itself. From the moment it is opened for writing, the earlier
        checkpoint is gone, and until the last byte the new one is not there: a kill in between loses both.""",
        definitions="""
def save_durably(path, data):
    path.write_bytes(data)
""",
    ),
    KnownWrong(
        "file_not_synced",
        fails=("save_durably/order",),
        read=FILE,
        explanation="""The file is renamed before its bytes are on the disk. The kernel writes names and bytes in an
        order of its own: after a power cut the new name may stand before an empty file, and the earlier checkpoint is
        gone. A kill of the process does not show this, because the kernel lives on.""",
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
        explanation="""fsync comes before the bytes have left Python's buffer. It puts on the disk what the kernel has
        of the file, and the end of the file is not there yet: flush first.""",
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
        explanation="""The rename itself is not put on the disk. It is a change of the folder, and only an fsync of the
        folder waits for it: after a power cut the folder may have the earlier file, although the program has already
        gone on, and perhaps deleted an older checkpoint because this one was safe.""",
        change="""
-    folder = os.open(path.parent, os.O_RDONLY)
-    try:
-        os.fsync(folder)
-    finally:
-        os.close(folder)
""",
    ),
    KnownWrong(
        "folder_synced_too_early",
        fails=("save_durably/order",),
        read=FILE,
        explanation="""The folder is synced before the rename, so the rename is not among the changes that fsync waits
        for.""",
        change="""
+        folder = os.open(path.parent, os.O_RDONLY)
+        os.fsync(folder)
+        os.close(folder)
         os.replace(partial, path)
     except BaseException:
         partial.unlink(missing_ok=True)
         raise
-    folder = os.open(path.parent, os.O_RDONLY)
-    try:
-        os.fsync(folder)
-    finally:
-        os.close(folder)
""",
    ),
    KnownWrong(
        "partial_in_tmp",
        fails=("save_durably/order",),
        read=FILE,
        explanation="""The partial file lies in the folder for temporary files. Where that is another file system, a
        rename is impossible: os.replace fails, and shutil.move copies byte by byte into the final name, which a kill
        leaves half written.""",
        change="""
-    partial = path.with_name(f"{path.name}.partial")
+    import tempfile
+
+    partial = Path(tempfile.gettempdir()) / f"{path.name}-{os.getpid()}.partial"
""",
    ),
    KnownWrong(
        "partial_left",
        fails=("save_durably/failures",),
        read=TASKS,
        explanation="""A save that fails leaves its partial file. On a full disk that is the file that keeps it full:
        no later save can succeed.""",
        change="""
-    try:
-        with partial.open("wb") as file:
-            file.write(data)
-            file.flush()
-            os.fsync(file.fileno())
-        os.replace(partial, path)
-    except BaseException:
-        partial.unlink(missing_ok=True)
-        raise
+    with partial.open("wb") as file:
+        file.write(data)
+        file.flush()
+        os.fsync(file.fileno())
+    os.replace(partial, path)
""",
    ),
    KnownWrong(
        "partial_left_by_ctrl_c",
        fails=("save_durably/failures",),
        read=TASKS,
        explanation="""The partial file is removed after an OSError, and stays after a Ctrl-C, which is an exception of
        another kind. Catch BaseException and raise it again, or use finally.""",
        change="""
-    except BaseException:
+    except OSError:
""",
    ),
    KnownWrong(
        "failure_swallowed",
        fails=("save_durably/failures",),
        read=TASKS,
        explanation="""A save that fails ends as if it had succeeded. The caller deletes older checkpoints and trains
        on, and the loss of the file is noticed on the day it is needed.""",
        change="""
         partial.unlink(missing_ok=True)
-        raise
+        return
""",
    ),
    KnownWrong(
        "folder_error_swallowed",
        fails=("save_durably/failures",),
        read=FILE,
        explanation="""An fsync of the folder that fails is ignored. The caller takes the checkpoint for safe and
        deletes older ones, while the rename is perhaps not on the disk.""",
        change="""
     try:
         os.fsync(folder)
+    except OSError:
+        pass
     finally:
         os.close(folder)
""",
    ),
    KnownWrong(
        "cleanup_hides_the_error",
        fails=("save_durably/failures",),
        read=TASKS,
        explanation="""An error of the cleanup reaches the caller in place of the error that ended the save. Where the
        partial file was never made, removing it fails, and "no such file" hides the cause.""",
        change="""
-        partial.unlink(missing_ok=True)
+        partial.unlink()
""",
    ),
    KnownWrong(
        "folder_opened_first",
        fails=("save_durably/failures",),
        read=TASKS,
        explanation="""A save that fails leaves a file or a folder open. A run whose disk is full for a while tries many
        saves, and reaches the limit of open files.""",
        change="""
+    folder = os.open(path.parent, os.O_RDONLY)
     try:
         with partial.open("wb") as file:
@@
-    folder = os.open(path.parent, os.O_RDONLY)
""",
    ),
    KnownWrong(
        "old_removed_first",
        fails=("save_durably/failures", "save_durably/killed"),
        read=FILE,
        explanation="""The earlier file is removed before the new one gets its name. Between the two there is no
        checkpoint at all. os.replace replaces a file that is there, in one step.""",
        change="""
+        path.unlink(missing_ok=True)
         os.replace(partial, path)
""",
    ),
    KnownWrong(
        "partial_in_the_way",
        fails=("save_durably/killed",),
        read=TASKS,
        explanation="""The partial file may not exist before the save, as with open(..., "xb") or O_EXCL. A killed save
        has left it: the next save of the restarted run fails.""",
        change="""
-        with partial.open("wb") as file:
+        with partial.open("xb") as file:
""",
    ),
    KnownWrong(
        "digest_at_the_end",
        fails=("seal/format",),
        read=TASKS,
        explanation="""The digest stands behind the content. The task asks for it in front, so that 32 bytes and the
        rest can be told apart without the file's length.""",
        change="""
-    return hashlib.sha256(content).digest() + content
+    return content + hashlib.sha256(content).digest()
@@
-    digest, content = data[:32], data[32:]
+    digest, content = data[-32:], data[:-32]
""",
    ),
    KnownWrong(
        "digest_of_the_beginning",
        fails=("seal/format",),
        read=DAMAGED,
        explanation="""The first 32 bytes are not the digest of the whole content. Damage in a part that the digest
        leaves out goes unnoticed.""",
        change="""
-    return hashlib.sha256(content).digest() + content
+    return hashlib.sha256(content[:1024]).digest() + content
@@
-    if hashlib.sha256(content).digest() != digest:
+    if hashlib.sha256(content[:1024]).digest() != digest:
""",
    ),
    KnownWrong(
        "digest_not_compared",
        fails=("seal/bits", "seal/lengths"),
        read=DAMAGED,
        explanation="""unseal does not compare the digest. torch.load does not verify the bytes of a tensor: it loads a
        weight with a flipped bit without an error, and the run continues with wrong numbers.""",
        change="""
-    if hashlib.sha256(content).digest() != digest:
-        raise ValueError("the checkpoint is damaged: its SHA-256 digest differs from that of its content.")
""",
    ),
    KnownWrong(
        "torch_load_alone",
        fails=("seal/device", "seal/foreign"),
        read=TASKS,
        explanation="""torch.load is called as if every file were a checkpoint that was written on this machine. It
        loads a tensor to the GPU that wrote it, unless map_location names another place. For a foreign file it raises
        errors of many types, of which the caller expects ValueError alone.""",
        change="""
-    try:
-        return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
-    except Exception as error:
-        raise ValueError(f"the file is no checkpoint: {error}") from error
+    return torch.load(io.BytesIO(content), weights_only=True)
""",
    ),
    KnownWrong(
        "map_location_forgotten",
        fails=("seal/device",),
        read=TASKS,
        explanation="""A file that was written on a GPU is loaded to that GPU. On a machine without it, loading fails.
        On a machine with it, every rank loads its state to the same GPU, which runs out of memory.""",
        change="""
-        return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
+        return torch.load(io.BytesIO(content), weights_only=True)
""",
    ),
    KnownWrong(
        "any_error_of_torch",
        fails=("seal/foreign",),
        read=TASKS,
        explanation="""Exceptions of torch.load for a foreign file reach the caller: RuntimeError, EOFError,
        UnpicklingError and others. A caller that falls back on ValueError crashes on such a file instead.""",
        change="""
-    try:
-        return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
-    except Exception as error:
-        raise ValueError(f"the file is no checkpoint: {error}") from error
+    return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
""",
    ),
    KnownWrong(
        "code_in_the_file_runs",
        fails=("seal/foreign",),
        read=DAMAGED,
        explanation="""The file is loaded with weights_only=False, and a pickle may contain code that runs when it is
        loaded. A digest is no protection: an attacker who changes the file computes a new digest.""",
        change="""
-        return torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
+        return torch.load(io.BytesIO(content), map_location="cpu", weights_only=False)
""",
    ),
    KnownWrong(
        "sorted_as_text",
        fails=("newest_intact/order",),
        read=DELETED,
        explanation="""The names are sorted as texts, where step-9.pt comes after step-10.pt. The run resumes from step
        9, or from 900 instead of 1000, and trains the steps in between again.""",
        change="""
-    for step in sorted((int(match[1]) for match in matches if match), reverse=True):
+    for step in sorted((match[1] for match in matches if match), reverse=True):
@@
-            return step, read(folder / f"step-{step}.pt")
+            return int(step), read(folder / f"step-{step}.pt")
""",
    ),
    KnownWrong(
        "newest_by_date",
        fails=("newest_intact/order",),
        read=TASKS,
        explanation="""The newest checkpoint is taken to be the file with the latest date. A copy to another disk or a
        download from a bucket gives files new dates, in any order. The step is in the name.""",
        change="""
-    for step in sorted((int(match[1]) for match in matches if match), reverse=True):
+    steps = [int(match[1]) for match in matches if match]
+    for step in sorted(steps, key=lambda step: (folder / f"step-{step}.pt").stat().st_mtime, reverse=True):
""",
    ),
    KnownWrong(
        "all_files_read",
        fails=("newest_intact/order", "newest_intact/names"),
        read=TASKS,
        explanation="""Every checkpoint is read before one is chosen. A checkpoint of a large model takes minutes to
        read and more memory than a host has twice.""",
        definitions="""
def newest_intact(folder, read):
    newest = None
    for file in sorted(folder.glob("step-*.pt"), key=lambda file: int("0" + re.sub("[^0-9]", "", file.name))):
        try:
            newest = int(re.sub("[^0-9]", "", file.name)), read(file)
        except (ValueError, OSError):
            continue
    return newest
""",
    ),
    KnownWrong(
        "empty_content_skipped",
        fails=("newest_intact/order",),
        read=TASKS,
        explanation="""The content of a file decides whether the file counts: where `read` returns an empty dict, an
        older checkpoint is taken. A file is intact if `read` raises no error, whatever it returns.""",
        change="""
-            return step, read(folder / f"step-{step}.pt")
+            if content := read(folder / f"step-{step}.pt"):
+                return step, content
""",
    ),
    KnownWrong(
        "any_number_in_a_name",
        fails=("newest_intact/names",),
        read=TASKS,
        explanation="""Every name that contains a step counts, step-12.pt.partial among them: a save that was killed is
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
        explanation="""The newest file is damaged, and its error ends the program although older checkpoints are
        intact. They are kept for this case.""",
        change="""
-        try:
-            return step, read(folder / f"step-{step}.pt")
-        except (ValueError, OSError):
-            continue
+        return step, read(folder / f"step-{step}.pt")
""",
    ),
    KnownWrong(
        "missing_file_only",
        fails=("newest_intact/damaged", "newest_intact/none"),
        read=DAMAGED,
        explanation="""Errors of the disk are taken for damage, and ValueError is not. A file that can be read and whose
        content is wrong is the more frequent damage.""",
        change="""
-        except (ValueError, OSError):
+        except OSError:
""",
    ),
    KnownWrong(
        "every_error_is_damage",
        fails=("newest_intact/none",),
        read=TASKS,
        explanation="""Every exception counts as damage. A MemoryError or a bug in `read` then skips every checkpoint in
        turn, and the run begins again at step 0 without an error.""",
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
    KnownWrong(
        "best_overwritten_by_last",
        fails=("steps_to_delete/rule",),
        read=DELETED,
        explanation="""Only the newest checkpoints stay. A run that overfits has its lowest validation loss long before
        its end, and that checkpoint is deleted.""",
        change="""
-    kept = {*steps[-keep:], *sorted(comparable, key=lambda step: val_losses[step])[:1]}
+    kept = {*steps[-keep:]}
""",
    ),
    KnownWrong(
        "highest_is_best",
        fails=("steps_to_delete/rule",),
        read=TASKS,
        explanation="""The checkpoint with the highest loss is kept as the best. That is right for an accuracy; of a
        loss the lowest is the best.""",
        change="""
-    kept = {*steps[-keep:], *sorted(comparable, key=lambda step: val_losses[step])[:1]}
+    kept = {*steps[-keep:], *sorted(comparable, key=lambda step: -val_losses[step])[:1]}
""",
    ),
    KnownWrong(
        "best_in_place_of_a_new_one",
        fails=("steps_to_delete/rule",),
        read=TASKS,
        explanation="""The best checkpoint takes the place of one of the newest `keep`. The newest stay in any case: if
        the last one is damaged, the run needs the one before it.""",
        change="""
-    kept = {*steps[-keep:], *sorted(comparable, key=lambda step: val_losses[step])[:1]}
+    best = sorted(comparable, key=lambda step: val_losses[step])[:1]
+    kept = {*[step for step in steps if step not in best][-keep + 1 :], *best} if keep > 1 else {*best}
""",
    ),
    KnownWrong(
        "nan_is_best",
        fails=("steps_to_delete/nan",),
        read=TASKS,
        explanation="""nan takes part in the comparison. Every comparison with nan is false, so the result depends on
        the order of the losses: where nan comes first, nothing is lower, and the checkpoint of the run that diverged
        stays as the best.""",
        change="""
-    comparable = [step for step in steps if not math.isnan(val_losses[step])]
+    comparable = steps
""",
    ),
    KnownWrong(
        "latest_of_equal",
        fails=("steps_to_delete/equal",),
        read=TASKS,
        explanation="""Of equal losses the latest step is kept. The earliest is the checkpoint that was announced as the
        best, and that other files may already name.""",
        change="""
-    kept = {*steps[-keep:], *sorted(comparable, key=lambda step: val_losses[step])[:1]}
+    kept = {*steps[-keep:], *sorted(comparable[::-1], key=lambda step: val_losses[step])[:1]}
""",
    ),
    KnownWrong(
        "one_order_for_all_epochs",
        fails=("EpochSampler/epochs",),
        read=TASKS,
        explanation="""Every epoch has the same order: it depends on the seed alone. The batches of each epoch are then
        the same, too.""",
        change="""
-            order = np.random.default_rng((self.seed, self.epoch)).permutation(self.n)
+            order = np.random.default_rng(self.seed).permutation(self.n)
""",
    ),
    KnownWrong(
        "short_batch_at_the_end",
        fails=("EpochSampler/epochs",),
        read=TASKS,
        explanation="""The last batch of an epoch is shorter than the others. The task asks for full batches, which go
        on with the next epoch's samples: a step of another size has another gradient noise, and needs memory and
        kernels of its own.""",
        change="""
             if self.position == self.n:
                 self.epoch, self.position = self.epoch + 1, 0
+                break
""",
    ),
    KnownWrong(
        "seed_plus_epoch",
        fails=("EpochSampler/seeds",),
        read=TASKS,
        explanation="""The order comes from seed + epoch. Seed 1 in epoch 1 is then seed 2 in epoch 0: runs with
        neighboring seeds, which should be independent, train on the same orders, one epoch apart.""",
        change="""
-            order = np.random.default_rng((self.seed, self.epoch)).permutation(self.n)
+            order = np.random.default_rng(self.seed + self.epoch).permutation(self.n)
""",
    ),
    KnownWrong(
        "digits_of_seed_and_epoch",
        fails=("EpochSampler/seeds",),
        read=TASKS,
        explanation="""The digits of seed and epoch are put in a row, without a mark between them. Seed 1 in epoch 12
        then has the order of seed 11 in epoch 2.""",
        change="""
-            order = np.random.default_rng((self.seed, self.epoch)).permutation(self.n)
+            order = np.random.default_rng(int(f"{self.seed}{self.epoch}")).permutation(self.n)
""",
    ),
    KnownWrong(
        "order_from_the_global_generator",
        fails=("EpochSampler/seeds", "EpochSampler/global"),
        read=TASKS,
        explanation="""The order comes from a global generator. It then depends on everything that has drawn from that
        generator before, such as dropout, and a resumed run has another order in mid-epoch.""",
        change="""
-        self.epoch, self.position = 0, 0  # position: samples drawn in this epoch
+        self.epoch, self.position, self.drawn = 0, 0, -1
@@
-            order = np.random.default_rng((self.seed, self.epoch)).permutation(self.n)
+            if self.drawn != self.epoch:
+                self.order, self.drawn = np.random.permutation(self.n), self.epoch
+            order = self.order
""",
    ),
    KnownWrong(
        "global_generator_seeded",
        fails=("EpochSampler/global",),
        read=TASKS,
        explanation="""A global generator is seeded again for each order. The order is right, and everything else that
        draws from that generator, such as dropout, then begins again with the same numbers in every batch.""",
        change="""
-            order = np.random.default_rng((self.seed, self.epoch)).permutation(self.n)
+            np.random.seed((1_000_003 * self.seed + self.epoch) % 2**32)
+            order = np.random.permutation(self.n)
""",
    ),
    KnownWrong(
        "data_restarts_at_0",
        fails=("EpochSampler/resumed",),
        read=STATE,
        explanation="""The resumed run begins its epoch again. It trains a second time on the samples it has seen, and a
        run that is killed often never sees the last ones.""",
        change="""
-        self.epoch, self.position = state["epoch"], state["position"]
+        self.epoch, self.position = state["epoch"], 0
""",
    ),
    KnownWrong(
        "epoch_forgotten",
        fails=("EpochSampler/resumed",),
        read=STATE,
        explanation="""The resumed run has the right position within an epoch, but not the number of the epoch: it
        continues in the order of another epoch.""",
        change="""
-        self.epoch, self.position = state["epoch"], state["position"]
+        self.position = state["position"]
""",
    ),
    KnownWrong(
        "order_of_a_later_epoch_kept",
        fails=("EpochSampler/resumed",),
        read=TASKS,
        explanation="""load_state_dict leaves an order in place that belongs to another epoch. A sampler that was ahead
        of the state goes on with that order.""",
        change="""
-            order = np.random.default_rng((self.seed, self.epoch)).permutation(self.n)
+            if self.epoch > getattr(self, "ordered", -1):
+                self.ordered = self.epoch
+                self.order = np.random.default_rng((self.seed, self.epoch)).permutation(self.n)
+            order = self.order
""",
    ),
    KnownWrong(
        "own_dict_returned",
        fails=("EpochSampler/state",),
        read=BACKGROUND,
        explanation="""The state is the sampler's own dictionary, which changes with every batch. A checkpoint that is
        written later, as in the background, has a later place than its weights.""",
        change="""
-        return {"epoch": self.epoch, "position": self.position}
+        return vars(self)
""",
    ),
    KnownWrong(
        "batches_counted",
        fails=("EpochSampler/batch-size",),
        read=TASKS,
        explanation="""The state counts batches. A run that goes on with another number of GPUs often has another batch
        size, and the count then means another place: samples are drawn twice or never.""",
        change="""
-        return {"epoch": self.epoch, "position": self.position}
+        return {"batches": (self.epoch * self.n + self.position) // self.batch_size}
@@
-        self.epoch, self.position = state["epoch"], state["position"]
+        self.epoch, self.position = divmod(state["batches"] * self.batch_size, self.n)
""",
    ),
    not_restored(
        "optimizer_forgotten",
        "training_state/model",
        'optimizer.load_state_dict(state["optimizer"])',
        """The optimizer begins with empty averages and with the learning rate it was made with. The first steps after
        each resume are those of a new run: AdamW's correction of the bias makes them as large as its first.""",
    ),
    not_restored(
        "scheduler_forgotten",
        "training_state/others",
        'scheduler.load_state_dict(state["scheduler"])',
        """The scheduler is not where it was. The learning rate begins its schedule again, warm-up included, or stays
        above what the run that went on has.""",
    ),
    not_restored(
        "scaler_forgotten",
        "training_state/others",
        'scaler.load_state_dict(state["scaler"])',
        """The loss scale begins at its initial value. In float16 the first steps may overflow and be skipped, until the
        scale has fallen to where it was.""",
    ),
    KnownWrong(
        "average_from_the_model",
        fails=("training_state/others",),
        read=STATE,
        explanation="""The average begins again at the present weights. All that it had averaged is lost, and the
        evaluation, which uses it, shows a jump at each resume.""",
        change="""
-    average.load_state_dict(state["average"])
+    average.load_state_dict(state["model"])
""",
    ),
    not_restored(
        "sampler_forgotten",
        "training_state/others",
        'sampler.load_state_dict(state["sampler"])',
        """The data begin where a new sampler begins. The run trains a second time on what it has seen.""",
    ),
    not_restored(
        "torch_generator_forgotten",
        "training_state/random",
        'torch.set_rng_state(state["torch"])',
        """torch's generator is not restored: dropout drops other activations than in the run that went on, so later
        losses differ.""",
    ),
    KnownWrong(
        "seed_for_the_state",
        fails=("training_state/random",),
        read=STATE,
        explanation="""torch's generator is seeded instead of restored. It then draws the numbers of the first steps
        again. The state of the generator contains its position; a seed does not.""",
        change="""
-        "torch": torch.get_rng_state(),
+        "torch": torch.initial_seed(),
@@
-    torch.set_rng_state(state["torch"])
+    torch.manual_seed(state["torch"])
""",
    ),
    not_restored(
        "python_generator_forgotten",
        "training_state/random",
        'random.setstate(state["python"])',
        """Python's own generator is not restored. Augmentations and many data loaders draw from it.""",
    ),
    not_restored(
        "cuda_generators_forgotten",
        "training_state/random",
        'torch.cuda.set_rng_state_all(state["cuda"])',
        """The generators of the GPUs are not restored. Dropout on a GPU draws from the GPU's own generator, so later
        losses differ on GPUs and are right on a CPU, where the code was tried.""",
    ),
    KnownWrong(
        "one_gpu_of_many",
        fails=("training_state/random",),
        read=STATE,
        explanation="""The generator of one GPU is restored, and those of the others are not. Each GPU has a generator
        of its own.""",
        change="""
-        "cuda": torch.cuda.get_rng_state_all(),  # an empty list where there is no GPU
+        "cuda": torch.cuda.get_rng_state() if torch.cuda.is_available() else None,
@@
-    torch.cuda.set_rng_state_all(state["cuda"])
+    if torch.cuda.is_available():
+        torch.cuda.set_rng_state(state["cuda"])
""",
    ),
    KnownWrong(
        "second_normal_number_forgotten",
        fails=("training_state/random",),
        read=STATE,
        explanation="""The next normal number of NumPy differs. Its generator makes normal numbers in pairs and keeps
        the second for the next call: the last two items of its state.""",
        change="""
-        "numpy": [np.asarray(keys).tolist(), position, has_gauss, gauss],
+        "numpy": [np.asarray(keys).tolist(), position],
""",
    ),
    KnownWrong(
        "left_in_evaluation_mode",
        fails=("training_state/continues", "training_state/untouched"),
        read=TASKS,
        explanation="""Saving changes the model's mode. The run that goes on trains without dropout, and another run
        that saves at other steps gets other weights.""",
        change="""
+    model.eval()
     return {
""",
    ),
    KnownWrong(
        "numpy_array_in_the_file",
        fails=("training_state/safe",),
        read=DAMAGED,
        explanation="""torch.load refuses the file with weights_only=True, because it contains objects other than
        tensors and plain values, such as a NumPy array. People then load with weights_only=False, and a file can run
        code.""",
        change="""
-        "numpy": [np.asarray(keys).tolist(), position, has_gauss, gauss],
+        "numpy": [keys, position, has_gauss, gauss],
""",
    ),
    KnownWrong(
        "last_step_unsaved",
        fails=("run_until_stopped/plan",),
        read=STOPPED,
        explanation="""Only every k-th step is saved, and the last step is not. A run that ends, or is asked to stop,
        loses what it did since the last multiple.""",
        change="""
-        if done != saved:
-            save(done)
""",
    ),
    KnownWrong(
        "earlier_handler_lost",
        fails=("run_until_stopped/plan",),
        read=TASKS,
        explanation="""After the function has ended, SIGTERM has another handler than before. Where the handler of this
        function stays, later SIGTERMs set a flag that nobody reads. Where it is the default, SIGTERM ends the program
        without the handler that the caller had chosen.""",
        change="""
-    finally:
-        signal.signal(signal.SIGTERM, before)
+    finally:
+        del before
""",
    ),
    KnownWrong(
        "saved_in_the_handler",
        fails=("run_until_stopped/step",),
        read=STOPPED,
        explanation="""The checkpoint is written inside the signal handler. Python calls the handler between any two
        instructions, in the middle of optimizer.step() too: some weights are then of the new step and others of the
        old.""",
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
        "same_step_saved_twice",
        fails=("run_until_stopped/step",),
        read=TASKS,
        explanation="""A request to stop saves in any case, also where the step has just been saved. The time between
        SIGTERM and SIGKILL is short; the second save may be the one that is cut off.""",
        change="""
-        if done != saved:
+        if stop or done != saved:
""",
    ),
    KnownWrong(
        "one_step_more",
        fails=("run_until_stopped/save",),
        read=STOPPED,
        explanation="""A SIGTERM that comes during a save is noticed one step later. The notice may be over by then: the
        step after the save is not needed.""",
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
        explanation="""The flag is read once to decide about the save and once more to decide about the next step. A
        SIGTERM between the two ends the run, and its last step is not saved. Decide about the last save after the
        loop.""",
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
        explanation="""The earlier handler comes back where the run ends as planned, and not after an exception. In a
        notebook or a server the program goes on after it, and no longer reacts to SIGTERM.""",
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
        "saved_after_an_error",
        fails=("run_until_stopped/error",),
        read=TASKS,
        explanation="""A step that raised an error is followed by a save. The error came in the middle of the step, so
        the saved weights and the optimizer may disagree.""",
        change="""
-        if done != saved:
-            save(done)
         return done
     finally:
+        if done != saved:
+            save(done)
         signal.signal(signal.SIGTERM, before)
""",
    ),
    KnownWrong(
        "deepcopied",
        fails=("snapshot/copy",),
        read=TASKS,
        explanation="""copy.deepcopy copies each object as what it is: parameters stay parameters, tensors stay on their
        GPU, where the copy needs memory that training needs, and a tensor with a graph is refused.""",
        definitions="""
def snapshot(state):
    import copy

    return copy.deepcopy(state)
""",
    ),
    KnownWrong(
        "state_itself",
        fails=("snapshot/copy",),
        read=BACKGROUND,
        explanation="""Nothing is copied. state_dict() returns references to the live tensors: a dict of them is no
        snapshot.""",
        change="""
-    return copied(state)
+    return state
""",
    ),
    KnownWrong(
        "shared_with_the_running_step",
        fails=("snapshot/independent",),
        read=BACKGROUND,
        explanation="""The tensors of the snapshot share memory with the live ones: detach() copies nothing, and cpu()
        copies nothing if the tensor is on the CPU already. The next optimizer.step() changes the snapshot while it is
        written, so the file has layers of two different steps.""",
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
        explanation="""Each tensor is cloned by itself. Tied weights become two: the snapshot takes more memory than the
        model, and so does the file, in which torch.save writes each storage once.""",
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
        "parts_copied_by_themselves",
        fails=("snapshot/tied",),
        read=TASKS,
        explanation="""Tensors are taken for tied where their first numbers have one address. A part of a tensor begins
        at another address in the same memory: the copy holds it twice, and the two are no longer tied. Memory is
        shared where untyped_storage() is the same.""",
        change="""
-            storage = value.untyped_storage()
-            if storage._cdata not in storages:
-                storages[storage._cdata] = torch.UntypedStorage(storage.nbytes()).copy_(storage)
-            empty = torch.empty(0, dtype=value.dtype)
-            return empty.set_(storages[storage._cdata], value.storage_offset(), value.size(), value.stride())
+            key = value.data_ptr(), value.dtype, value.shape, value.stride()
+            if key not in storages:
+                storages[key] = value.detach().cpu().clone()
+            return storages[key]
""",
    ),
    KnownWrong(
        "in_the_foreground",
        fails=("BackgroundSaver/background",),
        read=BACKGROUND,
        explanation="""save returns when the write has ended: training waits for the disk as in a plain save.""",
        change="""
-        self.pending = self.thread.submit(self.write, snapshot(state))
+        self.thread.submit(self.write, snapshot(state)).result()
""",
    ),
    KnownWrong(
        "wait_does_not_wait",
        fails=("BackgroundSaver/background",),
        read=BACKGROUND,
        explanation="""wait returns while a write is under way. A program that ends after it cuts the last checkpoint
        off.""",
        change="""
-        if pending is not None:
-            pending.result()
+        if pending is not None and pending.done():
+            pending.result()
""",
    ),
    KnownWrong(
        "no_snapshot",
        fails=("BackgroundSaver/consistent",),
        read=BACKGROUND,
        explanation="""The thread writes the live state, which training changes meanwhile. The file then has weights of
        several steps, and nothing in it shows that.""",
        change="""
-        self.pending = self.thread.submit(self.write, snapshot(state))
+        self.pending = self.thread.submit(self.write, state)
""",
    ),
    KnownWrong(
        "snapshot_in_the_thread",
        fails=("BackgroundSaver/consistent",),
        read=BACKGROUND,
        explanation="""The thread takes the snapshot, and save does not wait for it. The next step changes the weights
        before the thread begins, or in the middle of its copy. On most days the thread is faster, and no test of the
        file shows the mistake.""",
        change="""
-        self.pending = self.thread.submit(self.write, snapshot(state))
+        self.pending = self.thread.submit(lambda: self.write(snapshot(state)))
""",
    ),
    KnownWrong(
        "saves_pile_up",
        fails=("BackgroundSaver/one-at-a-time", "BackgroundSaver/errors"),
        read=BACKGROUND,
        explanation="""save does not wait for the write before. Where the disk is slower than the interval between
        saves, snapshots pile up until the memory is full; and the error of a write whose place the next one takes is
        never raised.""",
        change="""
-        self.wait()
         self.pending = self.thread.submit(self.write, snapshot(state))
""",
    ),
    KnownWrong(
        "error_of_the_thread_lost",
        fails=("BackgroundSaver/errors",),
        read=BACKGROUND,
        explanation="""An exception in the thread is never raised where the program sees it. Saves fail one after the
        other, on a full disk for example, and training goes on for days without a checkpoint.""",
        change="""
-            pending.result()
+            pending.exception()
""",
    ),
    KnownWrong(
        "error_raised_for_ever",
        fails=("BackgroundSaver/errors",),
        read=TASKS,
        explanation="""The exception of one failed write is raised by every later call. A disk that was full for a
        minute then ends all saving, although the next write would succeed.""",
        change="""
-        pending, self.pending = self.pending, None
-        if pending is not None:
-            pending.result()
+        if self.pending is not None:
+            self.pending.result()
""",
    ),
    KnownWrong(
        "restart_forgotten",
        fails=("expected_seconds/failures",),
        read=INTERVAL,
        explanation="""A failure costs only the work since the last save. The time until a new machine has started,
        loaded the program and read the checkpoint is left out; it is often longer than the lost work.""",
        change="""
-    return segments * (between_failures + restart) * math.expm1((interval + save) / between_failures)
+    return segments * between_failures * math.expm1((interval + save) / between_failures)
""",
    ),
    KnownWrong(
        "save_never_fails",
        fails=("expected_seconds/failures",),
        read=INTERVAL,
        explanation="""The save's seconds are added once for each segment, as if no failure came while a save is
        written. They can be lost like any others, and are then spent again.""",
        change="""
-    return segments * (between_failures + restart) * math.expm1((interval + save) / between_failures)
+    return segments * ((between_failures + restart) * math.expm1(interval / between_failures) + save)
""",
    ),
    KnownWrong(
        "half_a_segment_per_failure",
        fails=("expected_seconds/failures",),
        read=INTERVAL,
        explanation="""Each failure costs half a segment and a restart, and failures come once in M seconds of work.
        This first approximation leaves out that a segment that began again can fail again: where M is short, the true
        time is longer.""",
        change="""
-    return segments * (between_failures + restart) * math.expm1((interval + save) / between_failures)
+    segment = interval + save
+    return segments * segment * (1 + (segment / 2 + restart) / between_failures)
""",
    ),
    KnownWrong(
        "one_subtracted_from_exp",
        fails=("expected_seconds/rare",),
        read=TASKS,
        explanation="""exp(x) - 1 loses the digits of a small x: for x = 1e-15, exp(x) is rounded to one of a few
        numbers next to 1. math.expm1(x) computes the difference without this rounding.""",
        change="""
-    return segments * (between_failures + restart) * math.expm1((interval + save) / between_failures)
+    return segments * (between_failures + restart) * (math.exp((interval + save) / between_failures) - 1)
""",
    ),
    KnownWrong(
        "formula_as_it_stands",
        fails=("expected_seconds/rare",),
        read=TASKS,
        explanation="""The formula is computed as it is printed. exp(x) - 1 loses the digits of a small x, which
        math.expm1(x) keeps; and for M = math.inf the product is infinity times 0, which is nan.""",
        change="""
-    if math.isinf(between_failures):
-        return segments * (interval + save)
-    return segments * (between_failures + restart) * math.expm1((interval + save) / between_failures)
+    return segments * (between_failures + restart) * (math.exp((interval + save) / between_failures) - 1)
""",
    ),
    KnownWrong(
        "infinity_times_zero",
        fails=("expected_seconds/rare",),
        read=TASKS,
        explanation="""Without failures the formula is infinity times 0, which is nan. The limit is the work and its
        saves.""",
        change="""
-    if math.isinf(between_failures):
-        return segments * (interval + save)
""",
    ),
    KnownWrong(
        "youngs_formula",
        fails=("best_interval/rare", "best_interval/frequent"),
        read=INTERVAL,
        explanation="""This is Young's sqrt(2 * save * M). It leaves out that a save can fail and that failures may
        come twice in one segment. Where M is a hundred saves, it is several percent too long; where M is shorter than
        a save, it is longer than M itself.""",
        definitions="""
def best_interval(save, between_failures):
    return math.sqrt(2 * save * between_failures)
""",
    ),
    KnownWrong(
        "iterated_too_few_times",
        fails=("best_interval/rare",),
        read=TASKS,
        explanation="""The right side is inserted into itself a fixed number of times. Where failures are rare, its
        derivative at the root is almost 1, and each round comes only a little closer: bisection halves the error in
        each round, for every M.""",
        definitions="""
def best_interval(save, between_failures):
    interval = save
    for _ in range(100):
        interval = -between_failures * math.expm1(-(interval + save) / between_failures)
    return interval
""",
    ),
    KnownWrong(
        "bracket_begins_at_the_save",
        fails=("best_interval/frequent",),
        read=TASKS,
        explanation="""The search begins at an interval as long as a save. Where failures are as frequent as saves, the
        best interval is shorter than a save.""",
        change="""
-    low, high = 0.0, between_failures
+    low, high = save, save + between_failures
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
    },
    "seal": {
        "no digest": """
-    return hashlib.sha256(content).digest() + content
+    return bytes(32) + content
""",
        "every file is damaged": """
-    if hashlib.sha256(content).digest() != digest:
+    if digest:
""",
    },
    "newest_intact": {
        "the oldest": """
-    for step in sorted((int(match[1]) for match in matches if match), reverse=True):
+    for step in sorted(int(match[1]) for match in matches if match):
""",
    },
    "steps_to_delete": {
        "deletes nothing": """
-    return [step for step in steps if step not in kept]
+    return []
""",
    },
    "EpochSampler": {
        "no shuffle": """
-            order = np.random.default_rng((self.seed, self.epoch)).permutation(self.n)
+            order = np.arange(self.n)
""",
        "an empty state": """
-        return {"epoch": self.epoch, "position": self.position}
+        return {"epoch": 0, "position": 0}
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
    },
    "expected_seconds": {
        "no failure": """
-    return segments * (between_failures + restart) * math.expm1((interval + save) / between_failures)
+    return segments * (interval + save)
""",
    },
    "best_interval": {
        "ten halvings": """
-    for _ in range(100):
+    for _ in range(10):
""",
    },
}
