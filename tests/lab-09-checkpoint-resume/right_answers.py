"""Right answers to Lab 09 that differ from the reference, and automatic changes to it that change no behavior."""

from itertools import pairwise

RIGHT = {
    "save_durably": {
        "a temporary file with a random name": """
-    partial = path.with_name(f"{path.name}.partial")
     try:
-        with partial.open("wb") as file:
+        import tempfile
+
+        partial = Path(tempfile.mktemp(dir=path.parent, suffix=".partial"))
+        with partial.open("xb") as file:
""",
        "without a buffer": """
-        with partial.open("wb") as file:
-            file.write(data)
-            file.flush()
-            os.fsync(file.fileno())
-        os.replace(partial, path)
+        with partial.open("wb", buffering=0) as file:
+            left = memoryview(data)
+            while left:
+                left = left[file.write(left) :]
+            os.fsync(file)
+        partial.replace(path)
""",
    },
    "newest_intact": {
        "one look for the highest at a time": """
-    matches = [re.fullmatch(r"step-([0-9]+)\\.pt", file.name) for file in folder.glob("*")]
-    for step in sorted((int(match[1]) for match in matches if match), reverse=True):
+    names = {file.name for file in folder.iterdir()} if folder.is_dir() else set()
+    steps = [int(name[5:-3]) for name in names if name[:5] == "step-" and name[-3:] == ".pt" and name[5:-3].isdigit()]
+    while steps:
+        step = max(steps)
+        steps.remove(step)
""",
    },
    "training_state": {
        "NumPy's keys as a tensor": """
-        "numpy": [np.asarray(keys).tolist(), position, has_gauss, gauss],
+        "numpy": [torch.from_numpy(np.asarray(keys).astype(np.int64)), position, has_gauss, gauss],
@@
-    np.random.set_state(("MT19937", *state["numpy"]))
+    keys, *rest = state["numpy"]
+    np.random.set_state(("MT19937", keys.numpy().astype(np.uint32), *rest))
""",
        "all state_dicts in one loop": """
-    model.load_state_dict(state["model"])
-    optimizer.load_state_dict(state["optimizer"])
-    scheduler.load_state_dict(state["scheduler"])
-    scaler.load_state_dict(state["scaler"])
-    average.load_state_dict(state["average"])
-    sampler.load_state_dict(state["sampler"])
+    names = "average model scaler scheduler sampler optimizer".split()
+    for name, part in zip(names, (average, model, scaler, scheduler, sampler, optimizer), strict=True):
+        part.load_state_dict(state[name])
""",
    },
    "run_until_stopped": {
        "an event for the flag, and the saved steps in a list": """
-    stop = False
+    import threading
+
+    stop, saves = threading.Event(), [done]
@@
-        nonlocal stop
-        stop = True
+        stop.set()
@@
-        saved = done
-        while done < last and not stop:
+        while done < last and not stop.is_set():
@@
-                saved = done
-        if done != saved:
+                saves.append(done)
+        if saves[-1] != done:
""",
    },
    "snapshot": {
        "storages by their address": """
-            if storage._cdata not in storages:
-                storages[storage._cdata] = torch.UntypedStorage(storage.nbytes()).copy_(storage)
-            empty = torch.empty(0, dtype=value.dtype)
-            return empty.set_(storages[storage._cdata], value.storage_offset(), value.size(), value.stride())
+            place = storage.data_ptr()
+            if place not in storages:
+                storages[place] = storage.cpu().clone()
+            whole = torch.empty(0, dtype=value.dtype).set_(storages[place])
+            return whole.as_strided(value.size(), value.stride(), value.storage_offset())
""",
    },
    "BackgroundSaver": {
        "threads by hand": """
-        self.thread = ThreadPoolExecutor(max_workers=1)
-        self.pending: Future[None] | None = None
+        self.thread, self.errors = None, []
@@
-        self.pending = self.thread.submit(self.write, snapshot(state))
+        import threading
+
+        copy = snapshot(state)
+
+        def run():
+            try:
+                self.write(copy)
+            except BaseException as error:
+                self.errors.append(error)
+
+        self.thread = threading.Thread(target=run)
+        self.thread.start()
@@
-        pending, self.pending = self.pending, None
-        if pending is not None:
-            pending.result()
+        if self.thread is not None:
+            self.thread.join()
+        self.thread = None
+        if self.errors:
+            raise self.errors.pop()
""",
    },
}

RESTORED = (
    *("model.load_state_dict(state['model'])", "optimizer.load_state_dict(state['optimi…"),
    *("scheduler.load_state_dict(state['schedu…", "scaler.load_state_dict(state['scaler'])"),
    *("average.load_state_dict(state['average'…", "sampler.load_state_dict(state['sampler'…"),
    *("random.setstate(state['python'])", "np.random.set_state(('MT19937', *state[…"),
    *("torch.set_rng_state(state['torch'])", "torch.cuda.set_rng_state_all(state['cud…"),
)
EQUIVALENT = {
    "the end of a loop or of a function": (
        "newest_intact: left out: return None",
        "newest_intact: left out: continue",
    ),
    "independent lines": (
        *(f"restore_training_state: swapped: {line} | {following}" for line, following in pairwise(RESTORED)),
        "BackgroundSaver: swapped: self.write = write | self.thread = ThreadPoolExecutor(max_wo…",
        "BackgroundSaver: swapped: self.thread = ThreadPoolExecutor(max_wo… | self.pending: Future[None] | None = None",
    ),
    "an exception of save leaves the loop, and nothing is saved after it": (
        "run_until_stopped: swapped: save(done) | saved = done",
    ),
    "the types exclude each other, and an empty tensor changes nothing": (
        "snapshot: swapped: if isinstance(value, Tensor): | if isinstance(value, dict):",
        "snapshot: swapped: if isinstance(value, dict): | if isinstance(value, list | tuple):",
        "snapshot: swapped: if storage._cdata not in storages: | empty = torch.empty(0, dtype=value.dtyp…",
    ),
    "save waits for the write before, so one thread is enough": (
        "BackgroundSaver: max_workers left out: ThreadPoolExecutor(max_workers=1)",
    ),
}
