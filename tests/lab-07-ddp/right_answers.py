"""Right answers to Lab 07 that differ from the reference, and automatic changes to it that change no behavior."""

RIGHT = {
    "exchange": {
        "both in the background": """
-    sending = dist.isend(outgoing, (rank + 1) % ranks)
-    dist.recv(incoming, (rank - 1) % ranks)
-    assert sending is not None
-    sending.wait()
+    send = dist.P2POp(dist.isend, outgoing, (rank + 1) % ranks)
+    receive = dist.P2POp(dist.irecv, incoming, (rank - 1) % ranks)
+    for work in dist.batch_isend_irecv([send, receive]):
+        work.wait()
""",
        "even ranks send first": """
-    sending = dist.isend(outgoing, (rank + 1) % ranks)
-    dist.recv(incoming, (rank - 1) % ranks)
-    assert sending is not None
-    sending.wait()
+    if rank % 2 == 0:
+        dist.send(outgoing, (rank + 1) % ranks)
+    dist.recv(incoming, (rank - 1) % ranks)
+    if rank % 2:
+        dist.send(outgoing, (rank + 1) % ranks)
""",
        "receives first, in the background": """
-    sending = dist.isend(outgoing, (rank + 1) % ranks)
-    dist.recv(incoming, (rank - 1) % ranks)
-    assert sending is not None
-    sending.wait()
+    receiving = dist.irecv(incoming, src=(rank + ranks - 1) % ranks)
+    dist.send(outgoing.clone(), dst=(rank + 1) % ranks)
+    receiving.wait()
""",
    },
    "ring_all_reduce": {
        "begins with the chunk of the rank before": """
-    chunks = tensor.view(-1).tensor_split(ranks)  # views: what is written into them is written into tensor
+    chunks = tensor.view(-1).tensor_split(ranks)
+    chunks = (*chunks[-1:], *chunks[:-1])  # views: what is written into them is written into tensor
""",
        "two loops, without exchange": """
-    for step in range(2 * (ranks - 1)):
-        chunk = chunks[(rank - step - 1) % ranks]
-        received = torch.empty_like(chunk)
-        exchange(chunks[(rank - step) % ranks], received)
-        if step < ranks - 1:
-            chunk.add_(received)
-        else:
-            chunk.copy_(received)
+    right, left = (rank + 1) % ranks, (rank - 1) % ranks
+    for step in range(ranks - 1):
+        buffer = torch.zeros_like(chunks[(rank - step - 1) % ranks])
+        work = dist.isend(chunks[(rank - step) % ranks], right)
+        dist.recv(buffer, left)
+        work.wait()
+        chunks[(rank - step - 1) % ranks] += buffer
+    for step in range(ranks - 1):
+        work = dist.isend(chunks[(rank - step + 1) % ranks].clone(), right)
+        dist.recv(chunks[(rank - step) % ranks], left)
+        work.wait()
@@
-    chunks = tensor.view(-1).tensor_split(ranks)  # views: what is written into them is written into tensor
+    chunks = list(torch.tensor_split(tensor.reshape(-1), ranks))
""",
    },
    "same_start": {
        "under no_grad, by module": """
-    for tensor in (*model.parameters(), *model.buffers()):
-        dist.broadcast(tensor.detach(), src=0)
+    seen = set()
+    with torch.no_grad():
+        for module in model.modules():
+            for tensor in (*module.parameters(recurse=False), *module.buffers(recurse=False)):
+                if tensor not in seen:
+                    dist.broadcast(tensor, 0)
+                    seen.add(tensor)
""",
        "copied into the model": """
-        dist.broadcast(tensor.detach(), src=0)
+        received = tensor.data.clone()
+        work = dist.broadcast(received, src=0, async_op=True)
+        work.wait()
+        tensor.data.copy_(received)
""",
    },
    "data_parallel": {
        "divides first": """
-        dist.all_reduce(parameter.grad)
-        parameter.grad.div_(dist.get_world_size())
+        parameter.grad /= dist.get_world_size()
+        dist.all_reduce(parameter.grad)
""",
        "a new gradient in a closure for each": """
-        dist.all_reduce(parameter.grad)
-        parameter.grad.div_(dist.get_world_size())
+        total = parameter.grad.clone()
+        dist.all_reduce(total, op=dist.ReduceOp.SUM)
+        parameter.grad = total / dist.get_world_size()
""",
    },
    "make_buckets": {
        "with counters": """
-    closed: list[list[nn.Parameter]] = []
-    filling: dict[torch.dtype, list[nn.Parameter]] = {}
-    for parameter in reversed([p for p in parameters if p.requires_grad]):
-        bucket = filling.setdefault(parameter.dtype, [])
-        bucket.append(parameter)
-        if sum(p.numel() * p.element_size() for p in bucket) >= cap:
-            closed.append(filling.pop(parameter.dtype))
-    return [*closed, *filling.values()]
+    done, current, size = [], {}, {}
+    for p in list(parameters)[::-1]:
+        if not p.requires_grad:
+            continue
+        if p.dtype not in current:
+            current[p.dtype], size[p.dtype] = [], 0
+        current[p.dtype] += [p]
+        size[p.dtype] += p.nbytes
+        if size[p.dtype] >= cap:
+            done += [current[p.dtype]]
+            del current[p.dtype]
+    for bucket in current.values():
+        done.append(bucket)
+    return done
""",
    },
    "reduce_bucket": {
        "copied into the gradients that are there": """
-            parameter.grad = mean.view_as(parameter)
+            if parameter.grad is None:
+                parameter.grad = torch.zeros_like(parameter)
+            parameter.grad.copy_(mean.reshape(parameter.shape))
""",
        "divides before it sends, and unflattens": """
+    from torch._utils import _flatten_dense_tensors, _unflatten_dense_tensors
+
     flat = torch.cat([(torch.zeros_like(p) if p.grad is None else p.grad).flatten() for p in bucket])
+    grads = [torch.zeros_like(p) if p.grad is None else p.grad for p in bucket]
+    flat = _flatten_dense_tensors(grads) / dist.get_world_size()
@@
-        means = flat.div_(dist.get_world_size()).split([p.numel() for p in bucket])
+        means = _unflatten_dense_tensors(flat, grads)
""",
    },
    "overlap": {
        "ready sets, and a pointer to the next bucket": """
-    bucket_of = {parameter: number for number, bucket in enumerate(buckets) for parameter in bucket}
-    missing = [len(bucket) for bucket in buckets]
-    started: list[Callable[[], None]] = []
-
-    def note(parameter: Tensor) -> None:
-        missing[bucket_of[parameter]] -= 1
-        while len(started) < len(buckets) and missing[len(started)] == 0:
-            started.append(reduce_bucket(buckets[len(started)]))
-
-    def finish() -> None:
-        while len(started) < len(buckets):
-            started.append(reduce_bucket(buckets[len(started)]))
-        for finish_bucket in started:
-            finish_bucket()
-        missing[:] = [len(bucket) for bucket in buckets]
-        started.clear()
-
-    for parameter in bucket_of:
-        parameter.register_post_accumulate_grad_hook(note)
+    state = {"next": 0, "ready": set(), "pending": []}
+
+    def launch(everything):
+        while state["next"] < len(buckets):
+            bucket = buckets[state["next"]]
+            if not everything and not all(id(p) in state["ready"] for p in bucket):
+                break
+            flat = torch.cat([p.new_zeros(p.numel()) if p.grad is None else p.grad.reshape(-1) for p in bucket])
+            state["pending"].append((bucket, flat, dist.all_reduce(flat, async_op=True)))
+            state["next"] += 1
+
+    def hook(p):
+        state["ready"].add(id(p))
+        launch(False)
+
+    def finish():
+        launch(True)
+        for bucket, flat, handle in state["pending"]:
+            handle.wait()
+            flat /= dist.get_world_size()
+            start = 0
+            for p in bucket:
+                p.grad = flat[start : start + p.numel()].view(p.shape)
+                start += p.numel()
+        state.update({"next": 0, "ready": set(), "pending": []})
+
+    for p in model.parameters():
+        if p.requires_grad:
+            p.register_post_accumulate_grad_hook(hook)
""",
    },
    "accumulate": {
        "sums first, divided at the end": """
-    ranks, tokens = dist.get_world_size(), (y != -100).sum()
-    dist.all_reduce(tokens)  # of all ranks
     ddp.zero_grad(set_to_none=True)
+    ranks, count = dist.get_world_size(), (y != -100).sum().item()
@@
-            loss = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten(), reduction="sum") / tokens
-            (loss * ranks).backward()  # DDP divides by the ranks
-        total += loss.detach()
-    dist.all_reduce(total)
-    return total.item()
+            logits = ddp(micro_x)
+            loss = F.cross_entropy(logits.view(-1, logits.size(-1)), micro_y.reshape(-1), reduction="sum")
+            loss.backward()
+        total += loss.item()
+    both = torch.tensor([total.item(), count], dtype=torch.float64)
+    dist.all_reduce(both)
+    for p in ddp.parameters():
+        if p.grad is not None:
+            p.grad *= ranks / both[1]
+    return float(both[0] / both[1])
""",
        "the flag, set before forward": """
-        with contextlib.nullcontext() if number == k else ddp.no_sync():
-            loss = F.cross_entropy(ddp(micro_x).flatten(0, 1), micro_y.flatten(), reduction="sum") / tokens
-            (loss * ranks).backward()  # DDP divides by the ranks
+        ddp.require_backward_grad_sync = number == k
+        loss = F.cross_entropy(ddp(micro_x).transpose(1, 2), micro_y, reduction="sum") / tokens
+        (ranks * loss).backward()
""",
    },
}

