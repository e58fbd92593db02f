"""Right answers to Lab 16 that differ from the reference, and automatic changes to it that change no behavior."""

RIGHT = {
    "cure_01": {
        "cleared first, as zeros": """
     for _ in range(steps):
+        for parameter in model.parameters():
+            if parameter.grad is not None:
+                parameter.grad.zero_()
         starts = torch.randint(len(tokens) - block_size, (batch_size,), generator=generator)
@@
         loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
-        optimizer.zero_grad()
         loss.backward()
""",
        "cleared at the end of a step, by the model": """
         loss = F.cross_entropy(logits.flatten(0, 1), targets.flatten())
-        optimizer.zero_grad()
         loss.backward()
@@
         log["gradient_norm"].append(torch.stack(norms).norm().item())
+        model.zero_grad()
     return log
""",
    },
    "cure_02": {
        "gradients divided before the update": """
             loss = F.cross_entropy(model(images[part]), labels[part])
-            (loss / accumulate).backward()
+            loss.backward()
             total += loss.item()
+        for parameter in model.parameters():
+            if parameter.grad is not None:
+                parameter.grad /= accumulate
         norms = [parameter.grad.norm() for parameter in model.parameters() if parameter.grad is not None]
""",
        "weighted by rows": """
-            (loss / accumulate).backward()
+            (loss * len(part) / len(rows)).backward()
""",
    },
    "cure_03": {
        "mode set after the validation": """
     log: Log = {"loss": [], "val_loss": []}
+    model.train()
     for step in range(1, steps + 1):
-        model.train()
         rows = torch.randint(len(images), (batch_size,), generator=generator)
@@
                 log["val_loss"].append(F.cross_entropy(model(val_images), val_labels).item())
+            model.train()
     return log
""",
        "mode kept in a variable": """
-        model.train()
+        model.train(True)
@@
-            model.eval()
+            model.train(False)
""",
    },
    "cure_04": {
        "eval and back": """
     log: Log = {"loss": [], "val_loss": []}
+    model.train()
     for step in range(1, steps + 1):
-        model.train()
         rows = torch.randint(len(images), (batch_size,), generator=generator)
@@
             log["val_loss"].append(total / len(val_images))
+            model.train()
     return log
""",
        "one batch of all pictures": """
-            total = 0.0
-            with torch.no_grad():
-                for x, y in zip(val_images.split(batch_size), val_labels.split(batch_size), strict=True):
-                    total += F.cross_entropy(model(x), y, reduction="sum").item()
-            log["val_loss"].append(total / len(val_images))
+            with torch.inference_mode():
+                log["val_loss"].append(F.cross_entropy(model(val_images), val_labels).item())
""",
    },
    "cure_05": {
        "negative log-likelihood of log-softmax": """
-        loss = F.cross_entropy(scores, labels[rows])
+        loss = F.nll_loss(scores.log_softmax(dim=-1), labels[rows])
""",
        "a module for the loss": """
     optimizer = torch.optim.Adam(model.parameters(), lr=lr)
+    criterion = nn.CrossEntropyLoss()
     log: Log = {"loss": [], "accuracy": []}
@@
         scores = model(images[rows])  # [B, K], logits
-        loss = F.cross_entropy(scores, labels[rows])
+        loss = criterion(scores, labels[rows])
         optimizer.zero_grad()
""",
        "logarithm of the probabilities": """
-        scores = model(images[rows])  # [B, K], logits
-        loss = F.cross_entropy(scores, labels[rows])
+        scores = model(images[rows]).softmax(dim=-1)  # [B, K]
+        loss = F.nll_loss(scores.log(), labels[rows])
""",
    },
    "cure_06": {
        "length in batches": """
     optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
-    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=epochs)
+    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1, 0, total_iters=epochs * -(-len(images) // batch_size))
     log: Log = {"loss": []}
@@
             optimizer.step()
+            scheduler.step()
             log["loss"].append(loss.item())
-        scheduler.step()
     return log
""",
        "rate set by hand": """
-    scheduler = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.0, total_iters=epochs)
@@
-    for _ in range(epochs):
+    for epoch in range(epochs):
+        optimizer.param_groups[0]["lr"] = lr * (1 - epoch / epochs)
@@
-        scheduler.step()
""",
    },
    "cure_07": {
        "group added to the optimizer": """
     generator = torch.Generator().manual_seed(seed)
-    model[-1] = head  # in place of the pretrained head
     optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
+    model[-1] = head
+    optimizer.add_param_group({"params": head.parameters()})
     log: Log = {"loss": []}
""",
        "a new model of the same layers": """
-    model[-1] = head  # in place of the pretrained head
+    model = nn.Sequential(*model[:-1], head)
""",
    },
    "cure_08": {
        "functional relu": """
-        features = features.relu()
+        features = F.relu(features)
""",
    },
    "cure_09": {
        "the model's own weights": """
-    torch.manual_seed(seed)
-    for parameter in model.parameters():
-        if parameter.dim() >= 2:
-            nn.init.normal_(parameter, std=0.02)
""",
        "another small deviation": """
-            nn.init.normal_(parameter, std=0.02)
+            nn.init.normal_(parameter, std=0.03)
""",
    },
    "cure_10": {
        "both in a new order": """
-        pictures = images[order]
+        pictures, targets = images[order], labels[order]
@@
-            y = labels[order[first : first + batch_size]]
+            y = targets[first : first + batch_size]
""",
        "both reordered in place": """
-        pictures = images[order]
+        images, labels = images[order], labels[order]
@@
-            x = pictures[first : first + batch_size]
-            y = labels[order[first : first + batch_size]]
+            x = images[first : first + batch_size]
+            y = labels[first : first + batch_size]
""",
    },
    "cure_11": {
        "a seed per step": """
-    generator = torch.Generator().manual_seed(seed)
     optimizer = torch.optim.AdamW(model.parameters(), lr=lr)
@@
         model.train()
+        generator = torch.Generator().manual_seed(1000 * seed + len(log["loss"]))
         starts = torch.randint(len(tokens) - block_size, (batch_size,), generator=generator)
""",
    },
    "cure_12": {
        "targets from the end": """
-        targets = windows[:, 1:].flatten()
+        targets = windows[:, -block_size:].flatten()
""",
    },
    "cure_13": {
        "fused attention": """
-        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])  # [B, T, T]
-        hidden = torch.ones_like(scores[0], dtype=torch.bool).triu(1)  # [T, T]
-        scores = scores.masked_fill(hidden, -math.inf)
-        x = x + model["out"](scores.softmax(dim=-1) @ v)
+        x = x + model["out"](F.scaled_dot_product_attention(q, k, v, is_causal=True))
""",
        "a mask that is added": """
-        hidden = torch.ones_like(scores[0], dtype=torch.bool).triu(1)  # [T, T]
-        scores = scores.masked_fill(hidden, -math.inf)
+        scores = scores + torch.full_like(scores[0], -math.inf).triu(1)
""",
    },
    "cure_14": {
        "the other rows train": """
-    train_rows, val_rows = shuffled[:-held_out], shuffled[-held_out:]
+    train_rows, val_rows = shuffled[held_out:], shuffled[:held_out]
""",
    },
    "cure_15": {
        "no graph in the validation": """
-            sums = [F.cross_entropy(model(x), y, reduction="sum").item() for x, y in batches]
+            with torch.no_grad():
+                sums = [F.cross_entropy(model(x), y, reduction="sum") for x, y in batches]
@@
-    return {"loss": [v.item() for v in losses], "val_loss": val_losses, "memory": memory}
+    return {"loss": [v.item() for v in losses], "val_loss": [v.item() for v in val_losses], "memory": memory}
""",
        "detached at the end of a validation": """
-            sums = [F.cross_entropy(model(x), y, reduction="sum").item() for x, y in batches]
-            val_losses.append(sum(sums) / len(val_images))
+            sums = [F.cross_entropy(model(x), y, reduction="sum") for x, y in batches]
+            val_losses.append((sum(sums) / len(val_images)).detach())
@@
-    return {"loss": [v.item() for v in losses], "val_loss": val_losses, "memory": memory}
+    return {"loss": [v.item() for v in losses], "val_loss": [v.item() for v in val_losses], "memory": memory}
""",
    },
    "cure_16": {
        "windows encoded one by one": """
-    tokens = encode(text)  # [N]
@@
-        starts = torch.randint(len(tokens) - block_size, (batch_size,), generator=generator)
-        windows = tokens.unfold(0, block_size + 1, 1)[starts].to(device)  # [B, T + 1]
+        starts = torch.randint(len(text) - block_size, (batch_size,), generator=generator)
+        windows = torch.stack([encode(text[s : s + block_size + 1]) for s in starts.tolist()]).to(device)
""",
    },
    "cure_17": {
        "a view": """
-        logits = head(features.flatten(1))
+        logits = head(features.view(len(rows), -1))
""",
        "reshaped": """
-        logits = head(features.flatten(1))
+        logits = head(features.reshape(features.shape[0], -1))
""",
    },
    "cure_18": {
        "all data moved once": """
     optimizer = torch.optim.SGD(model.parameters(), lr=lr, momentum=0.9)
+    images, labels = images.to(device), labels.to(device)
     losses = []
@@
         rows = torch.randint(len(images), (batch_size,), generator=generator)
-        x, y = images[rows].to(device), labels[rows].to(device)
+        x, y = images[rows], labels[rows]
         loss = F.cross_entropy(model(x), y)
""",
    },
    "cure_19": {
        "a sum divided": """
-        loss = torch.stack(losses).mean()
+        loss = sum(losses) / views
""",
    },
    "cure_20": {
        "converted by NumPy": """
-    images = torch.from_numpy((pictures - pictures.mean()) / pictures.std()).float().to(device)
+    images = torch.from_numpy(((pictures - pictures.mean()) / pictures.std()).astype(np.float32)).to(device)
""",
        "converted at the call": """
-    images = torch.from_numpy((pictures - pictures.mean()) / pictures.std()).float().to(device)
+    images = torch.from_numpy((pictures - pictures.mean()) / pictures.std()).to(device)
@@
-        loss = F.cross_entropy(model(images[rows]), targets[rows])
+        loss = F.cross_entropy(model(images[rows].to(torch.float32)), targets[rows])
""",
    },
    "cure_21": {
        "PyTorch's DDP": """
-    for tensor in model.state_dict().values():
-        dist.broadcast(tensor, src=0)
+    parallel = nn.parallel.DistributedDataParallel(model)
@@
-        loss = F.cross_entropy(model(images[rows]), labels[rows])
+        loss = F.cross_entropy(parallel(images[rows]), labels[rows])
""",
        "the last rank's weights": """
-        dist.broadcast(tensor, src=0)
+        dist.broadcast(tensor, src=world - 1)
""",
    },
    "cure_22": {
        "parts side by side": """
     rank, world = dist.get_rank(), dist.get_world_size()
+    part = lambda tensor: tensor.tensor_split(world)[rank]  # noqa: E731
     generator = torch.Generator().manual_seed(seed)
@@
             with torch.no_grad():
-                total = F.cross_entropy(model(val_images[rank::world]), val_labels[rank::world], reduction="sum")
+                total = F.cross_entropy(model(part(val_images)), part(val_labels), reduction="sum")
         log["seconds"].append(time.perf_counter() - began)  # before this rank waits for the others
""",
    },
    "cure_23": {
        "a mean on every step": """
-        if step % every == 0:
-            mean = loss.detach().clone()
-            dist.all_reduce(mean, group=log_group)
+        mean = loss.detach().clone()
+        dist.all_reduce(mean, group=log_group)
+        if rank == 0 and step % every == 0:
""",
        "gathered on rank 0": """
-            mean = loss.detach().clone()
-            dist.all_reduce(mean, group=log_group)
-            log["loss"].append((mean / world).item())
+            every_loss = [torch.zeros_like(loss) for _ in range(world)]
+            dist.all_gather(every_loss, loss.detach(), group=log_group)
+            log["loss"].append(torch.stack(every_loss).mean().item())
""",
    },
    "cure_24": {
        "parts of a common draw": """
-    generator = torch.Generator().manual_seed(seed * world + dist.get_rank())
+    generator = torch.Generator().manual_seed(seed)
@@
-        rows = torch.randint(len(images), (batch_size,), generator=generator)
+        rows = torch.randperm(len(images), generator=generator)[: world * batch_size][dist.get_rank() :: world]
""",
        "another seed per rank": """
-    generator = torch.Generator().manual_seed(seed * world + dist.get_rank())
+    generator = torch.Generator().manual_seed(seed + 1000 * dist.get_rank())
""",
    },
}

