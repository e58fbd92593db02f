"""Right answers to Lab 10 that differ from the reference, and automatic changes to it that change no behavior."""

RIGHT = {
    "prepare": {
        "one picture at a time, normalized by hand": """
-        padded = F.pad(images, (0, 0, 2, 2, 2, 2))  # [B, H + 4, W + 4, C], 0 around
-        corners = (2 - shifts).tolist()
-        images = torch.stack(
-            [picture[y : y + height, x : x + width] for picture, (y, x) in zip(padded, corners, strict=True)]
-        )
-    return ((images.float() / 255 - mean) / std).permute(0, 3, 1, 2).contiguous()
+        moved = torch.zeros_like(images)
+        for number, (dy, dx) in enumerate(shifts.tolist()):
+            rows = slice(max(dy, 0), height + min(dy, 0)), slice(max(-dy, 0), height + min(-dy, 0))
+            columns = slice(max(dx, 0), width + min(dx, 0)), slice(max(-dx, 0), width + min(-dx, 0))
+            moved[number, rows[0], columns[0]] = images[number, rows[1], columns[1]]
+        images = moved
+    batch = images.movedim(-1, 1).to(torch.float32).div(255)
+    return batch.sub(mean.view(1, -1, 1, 1)).div(std.view(1, -1, 1, 1)).clone(memory_format=torch.contiguous_format)
""",
    },
    "epoch_indices": {
        "torch's generator, ranks in blocks": """
-    order = np.random.default_rng((seed, epoch)).permutation(size)
-    return torch.from_numpy(order[rank::ranks][worker::workers].copy())
+    words = np.random.SeedSequence((seed, epoch)).generate_state(1, np.uint64)
+    order = torch.randperm(size, generator=torch.Generator().manual_seed(int(words[0]) % 2**63))
+    return order.tensor_split(ranks)[rank].tensor_split(workers)[worker]
""",
        "Python's random": """
-    order = np.random.default_rng((seed, epoch)).permutation(size)
-    return torch.from_numpy(order[rank::ranks][worker::workers].copy())
+    order = list(range(size))
+    random.Random(f"{seed} {epoch}").shuffle(order)
+    share = [sample for number, sample in enumerate(order) if number % ranks == rank]
+    return torch.tensor(share[worker::workers], dtype=torch.int64)
""",
    },
    "seed_worker": {
        "a digest of the four numbers": """
-    words = np.random.SeedSequence((seed, epoch, rank, worker)).generate_state(3)
-    random.seed(int(words[0]))
-    np.random.seed(words[1])
-    torch.manual_seed(int(words[2]))
+    import hashlib
+
+    digest = int.from_bytes(hashlib.sha256(repr((seed, epoch, rank, worker)).encode()).digest(), "big")
+    random.seed(digest)
+    np.random.seed(digest % 2**32)
+    torch.manual_seed(digest % 2**63)
""",
    },
    "TextStream": {
        "a dict of counts, and shares by islice": """
-        self.taken = [0] * max(workers, 1)  # windows of this epoch that the run has trained on, by worker
+        self.workers = max(workers, 1)
+        self.counts: Counter[int] = Counter()
+        self.total = len(epoch_indices(self.windows, seed, 0, rank, ranks, 0, 1))
@@
-        place = self.epoch, self.rank, self.ranks, worker, len(self.taken)
-        for window in epoch_indices(self.windows, self.seed, *place)[self.taken[worker] :].tolist():
+        place = self.epoch, self.rank, self.ranks, worker, self.workers
+        share, skipped = epoch_indices(self.windows, self.seed, *place), self.counts[worker]
+        for number, window in enumerate(share.tolist()):
+            if number < skipped:
+                continue
@@
-        for number in worker.tolist():
-            self.taken[number] += 1
-        if sum(self.taken) == len(epoch_indices(self.windows, self.seed, self.epoch, self.rank, self.ranks, 0, 1)):
-            self.epoch, self.taken = self.epoch + 1, [0] * len(self.taken)
+        self.counts.update(worker.tolist())
+        if self.counts.total() >= self.total:
+            self.epoch += 1
+            self.counts = Counter()
@@
-        return {"epoch": self.epoch, "ranks": self.ranks, "taken": list(self.taken)}
+        taken = [self.counts[worker] for worker in range(self.workers)]
+        return {"epoch": self.epoch, "ranks": self.ranks, "taken": taken}
@@
-        if (state["ranks"], len(state["taken"])) != (self.ranks, len(self.taken)):
-            raise ValueError(
-                f"the state is of {state['ranks']} ranks with {len(state['taken'])} workers each, "
-                f"not of {self.ranks} with {len(self.taken)}: resume with as many."
-            )
-        self.epoch, self.taken = state["epoch"], list(state["taken"])
+        if state["ranks"] != self.ranks or len(state["taken"]) != self.workers:
+            raise ValueError("another number of ranks or workers")
+        self.epoch, self.counts = state["epoch"], Counter(dict(enumerate(state["taken"])))
""",
    },
    "pack_documents": {
        "tensors in place of a list of fours": """
-    packed: list[tuple[int, int, int, int]] = []
-    for number, document in enumerate(documents):
-        first = len(packed)
-        next_tokens = [*document[1:], eos, -100] if document else [-100]
-        for place, (token, target) in enumerate(zip([*document, eos], next_tokens, strict=True)):
-            row_start = (first + place) // length * length
-            position = first + place - max(first, row_start)
-            packed.append((token, target, number, position))
-    packed += [(eos, -100, -1, 0)] * (-len(packed) % length)
-    return Packed(*torch.tensor(packed, dtype=torch.int64).view(-1, length, 4).unbind(-1))
+    flat = [token for document in documents for token in [*document, eos]]
+    size = len(flat) + -len(flat) % length
+    tokens = torch.full((size,), eos)
+    numbers = torch.full((size,), -1)
+    tokens[: len(flat)] = torch.tensor(flat, dtype=torch.int64)
+    lengths = torch.tensor([len(document) + 1 for document in documents], dtype=torch.int64)
+    numbers[: len(flat)] = torch.repeat_interleave(torch.arange(len(documents)), lengths)
+    following = tokens.roll(-1)
+    targets = following.where((numbers == numbers.roll(-1)) & (numbers >= 0), -100)
+    if len(documents) == 1 and len(flat) == size:
+        targets[-1] = -100
+    starts = (lengths.cumsum(0) - lengths)[numbers.clamp(min=0)] if documents else torch.zeros_like(numbers)
+    places = torch.arange(size)
+    positions = (places - torch.maximum(starts, places // length * length)).where(numbers >= 0, 0)
+    return Packed(*(part.view(-1, length) for part in (tokens, targets, numbers, positions)))
""",
        "token by token": """
-    same = documents[:, :, None] == documents[:, None, :]  # [N, T, T]
-    real = (documents >= 0)[:, :, None]
-    itself = torch.eye(documents.shape[1], dtype=torch.bool, device=documents.device)
-    return ((same & real).tril() | itself)[:, None]
+    rows, tokens = documents.shape
+    mask = torch.zeros(rows, 1, tokens, tokens, dtype=torch.bool)
+    for row in range(rows):
+        for token in range(tokens):
+            document = documents[row, token]
+            mask[row, 0, token, token] = True
+            if document >= 0:
+                mask[row, 0, token, : token + 1] = documents[row, : token + 1] == document
+    return mask
""",
    },
    "train_bpe": {
        "a plain dict, a merge in a copy, sorted pairs": """
-    merged, place = [], 0
-    while place < len(tokens):
-        found = (tokens[place], *tokens[place + 1 : place + 2]) == pair
-        merged.append(new if found else tokens[place])
-        place += 2 if found else 1
-    return merged
+    merged, place = list(tokens), 0
+    while place < len(merged) - 1:
+        if (merged[place], merged[place + 1]) == pair:
+            merged[place : place + 2] = [new]
+        place += 1
+    return merged
@@
-        counts = Counter(pairwise(tokens))
-        pair = min(counts, key=lambda pair: (-counts[pair], pair), default=None)
-        if pair is None or counts[pair] < 2:
-            break
+        counts: dict[tuple[int, int], int] = {}
+        for place in range(len(tokens) - 1):
+            pair = tokens[place], tokens[place + 1]
+            counts[pair] = counts.get(pair, 0) + 1
+        most = max(counts.values(), default=0)
+        if most < 2:
+            break
+        pair = sorted(pair for pair, count in counts.items() if count == most)[0]
""",
        "the earliest merge that is there, and recursion": """
-    for number, pair in enumerate(merges):
-        tokens = merge_pair(tokens, pair, 256 + number)
-    return tokens
+    numbers = {pair: number for number, pair in enumerate(merges)}
+    while known := [numbers[pair] for pair in pairwise(tokens) if pair in numbers]:
+        tokens = merge_pair(tokens, merges[min(known)], 256 + min(known))
+    return tokens
""",
    },
}

