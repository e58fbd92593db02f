"""Right answers to Lab 08 that differ from the reference, and automatic changes to it that change no behavior."""

RIGHT = {
    "flat": {
        "padded, then chunked": """
-    size = -(-whole.numel() // ranks)
-    mine = whole.detach().flatten()[rank * size : (rank + 1) * size]
-    part = whole.new_zeros(size)
-    part[: mine.numel()] = mine
-    return part
+    flat = whole.detach().reshape(-1)
+    missing = (ranks - flat.numel() % ranks) % ranks
+    return torch.nn.functional.pad(flat, (0, missing)).chunk(ranks)[rank].clone()
""",
        "lists of tensors": """
-    whole = part.new_empty(part.numel() * dist.get_world_size())
-    dist.all_gather_into_tensor(whole, part)
-    return whole[: shape.numel()].view(shape)
+    parts = [torch.empty_like(part) for _ in range(dist.get_world_size())]
+    dist.all_gather(parts, part)
+    return torch.cat(parts).narrow(0, 0, shape.numel()).reshape(shape)
@@
-    dist.reduce_scatter_tensor(part, padded)
-    return part / ranks
+    dist.reduce_scatter(part, list(padded.split(part.numel())))
+    return part.div_(ranks)
""",
    },
    "clip": {
        "torch's norm of the own numbers": """
-    mine = gradient[: max(0, numel - dist.get_rank() * gradient.numel())]
-    squares = mine.square().sum()
-    dist.all_reduce(squares)
-    norm = squares.sqrt().item()
-    if norm > max_norm:
-        gradient.mul_(max_norm / norm)
-    return norm
+    valid = min(gradient.numel(), max(numel - dist.get_rank() * gradient.numel(), 0))
+    square = torch.linalg.vector_norm(gradient[:valid]) ** 2
+    dist.all_reduce(square, op=dist.ReduceOp.SUM)
+    total = float(square) ** 0.5
+    gradient *= min(1.0, max_norm / (total + 1e-6))
+    return total
""",
    },
    "zero1": {
        "with torch's vectors": """
-    flat = gather(part.detach(), torch.Size([sum(sizes)]))
-    with torch.no_grad():
-        for p, new in zip(parameters, flat.split(sizes), strict=True):
-            p.copy_(new.view_as(p))
+    every = torch.empty(part.numel() * dist.get_world_size(), dtype=part.dtype)
+    dist.all_gather_into_tensor(every, part.data)
+    start = 0
+    for p, size in zip(parameters, sizes, strict=True):
+        p.data.copy_(every[start : start + size].reshape(p.shape))
+        start += size
""",
    },
    "whole_weights": {
        "by offsets": """
-    shapes = {name: p.shape for name, p in module.named_parameters()}
-    sizes = [shape.numel() for shape in shapes.values()]
-    pieces = full[: sum(sizes)].split(sizes)
-    return full, {name: piece.view(shape) for (name, shape), piece in zip(shapes.items(), pieces, strict=True)}
+    weights, offset = {}, 0
+    for name, p in module.named_parameters():
+        weights[name] = full.narrow(0, offset, p.numel()).view(p.size())
+        offset += p.numel()
+    return full, weights
""",
    },
    "sharded_forward": {
        "without the functions above": """
-    full, weights = whole_weights(module, part)
-    memory = full.untyped_storage()
-    room = memory.nbytes()
-
-    def before_backward(_: Tensor) -> None:
-        memory.resize_(room)
-        dist.all_gather_into_tensor(full.data, part.detach())
+    world = dist.get_world_size()
+    full = torch.empty(world * part.numel(), dtype=part.dtype)
+    with torch.no_grad():
+        dist.all_gather_into_tensor(full, part)
+    full.requires_grad = torch.is_grad_enabled()
+    memory, weights, start = full.untyped_storage(), {}, 0
+    room = memory.nbytes()
+    for name, p in module.named_parameters():
+        weights[name] = full[start : start + p.numel()].view(p.shape)
+        start += p.numel()
+
+    def before_backward(_):
+        memory.resize_(room)
+        dist.all_gather_into_tensor(full.data, part.data)
+
+    def after_backward(leaf):
+        shard = torch.empty_like(part.data)
+        dist.reduce_scatter_tensor(shard, leaf.grad)
+        shard.div_(world)
+        if part.grad is None:
+            part.grad = shard
+        else:
+            part.grad += shard
+        leaf.grad = None
+        memory.resize_(0)
@@
-        full.register_post_accumulate_grad_hook(lambda _: reduce_into_part(full, part))
+        full.register_post_accumulate_grad_hook(after_backward)
""",
    },
    "mixed_step": {
        "with torch.autograd.grad": """
-    loss_of(full.requires_grad_()).backward()
+    (gradient,) = torch.autograd.grad(loss_of(full.requires_grad_()), full)
@@
-    dist.reduce_scatter_tensor(mean, full.grad.to(reduce_dtype))
-    part -= lr * (mean / ranks).float()
+    dist.reduce_scatter_tensor(mean, gradient.to(reduce_dtype))
+    mean.div_(ranks)
+    part.add_(mean.to(torch.float32), alpha=-lr)
""",
    },
    "save_parts": {
        "an old partial folder is removed first": """
-    partial.mkdir(exist_ok=True)
+    import os
+    import shutil
+
+    if rank == 0:
+        shutil.rmtree(partial, ignore_errors=True)
+        os.makedirs(partial)
+    dist.barrier()
@@
-    (partial / f"part-{rank}.bin").write_bytes(part.numpy()[: counts[rank]].tobytes())
+    with open(partial / f"part-{rank}.bin", "wb") as file:
+        part.detach().numpy()[: counts[rank]].tofile(file)
@@
-        partial.rename(folder)
+        os.replace(partial, folder)
""",
    },
    "load_part": {
        "with seek and read": """
-            numbers = np.fromfile(file, dtype, count=last - first, offset=offset)
+            with file.open("rb", buffering=0) as opened:
+                opened.seek(offset)
+                numbers = np.frombuffer(opened.read((last - first) * dtype.itemsize), dtype)
""",
    },
}