EQUIVALENT = {
    "the assertion is for the type checker": (
        "exchange: left out: assert sending is not None",
        "exchange: swapped: assert sending is not None | sending.wait()",
        "exchange: swapped: dist.recv(incoming, (rank - 1) % ranks) | assert sending is not None",
        "data_parallel: left out: assert parameter.grad is not None",
        "data_parallel: swapped: assert parameter.grad is not None | dist.all_reduce(parameter.grad)",
        "reduce_bucket: left out: assert work is not None",
        "reduce_bucket: swapped: assert work is not None | work.wait()",
    ),
    "the two statements are independent": (
        "make_buckets: swapped: closed: list[list[nn.Parameter]] = [] | filling: dict[torch.dtype, list[nn.Para…",
        "overlap: swapped: bucket_of = {parameter: number for numb… | missing = [len(bucket) for bucket in bu…",
        "overlap: swapped: missing = [len(bucket) for bucket in bu… | started: list[Callable[[], None]] = []",
        "overlap: swapped: for finish_bucket in started: | missing[:] = [len(bucket) for bucket in…",
        "overlap: swapped: missing[:] = [len(bucket) for bucket in… | started.clear()",
        "shard: swapped: if shuffle: | each = length // ranks if drop_last els…",
        "accumulate: swapped: dist.all_reduce(tokens) | ddp.zero_grad(set_to_none=True)",
        "accumulate: swapped: ddp.zero_grad(set_to_none=True) | total = torch.zeros(())",
    ),
    "dividing before or after the sum gives the same gradient": (
        "data_parallel: swapped: dist.all_reduce(parameter.grad) | parameter.grad.div_(dist.get_world_size…",
    ),
    "the zipped lists have the same length": (
        "reduce_bucket: strict left out: zip(bucket, means, strict=True)",
        "accumulate: strict left out: zip(x.chunk(k), y.chunk(k), strict=True)",
    ),
    "the list is cut to its length at the end": ("shard: operator replaced: each * ranks - len(order)",),
    "the argument is the default": ("accumulate: set_to_none left out: ddp.zero_grad(set_to_none=True)",),
}