# changes by `make prove` that nothing notices although they change nothing, as {why: ("function: change", ...)}
EQUIVALENT: dict[str, tuple[str, ...]] = {
    "the order of these two lines does not matter": (
        "prepare: swapped: shifts = torch.randint(-2, 3, (size, 2)… | padded = F.pad(images, (0, 0, 2, 2, 2, …",
        "prepare: swapped: padded = F.pad(images, (0, 0, 2, 2, 2, … | corners = (2 - shifts).tolist()",
        "seed_worker: swapped: random.seed(int(words[0])) | np.random.seed(words[1])",
        "seed_worker: swapped: np.random.seed(words[1]) | torch.manual_seed(int(words[2]))",
        "TextStream: swapped: self.tokens, self.length, self.seed = (… | self.rank, self.ranks = (rank, ranks)",
        "TextStream: swapped: self.rank, self.ranks = (rank, ranks) | self.windows = (len(tokens) - 1) // len…",
        "TextStream: swapped: self.windows = (len(tokens) - 1) // len… | self.epoch = 0",
        "TextStream: swapped: self.epoch = 0 | self.taken = [0] * max(workers, 1)",
        "pack_documents: swapped: first = len(packed) | next_tokens = [*document[1:], eos, -100…",
        "pack_documents: swapped: same = documents[:, :, None] == documen… | real = (documents >= 0)[:, :, None]",
        "pack_documents: swapped: real = (documents >= 0)[:, :, None] | itself = torch.eye(documents.shape[1], …",
        "train_bpe: swapped: tokens = list(text.encode()) | learned: list[tuple[int, int]] = []",
        "train_bpe: swapped: if pair is None or counts[pair] < 2: | tokens = merge_pair(tokens, pair, 256 +…",
    ),
    "lists of one length, and CPU tensors, need no such argument": (
        "prepare: strict left out: zip(padded, corners, strict=True)",
        "pack_documents: strict left out: zip([*document, eos], next_tokens, stri…",
        "pack_documents: device left out: torch.eye(documents.shape[1], dtype=tor…",
    ),
}