EQUIVALENT = {
    "the two statements are independent": (
        "cut: swapped: mine = whole.detach().flatten()[rank * … | part = whole.new_zeros(size)",
        "zero1_step: swapped: optimizer.step() | sizes = [p.numel() for p in parameters]",
        "whole_weights: swapped: dist.all_gather_into_tensor(full, part.… | full.requires_grad_(torch.is_grad_enabl…",
        "sharded_forward: swapped: if reshard: | if y.requires_grad:",
        "whole_weights: swapped: full.requires_grad_(torch.is_grad_enabl… | shapes = {name: p.shape for name, p in …",
        "reduce_into_part: swapped: part.grad = mean if part.grad is None e… | full.grad = None",
        "reduce_into_part: swapped: full.grad = None | memory = full.untyped_storage()",
        "sharded_forward: swapped: full.register_post_accumulate_grad_hook… | if reshard:",
        "mixed_step: swapped: loss_of(full.requires_grad_()).backward… | mean = torch.empty(part.numel(), dtype=…",
        "save_parts: swapped: rank, ranks, size = (dist.get_rank(), d… | partial = folder.with_name(folder.name …",
        "save_parts: swapped: partial.mkdir(exist_ok=True) | counts = [min(size, max(0, numel - r * …",
        "save_parts: swapped: (partial / f'part-{rank}.bin').write_by… | if rank == 0:",
    ),
    "rank 0 writes the manifest before the rename in both orders": (
        "save_parts: swapped: if rank == 0: | dist.barrier()",
    ),
    "the zipped lists have the same length": (
        "zero1_step: strict left out: zip(parameters, flat.split(sizes), stri…",
        "whole_weights: strict left out: zip(shapes.items(), pieces, strict=True)",
    ),
    "a gradient whose norm is the limit is multiplied by 1": ("clip_part: comparison replaced: norm > max_norm",),
    "no numbers are read where nothing overlaps": ("load_part: comparison replaced: first < last",),
}
