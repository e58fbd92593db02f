"""Right answers to Lab 09 that differ from the reference, and automatic changes to it that change no behavior."""

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
    "seal": {
        "the digest from an open hash": """
-    return hashlib.sha256(content).digest() + content
+    digest = hashlib.new("sha256")
+    digest.update(content)
+    return b"".join([digest.digest(), content])
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
    "steps_to_delete": {
        "nan as infinity": """
-    comparable = [step for step in steps if not math.isnan(val_losses[step])]
-    kept = {*steps[-keep:], *sorted(comparable, key=lambda step: val_losses[step])[:1]}
+    kept = set(steps[-keep:])
+    pairs = [(loss, step) for step, loss in val_losses.items() if loss == loss]
+    if pairs:
+        kept.add(min(pairs)[1])
""",
    },
    "EpochSampler": {
        "one count, and a generator of torch's own": """
-        self.epoch, self.position = 0, 0  # position: samples drawn in this epoch
+        self.count = 0
@@
-        drawn = torch.empty(0, dtype=torch.int64)
-        while len(drawn) < self.batch_size:
-            order = np.random.default_rng((self.seed, self.epoch)).permutation(self.n)
-            taken = order[self.position : self.position + self.batch_size - len(drawn)]
-            drawn = torch.cat([drawn, torch.from_numpy(taken)])
-            self.position += len(taken)
-            if self.position == self.n:
-                self.epoch, self.position = self.epoch + 1, 0
-        return drawn
+        drawn = []
+        for _ in range(self.batch_size):
+            epoch, position = divmod(self.count, self.n)
+            digest = hashlib.sha256(f"{self.seed} {epoch}".encode()).digest()
+            generator = torch.Generator().manual_seed(int.from_bytes(digest[:7]))
+            drawn.append(torch.randperm(self.n, generator=generator)[position])
+            self.count += 1
+        return torch.stack(drawn)
@@
-        return {"epoch": self.epoch, "position": self.position}
+        return {"count": self.count}
@@
-        self.epoch, self.position = state["epoch"], state["position"]
+        self.count = state["count"]
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
    "expected_seconds": {
        "failures counted first": """
-    return segments * (between_failures + restart) * math.expm1((interval + save) / between_failures)
+    failures = segments * math.expm1((interval + save) / between_failures)
+    return failures * between_failures + failures * restart
""",
    },
    "best_interval": {
        "Newton's method from Young's formula": """
-    low, high = 0.0, between_failures
-    for _ in range(100):
-        middle = (low + high) / 2
-        if middle < -between_failures * math.expm1(-(middle + save) / between_failures):
-            low = middle
-        else:
-            high = middle
-    return (low + high) / 2
+    interval = math.sqrt(2 * save * between_failures)
+    for _ in range(60):
+        x = (interval + save) / between_failures
+        interval -= (interval + between_failures * math.expm1(-x)) / -math.expm1(-x)
+    return interval
""",
    },
}

EQUIVALENT = {
    "the default since torch 2.6": ("unseal: weights_only left out: torch.load(io.BytesIO(content), map_loc…",),
    "the end of a loop or of a function": (
        "newest_intact: left out: return None",
        "newest_intact: left out: continue",
    ),
    "independent lines": (
        "EpochSampler: swapped: self.n, self.batch_size, self.seed = (n… | self.epoch, self.position = (0, 0)",
        "EpochSampler: swapped: drawn = torch.cat([drawn, torch.from_nu… | self.position += len(taken)",
        "restore_training_state: swapped: model.load_state_dict(state['model']) "
        "| optimizer.load_state_dict(state['optimi…",
        "restore_training_state: swapped: optimizer.load_state_dict(state['optimi… "
        "| scheduler.load_state_dict(state['schedu…",
        "restore_training_state: swapped: scheduler.load_state_dict(state['schedu… "
        "| scaler.load_state_dict(state['scaler'])",
        "restore_training_state: swapped: scaler.load_state_dict(state['scaler']) "
        "| average.load_state_dict(state['average'…",
        "restore_training_state: swapped: average.load_state_dict(state['average'… "
        "| sampler.load_state_dict(state['sampler'…",
        "restore_training_state: swapped: sampler.load_state_dict(state['sampler'… | random.setstate(state['python'])",
        "restore_training_state: swapped: random.setstate(state['python']) | np.random.set_state(('MT19937', *state[…",
        "restore_training_state: swapped: np.random.set_state(('MT19937', *state[… "
        "| torch.set_rng_state(state['torch'])",
        "restore_training_state: swapped: torch.set_rng_state(state['torch']) "
        "| torch.cuda.set_rng_state_all(state['cud…",
        "BackgroundSaver: swapped: self.write = write | self.thread = ThreadPoolExecutor(max_wo…",
        "BackgroundSaver: swapped: self.thread = ThreadPoolExecutor(max_wo… | self.pending: Future[None] | None = None",
    ),
    "an epoch that is over ends at the next look at it": (
        "EpochSampler: swapped: self.position += len(taken) | if self.position == self.n:",
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
    "the middle is never exactly the root, or is as good as its neighbor": (
        "best_interval: comparison replaced: middle < -between_failures * math.expm1…",
    ),
}