EQUIVALENT = {
    "the two lines do not depend on each other, or what depends on them is the same in either order": (
        "cure_01: swapped: generator = torch.Generator().manual_se… | optimizer = torch.optim.AdamW(model.par…",
        "cure_01: swapped: log: Log = {'loss': [], 'gradient_norm'… | model.train()",
        "cure_01: swapped: log['loss'].append(loss.item()) | log['gradient_norm'].append(torch.stack…",
        "cure_01: swapped: loss = F.cross_entropy(logits.flatten(0… | optimizer.zero_grad()",
        "cure_01: swapped: norms = [parameter.grad.norm() for para… | optimizer.step()",
        "cure_01: swapped: optimizer = torch.optim.AdamW(model.par… | log: Log = {'loss': [], 'gradient_norm'…",
        "cure_01: swapped: optimizer.step() | log['loss'].append(loss.item())",
        "cure_02: swapped: (loss / accumulate).backward() | total += loss.item()",
        "cure_02: swapped: generator = torch.Generator().manual_se… | optimizer = torch.optim.SGD(model.param…",
        "cure_02: swapped: log: Log = {'loss': [], 'gradient_norm'… | model.train()",
        "cure_02: swapped: log['loss'].append(total / accumulate) | log['gradient_norm'].append(torch.stack…",
        "cure_02: swapped: norms = [parameter.grad.norm() for para… | optimizer.step()",
        "cure_02: swapped: optimizer = torch.optim.SGD(model.param… | log: Log = {'loss': [], 'gradient_norm'…",
        "cure_02: swapped: optimizer.step() | log['loss'].append(total / accumulate)",
        "cure_02: swapped: optimizer.zero_grad(set_to_none=False) | total = 0.0",
        "cure_02: swapped: rows = torch.randint(len(images), (batc… | optimizer.zero_grad(set_to_none=False)",
        "cure_03: swapped: generator = torch.Generator().manual_se… | optimizer = torch.optim.SGD(model.param…",
        "cure_03: swapped: log['loss'].append(loss.item()) | if step % every == 0:",
        "cure_03: swapped: loss = F.cross_entropy(model(images[row… | optimizer.zero_grad()",
        "cure_03: swapped: model.train() | rows = torch.randint(len(images), (batc…",
        "cure_03: swapped: optimizer = torch.optim.SGD(model.param… | log: Log = {'loss': [], 'val_loss': []}",
        "cure_03: swapped: optimizer.step() | log['loss'].append(loss.item())",
        "cure_04: swapped: generator = torch.Generator().manual_se… | optimizer = torch.optim.SGD(model.param…",
        "cure_04: swapped: log['loss'].append(loss.item()) | if step % every == 0:",
        "cure_04: swapped: loss = F.cross_entropy(model(images[row… | optimizer.zero_grad()",
        "cure_04: swapped: model.eval() | total = 0.0",
        "cure_04: swapped: model.train() | rows = torch.randint(len(images), (batc…",
        "cure_04: swapped: optimizer = torch.optim.SGD(model.param… | log: Log = {'loss': [], 'val_loss': []}",
        "cure_04: swapped: optimizer.step() | log['loss'].append(loss.item())",
        "cure_05: swapped: generator = torch.Generator().manual_se… | optimizer = torch.optim.Adam(model.para…",
        "cure_05: swapped: log: Log = {'loss': [], 'accuracy': []} | model.train()",
        "cure_05: swapped: log['loss'].append(loss.item()) | log['accuracy'].append((scores.argmax(d…",
        "cure_05: swapped: loss = F.cross_entropy(scores, labels[r… | optimizer.zero_grad()",
        "cure_05: swapped: optimizer = torch.optim.Adam(model.para… | log: Log = {'loss': [], 'accuracy': []}",
        "cure_05: swapped: optimizer.step() | log['loss'].append(loss.item())",
        "cure_06: swapped: generator = torch.Generator().manual_se… | optimizer = torch.optim.SGD(model.param…",
        "cure_06: swapped: log: Log = {'loss': []} | model.train()",
        "cure_06: swapped: optimizer.step() | log['loss'].append(loss.item())",
        "cure_06: swapped: optimizer.zero_grad() | loss = F.cross_entropy(model(images[row…",
        "cure_06: swapped: scheduler = torch.optim.lr_scheduler.Li… | log: Log = {'loss': []}",
        "cure_07: swapped: generator = torch.Generator().manual_se… | model[-1] = head",
        "cure_07: swapped: log: Log = {'loss': []} | model.train()",
        "cure_07: swapped: loss = F.cross_entropy(model(images[row… | model.zero_grad()",
        "cure_07: swapped: optimizer = torch.optim.SGD(model.param… | log: Log = {'loss': []}",
        "cure_07: swapped: optimizer.step() | log['loss'].append(loss.item())",
        "cure_08: swapped: generator = torch.Generator().manual_se… | optimizer = torch.optim.Adam([*encoder.…",
        "cure_08: swapped: log['loss'].append(loss.item()) | log['feature_norm'].append(norm.item())",
        "cure_08: swapped: loss = F.cross_entropy(head(features), … | optimizer.zero_grad()",
        "cure_08: swapped: optimizer = torch.optim.Adam([*encoder.… | log: Log = {'loss': [], 'feature_norm':…",
        "cure_08: swapped: optimizer.step() | log['loss'].append(loss.item())",
        "cure_09: swapped: for parameter in model.parameters(): | optimizer = torch.optim.AdamW(model.par…",
        "cure_09: swapped: generator = torch.Generator().manual_se… | torch.manual_seed(seed)",
        "cure_09: swapped: log: Log = {'loss': []} | model.train()",
        "cure_09: swapped: loss = F.cross_entropy(logits.flatten(0… | optimizer.zero_grad(set_to_none=True)",
        "cure_09: swapped: optimizer = torch.optim.AdamW(model.par… | log: Log = {'loss': []}",
        "cure_09: swapped: optimizer.step() | log['loss'].append(loss.item())",
        "cure_09: swapped: torch.manual_seed(seed) | for parameter in model.parameters():",
        "cure_10: swapped: generator = torch.Generator().manual_se… | optimizer = torch.optim.AdamW(model.par…",
        "cure_10: swapped: log: Log = {'loss': []} | model.train()",
        "cure_10: swapped: loss = F.cross_entropy(model(x), y) | optimizer.zero_grad()",
        "cure_10: swapped: optimizer = torch.optim.AdamW(model.par… | log: Log = {'loss': []}",
        "cure_10: swapped: optimizer.step() | log['loss'].append(loss.item())",
        "cure_10: swapped: x = pictures[first:first + batch_size] | y = labels[order[first:first + batch_si…",
        "cure_11: swapped: generator = torch.Generator().manual_se… | optimizer = torch.optim.AdamW(model.par…",
        "cure_11: swapped: log['loss'].append(loss.item()) | log['val_loss'].append(val_loss.item())",
        "cure_11: swapped: loss = F.cross_entropy(model(windows[:,… | optimizer.zero_grad()",
        "cure_11: swapped: model.train() | starts = torch.randint(len(tokens) - bl…",
        "cure_11: swapped: optimizer = torch.optim.AdamW(model.par… | val_windows = val_tokens.unfold(0, bloc…",
        "cure_11: swapped: optimizer.step() | model.eval()",
        "cure_11: swapped: val_windows = val_tokens.unfold(0, bloc… | log: Log = {'loss': [], 'val_loss': []}",
        "cure_11: swapped: with torch.no_grad(): | log['loss'].append(loss.item())",
        "cure_12: swapped: generator = torch.Generator().manual_se… | optimizer = torch.optim.AdamW(model.par…",
        "cure_12: swapped: inputs = windows[:, :-1] | targets = windows[:, 1:].flatten()",
        "cure_12: swapped: log: Log = {'loss': []} | model.train()",
        "cure_12: swapped: loss = F.cross_entropy(logits, targets) | optimizer.zero_grad()",
        "cure_12: swapped: optimizer = torch.optim.AdamW(model.par… | log: Log = {'loss': []}",
        "cure_12: swapped: optimizer.step() | log['loss'].append(loss.item())",
        "cure_12: swapped: targets = windows[:, 1:].flatten() | logits = model(inputs).flatten(0, 1)",
        "cure_13: swapped: generator = torch.Generator().manual_se… | optimizer = torch.optim.Adam(model.para…",
        "cure_13: swapped: inputs, targets = (windows[:, :-1], win… | places = torch.arange(block_size, devic…",
        "cure_13: swapped: loss = F.cross_entropy(model['head'](x)… | optimizer.zero_grad()",
        "cure_13: swapped: optimizer = torch.optim.Adam(model.para… | log: Log = {'loss': []}",
        "cure_13: swapped: optimizer.step() | log['loss'].append(loss.item())",
        "cure_14: swapped: loss = F.cross_entropy(model(images[row… | optimizer.zero_grad()",
        "cure_14: swapped: optimizer = torch.optim.AdamW(model.par… | log: Log = {'loss': [], 'val_loss': []}",
        "cure_14: swapped: optimizer.step() | log['loss'].append(loss.item())",
        "cure_14: swapped: train_rows, val_rows = (shuffled[:-held… | optimizer = torch.optim.AdamW(model.par…",
        "cure_15: swapped: generator = torch.Generator().manual_se… | optimizer = torch.optim.SGD(model.param…",
        "cure_15: swapped: loss = F.cross_entropy(model(images[row… | optimizer.zero_grad()",
        "cure_15: swapped: losses.append(loss.detach()) | if step % every == 0:",
        "cure_15: swapped: optimizer = torch.optim.SGD(model.param… | losses, val_losses, memory = ([], [], […",
        "cure_15: swapped: optimizer.step() | losses.append(loss.detach())",
        "cure_15: swapped: val_losses.append(sum(sums) / len(val_i… | memory.append(memory_mib())",
        "cure_16: swapped: began = time.perf_counter() | starts = torch.randint(len(tokens) - bl…",
        "cure_16: swapped: device = next(model.parameters()).device | tokens = encode(text)",
        "cure_16: swapped: generator = torch.Generator().manual_se… | optimizer = torch.optim.AdamW(model.par…",
        "cure_16: swapped: loaded = time.perf_counter() | loss = F.cross_entropy(model(windows[:,…",
        "cure_16: swapped: log['loss'].append(loss.item()) | log['waiting'].append((loaded - began) …",
        "cure_16: swapped: loss = F.cross_entropy(model(windows[:,… | optimizer.zero_grad()",
        "cure_16: swapped: optimizer = torch.optim.AdamW(model.par… | device = next(model.parameters()).device",
        "cure_16: swapped: optimizer.step() | log['loss'].append(loss.item())",
        "cure_16: swapped: tokens = encode(text) | log: Log = {'loss': [], 'waiting': []}",
        "cure_16: swapped: windows = tokens.unfold(0, block_size +… | loaded = time.perf_counter()",
        "cure_17: swapped: generator = torch.Generator().manual_se… | optimizer = torch.optim.SGD([*body.para…",
        "cure_17: swapped: loss = F.cross_entropy(logits, labels[r… | optimizer.zero_grad()",
        "cure_17: swapped: optimizer = torch.optim.SGD([*body.para… | log: Log = {'loss': []}",
        "cure_17: swapped: optimizer.step() | log['loss'].append(loss.item())",
        "cure_18: swapped: generator = torch.Generator().manual_se… | model = model.to(device)",
        "cure_18: swapped: loss = F.cross_entropy(model(x), y) | optimizer.zero_grad()",
        "cure_18: swapped: model = model.to(device) | optimizer = torch.optim.SGD(model.param…",
        "cure_18: swapped: optimizer = torch.optim.SGD(model.param… | losses = []",
        "cure_18: swapped: optimizer.step() | losses.append(loss.detach())",
        "cure_19: swapped: generator = torch.Generator().manual_se… | optimizer = torch.optim.Adam(model.para…",
        "cure_19: swapped: loss = torch.stack(losses).mean() | optimizer.zero_grad()",
        "cure_19: swapped: optimizer = torch.optim.Adam(model.para… | log: Log = {'loss': []}",
        "cure_19: swapped: optimizer.step() | log['loss'].append(loss.item())",
        "cure_19: swapped: rows = torch.randint(len(images), (batc… | losses = []",
        "cure_20: swapped: generator = torch.Generator().manual_se… | device = next(model.parameters()).device",
        "cure_20: swapped: images = torch.from_numpy((pictures - p… | targets = torch.from_numpy(labels.astyp…",
        "cure_20: swapped: loss = F.cross_entropy(model(images[row… | optimizer.zero_grad()",
        "cure_20: swapped: optimizer = torch.optim.SGD(model.param… | log: Log = {'loss': []}",
        "cure_20: swapped: optimizer.step() | log['loss'].append(loss.item())",
        "cure_20: swapped: targets = torch.from_numpy(labels.astyp… | optimizer = torch.optim.SGD(model.param…",
        "cure_21: swapped: dist.all_reduce(parameter.grad) | parameter.grad /= world",
        "cure_21: swapped: for tensor in model.state_dict().values… | generator = torch.Generator().manual_se…",
        "cure_21: swapped: generator = torch.Generator().manual_se… | optimizer = torch.optim.SGD(model.param…",
        "cure_21: swapped: log['loss'].append(loss.item()) | log['weight_sum'].append(sum((parameter…",
        "cure_21: swapped: loss = F.cross_entropy(model(images[row… | optimizer.zero_grad()",
        "cure_21: swapped: optimizer = torch.optim.SGD(model.param… | log: Log = {'loss': [], 'weight_sum': […",
        "cure_21: swapped: optimizer.step() | log['loss'].append(loss.item())",
        "cure_21: swapped: rank, world = (dist.get_rank(), dist.ge… | for tensor in model.state_dict().values…",
        "cure_22: swapped: began = time.perf_counter() | rows = torch.randint(len(images), (worl…",
        "cure_22: swapped: dist.all_reduce(parameter.grad) | parameter.grad /= world",
        "cure_22: swapped: generator = torch.Generator().manual_se… | optimizer = torch.optim.SGD(model.param…",
        "cure_22: swapped: if step % every == 0: | for parameter in model.parameters():",
        "cure_22: swapped: if step % every == 0: | log['seconds'].append(time.perf_counter…",
        "cure_22: swapped: log['seconds'].append(time.perf_counter… | if step % every == 0:",
        "cure_22: swapped: loss = F.cross_entropy(model(images[row… | optimizer.zero_grad()",
        "cure_22: swapped: loss.backward() | if step % every == 0:",
        "cure_22: swapped: optimizer = torch.optim.SGD(model.param… | log: Log = {'loss': [], 'val_loss': [],…",
        "cure_22: swapped: optimizer.step() | log['loss'].append(loss.item())",
        "cure_22: swapped: rank, world = (dist.get_rank(), dist.ge… | generator = torch.Generator().manual_se…",
        "cure_23: swapped: dist.all_reduce(parameter.grad) | parameter.grad /= world",
        "cure_23: swapped: generator = torch.Generator().manual_se… | optimizer = torch.optim.SGD(model.param…",
        "cure_23: swapped: log_group = dist.new_group() | generator = torch.Generator().manual_se…",
        "cure_23: swapped: loss = F.cross_entropy(model(images[row… | optimizer.zero_grad()",
        "cure_23: swapped: optimizer = torch.optim.SGD(model.param… | log: Log = {'loss': []}",
        "cure_23: swapped: optimizer.step() | if step % every == 0:",
        "cure_23: swapped: rank, world = (dist.get_rank(), dist.ge… | log_group = dist.new_group()",
        "cure_24: swapped: dist.all_reduce(parameter.grad) | parameter.grad /= world",
        "cure_24: swapped: for tensor in model.state_dict().values… | generator = torch.Generator().manual_se…",
        "cure_24: swapped: generator = torch.Generator().manual_se… | optimizer = torch.optim.SGD(model.param…",
        "cure_24: swapped: loss = F.cross_entropy(model(images[row… | optimizer.zero_grad()",
        "cure_24: swapped: optimizer = torch.optim.SGD(model.param… | log: Log = {'loss': []}",
        "cure_24: swapped: optimizer.step() | log['loss'].append(loss.item())",
        "cure_24: swapped: world = dist.get_world_size() | for tensor in model.state_dict().values…",
    ),
    "torch's default, or a test of lengths that agree": (
        "cure_02: set_to_none left out: optimizer.zero_grad(set_to_none=False)",
        "cure_04: strict left out: zip(val_images.split(batch_size), val_l…",
        "cure_15: strict left out: zip(val_images.split(batch_size), val_l…",
        "cure_09: set_to_none left out: optimizer.zero_grad(set_to_none=True)",
        "cure_09: weight_decay left out: torch.optim.AdamW(model.parameters(), l…",
    ),
    "the gradients of a small GPT with small weights have norms below 1, the norm at which they are clipped": (
        "cure_09: left out: nn.utils.clip_grad_norm_(model.paramete…",
        "cure_09: swapped: loss.backward() | nn.utils.clip_grad_norm_(model.paramete…",
        "cure_09: swapped: nn.utils.clip_grad_norm_(model.paramete… | optimizer.step()",
    ),
    "checks run on the CPU": ("cure_13: device left out: torch.arange(block_size, device=tokens.…",),
    "the model keeps its own weights, which are small, too": (
        "cure_09: comparison replaced: parameter.dim() >= 2",
        "cure_09: left out: for parameter in model.parameters():",
        "cure_09: left out: if parameter.dim() >= 2:",
        "cure_09: left out: nn.init.normal_(parameter, std=0.02)",
        "cure_09: left out: torch.manual_seed(seed)",
    ),
    "other random rows are as right": (
        "cure_09: generator left out: torch.randint(len(tokens) - block_size,…",
        "cure_11: generator left out: torch.randint(len(tokens) - block_size,…",
        "cure_14: generator left out: torch.randperm(len(images), generator=g…",
        "cure_14: generator left out: torch.randperm(len(train_rows), generat…",
    ),
    "times differ from run to run: no check compares them": (
        "cure_16: operator replaced: (loaded - began) / (time.perf_counter()…",
        "cure_16: operator replaced: time.perf_counter() - began",
        "cure_22: operator replaced: time.perf_counter() - began",
    ),
    "the mean over the default group is the same": ("cure_23: group left out: dist.all_reduce(mean, group=log_group)",),
}
