"""Known-wrong solutions of Lab 10, and hurried answers, as changes to exercises.py."""

from rankzero.exercises.checks.known_wrong import KnownWrong

PICTURES = "handbook/input-pipeline.md#training-data-and-validation-data"
SHARES = "handbook/input-pipeline.md#who-reads-which-sample"
ORDER = "handbook/input-pipeline.md#order-and-random-numbers"
RESUME = "handbook/input-pipeline.md#resuming-in-mid-epoch"
PACKING = "handbook/input-pipeline.md#packing-documents"
TOKENS = "handbook/input-pipeline.md#tokens"
WAITS = "handbook/input-pipeline.md#when-the-device-waits"
TASKS = "labs/lab-10-input-pipeline.md#exercises"

KNOWN_WRONG = (
    # --------------------------------------------------------------------------------------------- channel_statistics
    KnownWrong(
        "one_mean_for_all_channels",
        fails=("channel_statistics/values",),
        read=PICTURES,
        explanation="""Mean and standard deviation go over all channels together. Channels of different brightness then
        keep different means after normalizing, which is what normalizing should remove.""",
        change="""
-    return pixels.mean(0).float(), pixels.std(0, correction=0).float()
+    return pixels.mean().float(), pixels.std(correction=0).float()
""",
    ),
    KnownWrong(
        "statistics_of_bytes",
        fails=("channel_statistics/values",),
        read=PICTURES,
        explanation="""The statistics are those of the bytes, 0 to 255. `prepare` works with brightness from 0 to 1:
        with these numbers every pixel becomes nearly the same, about -1 or -2.""",
        change="""
-    pixels = images.reshape(-1, images.shape[-1]).double() / 255
+    pixels = images.reshape(-1, images.shape[-1]).double()
""",
    ),
    KnownWrong(
        "statistics_of_the_first_dimensions",
        fails=("channel_statistics/values",),
        read=PICTURES,
        explanation="""The second dimension is taken for the channel, as in [N, C, H, W]. Decoders give [N, H, W, C]:
        there the second dimension is a row of the picture.""",
        change="""
-    pixels = images.reshape(-1, images.shape[-1]).double() / 255
-    return pixels.mean(0).float(), pixels.std(0, correction=0).float()
+    pixels = images.double() / 255
+    return pixels.mean((0, 2, 3)).float(), pixels.std((0, 2, 3), correction=0).float()
""",
    ),
    KnownWrong(
        "sample_deviation",
        fails=("channel_statistics/values",),
        read=TASKS,
        explanation="""The mean of squares is divided by the number of pixels minus 1. That is torch's default, which
        estimates the deviation of a population from a sample. Here all pixels of the data are given: correction=0.""",
        change="""
-    return pixels.mean(0).float(), pixels.std(0, correction=0).float()
+    return pixels.mean(0).float(), pixels.std(0).float()
""",
    ),
    KnownWrong(
        "mean_of_the_pictures_deviations",
        fails=("channel_statistics/values",),
        read=PICTURES,
        explanation="""The standard deviation is computed for each picture and then averaged. The average ignores how
        much the pictures differ from each other, so the result is too small. Average squares over all pixels, and take
        the root once.""",
        change="""
-    return pixels.mean(0).float(), pixels.std(0, correction=0).float()
+    each = (images.double() / 255).flatten(1, 2).std(1, correction=0)
+    return pixels.mean(0).float(), each.mean(0).float()
""",
    ),
    KnownWrong(
        "squares_of_bytes",
        fails=("channel_statistics/values",),
        read=TASKS,
        explanation="""The squares are computed in uint8, where 16 x 16 is 0: numbers above 255 lose their upper bits.
        Convert before you compute.""",
        change="""
-    return pixels.mean(0).float(), pixels.std(0, correction=0).float()
+    squares = (images * images).reshape(-1, images.shape[-1]).double().mean(0) / 255**2
+    return pixels.mean(0).float(), (squares - pixels.mean(0) ** 2).clamp(min=0).sqrt().float()
""",
    ),
    KnownWrong(
        "difference_of_large_sums",
        fails=("channel_statistics/accurate",),
        read=TASKS,
        explanation="""The deviation comes from the mean of squares less the square of the mean, in fp32. Where pixels
        are bright and nearly alike, these two are nearly equal, and their difference is made of rounding. Subtract the
        mean from each pixel first, or compute in float64.""",
        change="""
-    pixels = images.reshape(-1, images.shape[-1]).double() / 255
-    return pixels.mean(0).float(), pixels.std(0, correction=0).float()
+    pixels = images.reshape(-1, images.shape[-1]).float() / 255
+    mean = pixels.mean(0)
+    return mean, (pixels.square().mean(0) - mean.square()).clamp(min=0).sqrt()
""",
    ),
    # -------------------------------------------------------------------------------------------------------- prepare
    KnownWrong(
        "channels_left_last",
        fails=("prepare/normalized",),
        read=PICTURES,
        explanation="""The batch stays [B, H, W, C]. A convolution takes the second dimension for the channels, here
        the rows of the picture: it raises an error, or learns nonsense where the sizes happen to fit.""",
        change="""
-    return ((images.float() / 255 - mean) / std).permute(0, 3, 1, 2).contiguous()
+    return ((images.float() / 255 - mean) / std).contiguous()
""",
    ),
    KnownWrong(
        "counted_off_in_another_shape",
        fails=("prepare/normalized",),
        read=PICTURES,
        explanation="""The batch has the right shape, and its pictures are scrambled: view and reshape read the same
        numbers in another shape, so one row of a channel mixes red, green and blue. permute moves the dimensions.""",
        change="""
-    return ((images.float() / 255 - mean) / std).permute(0, 3, 1, 2).contiguous()
+    size, height, width, channels = images.shape
+    return ((images.float() / 255 - mean) / std).reshape(size, channels, height, width)
""",
    ),
    KnownWrong(
        "divided_by_255_twice",
        fails=("prepare/normalized",),
        read=PICTURES,
        explanation="""The brightness is divided by 255 twice: every pixel is below 0.004, and after normalizing nearly
        all are the same number. Training runs and learns little.""",
        change="""
-    return ((images.float() / 255 - mean) / std).permute(0, 3, 1, 2).contiguous()
+    return ((images.float() / 255 / 255 - mean) / std).permute(0, 3, 1, 2).contiguous()
""",
    ),
    KnownWrong(
        "bytes_minus_brightness",
        fails=("prepare/normalized",),
        read=PICTURES,
        explanation="""The mean, from 0 to 1, is subtracted from bytes, from 0 to 255. Pixels then reach several
        hundred where a model expects numbers around 1.""",
        change="""
-    return ((images.float() / 255 - mean) / std).permute(0, 3, 1, 2).contiguous()
+    return ((images.float() - mean) / std).permute(0, 3, 1, 2).contiguous()
""",
    ),
    KnownWrong(
        "validation_set_augmented",
        fails=("prepare/normalized",),
        read=PICTURES,
        explanation="""Pictures are shifted without a generator too, from the global one: the validation set is
        augmented. It then measures another task, and a different one each time.""",
        change="""
-    if generator is not None:
-        size, height, width, _ = images.shape
-        shifts = torch.randint(-2, 3, (size, 2), generator=generator)
-        padded = F.pad(images, (0, 0, 2, 2, 2, 2))  # [B, H + 4, W + 4, C], 0 around
-        corners = (2 - shifts).tolist()
-        images = torch.stack(
-            [picture[y : y + height, x : x + width] for picture, (y, x) in zip(padded, corners, strict=True)]
-        )
+    size, height, width, _ = images.shape
+    shifts = torch.randint(-2, 3, (size, 2), generator=generator)
+    padded = F.pad(images, (0, 0, 2, 2, 2, 2))
+    corners = (2 - shifts).tolist()
+    images = torch.stack(
+        [picture[y : y + height, x : x + width] for picture, (y, x) in zip(padded, corners, strict=True)]
+    )
""",
    ),
    KnownWrong(
        "strides_of_the_decoder",
        fails=("prepare/contiguous",),
        read=TASKS,
        explanation="""permute changes only the strides; the numbers stay where they are in memory. Code that needs them
        in the order of the dimensions, such as view, fails or has to copy later.""",
        change="""
-    return ((images.float() / 255 - mean) / std).permute(0, 3, 1, 2).contiguous()
+    return ((images.float() / 255 - mean) / std).permute(0, 3, 1, 2)
""",
    ),
    KnownWrong(
        "draws_without_a_generator",
        fails=("prepare/validation",),
        read=PICTURES,
        explanation="""Without a generator the pictures are not shifted, but random numbers are drawn all the same,
        from torch's global generator. An evaluation then changes the training run that follows it.""",
        change="""
+    shifts = torch.randint(-2, 3, (len(images), 2), generator=generator)
     if generator is not None:
         size, height, width, _ = images.shape
-        shifts = torch.randint(-2, 3, (size, 2), generator=generator)
""",
    ),
    KnownWrong(
        "wraps_around",
        fails=("prepare/shifted",),
        read=TASKS,
        explanation="""Pixels that leave the picture on one side enter it on the other, as torch.roll moves them. A
        shifted 7 then has a part of its top bar at the bottom.""",
        change="""
-        padded = F.pad(images, (0, 0, 2, 2, 2, 2))  # [B, H + 4, W + 4, C], 0 around
-        corners = (2 - shifts).tolist()
-        images = torch.stack(
-            [picture[y : y + height, x : x + width] for picture, (y, x) in zip(padded, corners, strict=True)]
-        )
+        pairs = zip(images, shifts.tolist(), strict=True)
+        images = torch.stack([picture.roll(shift, (0, 1)) for picture, shift in pairs])
""",
    ),
    KnownWrong(
        "border_on_two_sides_alone",
        fails=("prepare/shifted",),
        read=TASKS,
        explanation="""Only pictures that move down or to the right get a border of 0. Of pictures that move up or to
        the left, the pixels that leave on one side enter on the other.""",
        change="""
-        padded = F.pad(images, (0, 0, 2, 2, 2, 2))  # [B, H + 4, W + 4, C], 0 around
-        corners = (2 - shifts).tolist()
-        images = torch.stack(
-            [picture[y : y + height, x : x + width] for picture, (y, x) in zip(padded, corners, strict=True)]
-        )
+        moved = []
+        for picture, (dy, dx) in zip(images, shifts.tolist(), strict=True):
+            moved.append(picture.roll((dy, dx), (0, 1)))
+            moved[-1][: max(dy, 0)] = 0
+            moved[-1][:, : max(dx, 0)] = 0
+        images = torch.stack(moved)
""",
    ),
    KnownWrong(
        "gray_border",
        fails=("prepare/shifted",),
        read=TASKS,
        explanation="""The shift comes after normalizing, and the pixels that enter are 0 on the normalized scale: the
        mean brightness. A dark background gets a gray border that validation pictures never have.""",
        change="""
+    images = (images.float() / 255 - mean) / std
     if generator is not None:
@@
-    return ((images.float() / 255 - mean) / std).permute(0, 3, 1, 2).contiguous()
+    return images.permute(0, 3, 1, 2).contiguous()
""",
    ),
    KnownWrong(
        "one_shift_for_the_batch",
        fails=("prepare/shifted", "prepare/generator"),
        read=TASKS,
        explanation="""One shift is drawn, and all pictures of the batch move by it. A batch is then as uniform as
        without augmentation.""",
        change="""
-        shifts = torch.randint(-2, 3, (size, 2), generator=generator)
+        shifts = torch.randint(-2, 3, (1, 2), generator=generator).expand(size, 2)
""",
    ),
    KnownWrong(
        "shifted_the_other_way",
        fails=("prepare/shifted",),
        read=TASKS,
        explanation="""The picture moves against dy and dx: the part that begins at row 2 + dy of the padded picture
        shows it moved up by dy, not down.""",
        change="""
-        corners = (2 - shifts).tolist()
+        corners = (2 + shifts).tolist()
""",
    ),
    KnownWrong(
        "dx_before_dy",
        fails=("prepare/shifted",),
        read=TASKS,
        explanation="""dx moves the rows and dy the columns. The contract draws dy first; with the pair the other way
        round, two programs with one seed shift differently.""",
        change="""
-        corners = (2 - shifts).tolist()
+        corners = (2 - shifts).flip(1).tolist()
""",
    ),
    KnownWrong(
        "global_generator",
        fails=("prepare/shifted", "prepare/generator"),
        read=ORDER,
        explanation="""The shifts come from torch's global generator, not from the given one. Each further random
        number anywhere in the program, such as dropout, then changes the augmentation.""",
        change="""
-        shifts = torch.randint(-2, 3, (size, 2), generator=generator)
+        shifts = torch.randint(-2, 3, (size, 2))
""",
    ),
    # ------------------------------------------------------------------------------------------------------- evaluate
    KnownWrong(
        "last_batch_dropped",
        fails=("evaluate/pictures",),
        read=PICTURES,
        explanation="""The last, smaller batch is left out, as with drop_last=True. In training it comes another time;
        in an evaluation these samples are never tested.""",
        change="""
-            for x, y in torch.utils.data.DataLoader(dataset, batch_size):
+            for x, y in torch.utils.data.DataLoader(dataset, batch_size, drop_last=True):
""",
    ),
    KnownWrong(
        "mean_of_batch_means",
        fails=("evaluate/pictures",),
        read=PICTURES,
        explanation="""The mean of each batch is averaged over the batches. A sample of a small last batch then counts
        more than one of a full batch, and the result depends on the batch size.""",
        change="""
-                loss += F.cross_entropy(logits, targets, reduction="sum").item()
                 real = targets != -100
-                right += int((logits.argmax(-1) == targets)[real].sum())
-                count += int(real.sum())
+                loss += F.cross_entropy(logits, targets).item() if real.any() else 0.0
+                right += (logits.argmax(-1) == targets)[real].float().mean().item() if real.any() else 0.0
+                count += 1 if real.any() else 0
""",
    ),
    KnownWrong(
        "first_batch_alone",
        fails=(
            "evaluate/pictures",
            "evaluate/modes",
        ),
        read=PICTURES,
        explanation="""Only the first batch is evaluated: the `return` stands inside the loop.""",
        change="""
                 count += int(real.sum())
+                return loss / count, right / count
""",
    ),
    KnownWrong(
        "not_in_eval_mode",
        fails=(
            "evaluate/pictures",
            "evaluate/modes",
        ),
        read="handbook/training-loop.md#other-parts-of-a-training-loop",
        explanation="""The model is evaluated in train mode: dropout removes units at random, and a BatchNorm
        normalizes with the batch and learns from the validation data.""",
        change="""
-    model.eval()
     try:
""",
    ),
    KnownWrong(
        "padding_counted",
        fails=("evaluate/padding",),
        read=PACKING,
        explanation="""The sums are divided by the number of all targets, padding included. Padding adds nothing to the
        sums: the more of it a text has, the better the model seems by its loss and the worse by its accuracy.""",
        change="""
-                count += int(real.sum())
+                count += targets.numel()
""",
    ),
    KnownWrong(
        "weighed_by_samples",
        fails=("evaluate/padding",),
        read=PACKING,
        explanation="""The mean of each batch is weighed by its number of samples. Texts have different numbers of
        targets: a batch with a few real tokens then counts as much as a full one. Weigh by targets.""",
        change="""
-                loss += F.cross_entropy(logits, targets, reduction="sum").item()
                 real = targets != -100
-                right += int((logits.argmax(-1) == targets)[real].sum())
-                count += int(real.sum())
+                share = len(x) / int(real.sum()) if real.any() else 0.0
+                loss += F.cross_entropy(logits, targets, reduction="sum").item() * share
+                right += int((logits.argmax(-1) == targets)[real].sum()) * share
+                count += len(x) if real.any() else 0
""",
    ),
    KnownWrong(
        "loss_in_bf16",
        fails=("evaluate/precision",),
        read="handbook/precision.md#rounding-in-sums",
        explanation="""The loss is computed in the dtype of the scores. bf16 has 8 bits of precision: sums over a batch
        are right to two or three digits only.""",
        change="""
-                logits = model(x).float().flatten(0, -2)  # [targets, K]
+                logits = model(x).flatten(0, -2)  # [targets, K]
""",
    ),
    KnownWrong(
        "left_in_eval_mode",
        fails=("evaluate/modes",),
        read="handbook/training-loop.md#other-parts-of-a-training-loop",
        explanation="""The model stays in eval mode. Training goes on without dropout from the first evaluation on, and
        nothing says so.""",
        change="""
-    finally:
-        for module, mode in modes.items():
-            module.training = mode
+    finally:
+        pass
""",
    ),
    KnownWrong(
        "all_parts_into_train_mode",
        fails=("evaluate/modes",),
        read="handbook/training-loop.md#other-parts-of-a-training-loop",
        explanation="""Afterwards model.train() puts every part into train mode. A part that was frozen in eval mode,
        such as the BatchNorm of a pretrained network, begins to learn the statistics of your batches.""",
        change="""
-        for module, mode in modes.items():
-            module.training = mode
+        model.train()
""",
    ),
    KnownWrong(
        "top_mode_for_all_parts",
        fails=("evaluate/modes",),
        read="handbook/training-loop.md#other-parts-of-a-training-loop",
        explanation="""model.train(mode) gives the model's own mode to all its parts. Parts that had another mode, such
        as a frozen BatchNorm, lose it: note the mode of each of model.modules().""",
        change="""
-    modes = {module: module.training for module in model.modules()}
+    was_training = model.training
@@
-        for module, mode in modes.items():
-            module.training = mode
+        model.train(was_training)
""",
    ),
    KnownWrong(
        "mode_lost_by_an_exception",
        fails=("evaluate/modes",),
        read="handbook/training-loop.md#other-parts-of-a-training-loop",
        explanation="""The modes are put back only if nothing fails. After an exception, such as one batch that does
        not fit into memory, the run that catches it trains on in eval mode: use a finally clause.""",
        change="""
-    try:
-        with torch.no_grad():
-            for x, y in torch.utils.data.DataLoader(dataset, batch_size):
-                logits = model(x).float().flatten(0, -2)  # [targets, K]
-                targets = y.flatten()
-                loss += F.cross_entropy(logits, targets, reduction="sum").item()
-                real = targets != -100
-                right += int((logits.argmax(-1) == targets)[real].sum())
-                count += int(real.sum())
-    finally:
-        for module, mode in modes.items():
-            module.training = mode
+    with torch.no_grad():
+        for x, y in torch.utils.data.DataLoader(dataset, batch_size):
+            logits = model(x).float().flatten(0, -2)  # [targets, K]
+            targets = y.flatten()
+            loss += F.cross_entropy(logits, targets, reduction="sum").item()
+            real = targets != -100
+            right += int((logits.argmax(-1) == targets)[real].sum())
+            count += int(real.sum())
+    for module, mode in modes.items():
+        module.training = mode
""",
    ),
    KnownWrong(
        "gradients_recorded",
        fails=("evaluate/modes",),
        read="handbook/training-loop.md#other-parts-of-a-training-loop",
        explanation="""Gradients are recorded: each batch keeps all its activations until its loss is gone.
        model.eval() does not change that; torch.no_grad() does.""",
        change="""
-        with torch.no_grad():
+        with torch.enable_grad():
""",
    ),
    # -------------------------------------------------------------------------------------------------- epoch_indices
    KnownWrong(
        "nothing_divided",
        fails=("epoch_indices/once",),
        read=SHARES,
        explanation="""Each worker of each rank reads all samples. With R ranks of W workers an epoch has every sample
        R x W times, which no loss curve shows.""",
        change="""
-    return torch.from_numpy(order[rank::ranks][worker::workers].copy())
+    return torch.from_numpy(order)
""",
    ),
    KnownWrong(
        "divided_by_rank_alone",
        fails=("epoch_indices/once",),
        read=SHARES,
        explanation="""The samples are divided among ranks, and all workers of a rank read the whole share: an epoch
        has every sample as often as a rank has workers.""",
        change="""
-    return torch.from_numpy(order[rank::ranks][worker::workers].copy())
+    return torch.from_numpy(order[rank::ranks].copy())
""",
    ),
    KnownWrong(
        "divided_by_worker_alone",
        fails=("epoch_indices/once",),
        read=SHARES,
        explanation="""The samples are divided among the workers of a rank, and all ranks read the same: DDP then
        averages equal gradients, and more ranks change nothing but the bill.""",
        change="""
-    return torch.from_numpy(order[rank::ranks][worker::workers].copy())
+    return torch.from_numpy(order[worker::workers].copy())
""",
    ),
    KnownWrong(
        "remainder_dropped",
        fails=("epoch_indices/once",),
        read=SHARES,
        explanation="""All shares have the same size, and no share has the samples that are left over. drop_last does
        the same, which is a choice for training. The contract here is each sample once.""",
        change="""
-    return torch.from_numpy(order[rank::ranks][worker::workers].copy())
+    order = order[: size // (ranks * workers) * ranks * workers]
+    return torch.from_numpy(order[rank::ranks][worker::workers].copy())
""",
    ),
    KnownWrong(
        "padded_with_repeats",
        fails=("epoch_indices/once",),
        read=SHARES,
        explanation="""All shares have one size because some samples come twice, as DistributedSampler pads. In an
        evaluation they count twice.""",
        change="""
-    return torch.from_numpy(order[rank::ranks][worker::workers].copy())
+    order = np.resize(order, -(-size // (ranks * workers)) * ranks * workers)
+    return torch.from_numpy(order[rank::ranks][worker::workers].copy())
""",
    ),
    KnownWrong(
        "each_rank_its_own_order",
        fails=("epoch_indices/once",),
        read=ORDER,
        explanation="""The rank or the worker is part of the seed: each divides an order of its own, so shares overlap
        and some samples are in no share. All must draw the same order before they divide it.""",
        change="""
-    order = np.random.default_rng((seed, epoch)).permutation(size)
+    order = np.random.default_rng((seed, epoch, rank, worker)).permutation(size)
""",
    ),
    KnownWrong(
        "ranks_apart_by_the_workers",
        fails=("epoch_indices/even",),
        read=SHARES,
        explanation="""The shares are taken with the stride ranks x workers, rank after rank. All samples that are left
        over go to the workers of the first ranks: with 8 workers, rank 0 may read 8 samples more than the last rank,
        and DDP waits for that rank forever. Divide among the ranks first.""",
        change="""
-    return torch.from_numpy(order[rank::ranks][worker::workers].copy())
+    return torch.from_numpy(order[rank * workers + worker :: ranks * workers].copy())
""",
    ),
    KnownWrong(
        "remainder_to_the_last",
        fails=("epoch_indices/even",),
        read=SHARES,
        explanation="""Shares are blocks of size // (ranks x workers) samples, and the last worker of the last rank
        gets what is left over: up to ranks x workers - 1 samples more. Other ranks wait for it at each epoch's end.""",
        change="""
-    return torch.from_numpy(order[rank::ranks][worker::workers].copy())
+    number, count = rank * workers + worker, size // (ranks * workers)
+    end = size if number == ranks * workers - 1 else (number + 1) * count
+    return torch.from_numpy(order[number * count : end].copy())
""",
    ),
    KnownWrong(
        "never_shuffled",
        fails=("epoch_indices/order",),
        read=ORDER,
        explanation="""The samples come in the order in which they are stored. Neighbors are alike, for example one
        class after the other, so batches are not random samples of the data.""",
        change="""
-    order = np.random.default_rng((seed, epoch)).permutation(size)
+    order = np.arange(size)
""",
    ),
    KnownWrong(
        "shuffled_without_the_epoch",
        fails=("epoch_indices/order",),
        read=ORDER,
        explanation="""The epoch is not part of the seed: every epoch has one order, as with a DistributedSampler
        without set_epoch. The same samples meet in the same batches for the whole run.""",
        change="""
-    order = np.random.default_rng((seed, epoch)).permutation(size)
+    order = np.random.default_rng(seed).permutation(size)
""",
    ),
    KnownWrong(
        "sum_of_seed_and_epoch",
        fails=("epoch_indices/order",),
        read=ORDER,
        explanation="""The order is seeded with seed + epoch. Seed 1 in epoch 2 then has the order of seed 2 in epoch
        1: runs that should be independent see the same orders, one epoch apart.""",
        change="""
-    order = np.random.default_rng((seed, epoch)).permutation(size)
+    order = np.random.default_rng(seed + epoch).permutation(size)
""",
    ),
    KnownWrong(
        "same_samples_for_each_rank",
        fails=("epoch_indices/order",),
        read=ORDER,
        explanation="""The samples are divided before they are shuffled: a rank has the same samples in every epoch, in
        another order. Shuffle all samples, then divide them.""",
        change="""
-    return torch.from_numpy(order[rank::ranks][worker::workers].copy())
+    share = np.arange(size)[rank::ranks][worker::workers]
+    return torch.from_numpy(np.random.default_rng((seed, epoch)).permutation(share))
""",
    ),
    KnownWrong(
        "order_of_the_global_generator",
        fails=("epoch_indices/global",),
        read=ORDER,
        explanation="""The order is drawn from a global generator that is seeded for it. All random numbers that come
        after it, such as dropout and augmentation, are then the same in each epoch.""",
        change="""
-    order = np.random.default_rng((seed, epoch)).permutation(size)
+    np.random.seed(np.random.SeedSequence((seed, epoch)).generate_state(1))
+    order = np.random.permutation(size)
""",
    ),
    # ---------------------------------------------------------------------------------------------------- seed_worker
    KnownWrong(
        "numpy_forgotten",
        fails=("seed_worker/repeats",),
        read=ORDER,
        explanation="""NumPy's generator is not seeded. Its numbers depend on what the process drew before: they repeat
        in no other run.""",
        change="""
-    np.random.seed(words[1])
""",
    ),
    KnownWrong(
        "torch_alone",
        fails=("seed_worker/repeats",),
        read=ORDER,
        explanation="""Only torch's generator is seeded. Augmentation libraries draw from Python's `random` and from
        NumPy: their numbers do not repeat in another run.""",
        change="""
-    random.seed(int(words[0]))
-    np.random.seed(words[1])
     torch.manual_seed(int(words[2]))
""",
    ),
    KnownWrong(
        "numpy_alike_in_all_workers",
        fails=("seed_worker/differs",),
        read=ORDER,
        explanation="""NumPy gets the same seed in every worker. All workers then crop and flip alike, and a batch has
        each augmentation as often as there are workers.""",
        change="""
-    np.random.seed(words[1])
+    np.random.seed(seed % 2**32)
""",
    ),
    KnownWrong(
        "worker_without_epoch",
        fails=("seed_worker/differs",),
        read=ORDER,
        explanation="""The epoch plays no part: workers that start again for each epoch draw the same numbers again, and
        every epoch has the augmentations of the first.""",
        change="""
-    words = np.random.SeedSequence((seed, epoch, rank, worker)).generate_state(3)
+    words = np.random.SeedSequence((seed, rank, worker)).generate_state(3)
""",
    ),
    KnownWrong(
        "worker_without_rank",
        fails=("seed_worker/differs",),
        read=ORDER,
        explanation="""The rank plays no part: worker 0 of rank 1 draws the numbers of worker 0 of rank 0, so that
        different samples get the same crops and flips.""",
        change="""
-    words = np.random.SeedSequence((seed, epoch, rank, worker)).generate_state(3)
+    words = np.random.SeedSequence((seed, epoch, worker)).generate_state(3)
""",
    ),
    KnownWrong(
        "sum_of_the_four",
        fails=("seed_worker/mixes",),
        read=ORDER,
        explanation="""The seed is a sum of the four numbers. Worker 1 in epoch 0 draws the numbers of worker 0 in
        epoch 1: of 8 workers, 7 only repeat what their neighbors drew before.""",
        change="""
-    words = np.random.SeedSequence((seed, epoch, rank, worker)).generate_state(3)
+    words = [(seed + epoch + rank + worker) % 2**32] * 3
""",
    ),
    KnownWrong(
        "sum_of_any_size",
        fails=("seed_worker/mixes", "seed_worker/large"),
        read=ORDER,
        explanation="""The seed is a sum of the four numbers, without a limit. Worker 1 in epoch 0 draws the numbers of
        worker 0 in epoch 1, and NumPy refuses a sum of more than 32 bits. np.random.SeedSequence mixes the four.""",
        change="""
-    words = np.random.SeedSequence((seed, epoch, rank, worker)).generate_state(3)
-    random.seed(int(words[0]))
-    np.random.seed(words[1])
-    torch.manual_seed(int(words[2]))
+    total = seed + epoch + rank + worker
+    random.seed(total)
+    np.random.seed(total)
+    torch.manual_seed(total)
""",
    ),
    KnownWrong(
        "places_of_a_thousand",
        fails=("seed_worker/mixes", "seed_worker/large"),
        read=ORDER,
        explanation="""The four numbers are put into one, at places such as thousands. A number that is larger than its
        place runs into the next: worker 1000 of rank 0 is worker 0 of rank 1, and large seeds become too large for
        NumPy.""",
        change="""
-    words = np.random.SeedSequence((seed, epoch, rank, worker)).generate_state(3)
+    words = [((seed * 1000 + epoch) * 1000 + rank) * 1000 + worker] * 3
+    words[1] = np.int64(words[1] % 2**32) if words[1] < 2**63 else words[1]
""",
    ),
    KnownWrong(
        "digits_in_a_row",
        fails=("seed_worker/mixes",),
        read=ORDER,
        explanation="""The digits of the four numbers are put in a row, without a mark between two numbers. Epoch 1 of
        rank 12 then has the row of epoch 11 of rank 2.""",
        change="""
-    words = np.random.SeedSequence((seed, epoch, rank, worker)).generate_state(3)
+    words = np.random.SeedSequence(int(f"{seed}{epoch}{rank}{worker}")).generate_state(3)
""",
    ),
    KnownWrong(
        "more_than_32_bits",
        fails=("seed_worker/large",),
        read=TASKS,
        explanation="""np.random.seed takes 32 bits: a larger number raises ValueError, in the worker, at the first
        batch.""",
        change="""
+    np.random.seed(seed)
     np.random.seed(words[1])
""",
    ),
    # ----------------------------------------------------------------------------------------------------- TextStream
    KnownWrong(
        "targets_not_shifted",
        fails=("TextStream/windows",),
        read=TASKS,
        explanation="""The target of a token is the token itself. A model learns to copy, its loss falls to nearly 0 in
        a few steps, and it predicts nothing.""",
        change="""
-                "y": self.tokens[start + 1 : end + 1],
+                "y": self.tokens[start:end],
""",
    ),
    KnownWrong(
        "one_window_too_many",
        fails=("TextStream/windows",),
        read=TASKS,
        explanation="""The number of windows leaves no room for the target of the last token: where the length divides
        the text, the last window's y is one token short, and stacking the batch fails; else one is missing.""",
        change="""
-        self.windows = (len(tokens) - 1) // length
+        self.windows = len(tokens) // length - (len(tokens) % length != 0)
""",
    ),
    KnownWrong(
        "windows_of_one_token_more",
        fails=("TextStream/windows",),
        read=TASKS,
        explanation="""Windows begin length + 1 tokens apart, so that none shares a token with the next. The token
        between two windows is then never an input.""",
        change="""
-            start, end = window * self.length, (window + 1) * self.length
+            start = min(window * (self.length + 1), len(self.tokens) - self.length - 1)
+            end = start + self.length
""",
    ),
    KnownWrong(
        "every_worker_reads_everything",
        fails=("TextStream/divided",),
        read=SHARES,
        explanation="""Every worker of a rank yields the rank's whole share. The DataLoader copies an iterable data set
        into each worker and does not divide it: the data set has to read get_worker_info().""",
        change="""
-        worker = info.id if info else 0
-        place = self.epoch, self.rank, self.ranks, worker, len(self.taken)
+        worker = info.id if info else 0
+        place = self.epoch, self.rank, self.ranks, 0, 1
""",
    ),
    KnownWrong(
        "every_rank_reads_everything",
        fails=("TextStream/divided",),
        read=SHARES,
        explanation="""The rank plays no part in what is read: all ranks yield the same windows. get_worker_info() says
        nothing of ranks; the stream gets the rank when it is made.""",
        change="""
-        place = self.epoch, self.rank, self.ranks, worker, len(self.taken)
+        place = self.epoch, 0, 1, worker, len(self.taken)
""",
    ),
    KnownWrong(
        "worker_zero_on_every_sample",
        fails=("TextStream/divided",),
        read=RESUME,
        explanation="""Every sample says that worker 0 has read it. The training process then counts for worker 0 what
        others have read, and resumes at places where no worker was.""",
        change="""
-                "worker": torch.tensor(worker),
+                "worker": torch.tensor(0),
""",
    ),
    KnownWrong(
        "one_epoch_forever",
        fails=("TextStream/epochs",),
        read=ORDER,
        explanation="""The epoch never changes: after the last window, every further epoch has the order of the
        first.""",
        change="""
-            self.epoch, self.taken = self.epoch + 1, [0] * len(self.taken)
+            self.taken = [0] * len(self.taken)
""",
    ),
    KnownWrong(
        "nothing_after_the_first_epoch",
        fails=(
            "TextStream/epochs",
            "TextStream/resumed",
        ),
        read=RESUME,
        explanation="""The counts of windows are not set back to 0 at the end of an epoch: the next epoch begins where
        the last ended, and yields nothing.""",
        change="""
-            self.epoch, self.taken = self.epoch + 1, [0] * len(self.taken)
+            self.epoch += 1
""",
    ),
    KnownWrong(
        "epoch_ends_with_a_worker",
        fails=(
            "TextStream/epochs",
            "TextStream/resumed",
        ),
        read=RESUME,
        explanation="""The epoch ends for the training process at another count than that of this rank's windows, such
        as that of all ranks: then it never ends, and windows that were read stay counted.""",
        change="""
-        if sum(self.taken) == len(epoch_indices(self.windows, self.seed, self.epoch, self.rank, self.ranks, 0, 1)):
+        if sum(self.taken) == self.windows:
""",
    ),
    KnownWrong(
        "counted_in_batches",
        fails=("TextStream/epochs", "TextStream/resumed", "TextStream/refuses"),
        read=RESUME,
        explanation="""advance counts a batch as one window. The place is then too early by all other windows of each
        batch, and they come again.""",
        change="""
-        for number in worker.tolist():
-            self.taken[number] += 1
+        self.taken[worker.tolist()[0]] += 1
""",
    ),
    KnownWrong(
        "counted_where_it_is_read",
        fails=("TextStream/epochs", "TextStream/resumed", "TextStream/refuses"),
        read=RESUME,
        explanation="""The windows are counted where they are yielded. A worker counts in its own copy, which the
        training process never sees; without workers, the count includes windows that no step has trained on.""",
        change="""
             start, end = window * self.length, (window + 1) * self.length
+            self.taken[worker] += 1
@@
-        for number in worker.tolist():
-            self.taken[number] += 1
         if sum(self.taken) == len(epoch_indices(self.windows, self.seed, self.epoch, self.rank, self.ranks, 0, 1)):
""",
    ),
    KnownWrong(
        "place_read_while_it_moves",
        fails=("TextStream/epochs", "TextStream/resumed"),
        read=RESUME,
        explanation="""The iteration looks at the counts again at each window. Without workers, `advance` changes the
        same object meanwhile: windows are counted twice, and left out.""",
        change="""
-        for window in epoch_indices(self.windows, self.seed, *place)[self.taken[worker] :].tolist():
+        share = epoch_indices(self.windows, self.seed, *place).tolist()
+        for number in range(len(share)):
+            if number + self.taken[worker] >= len(share):
+                return
+            window = share[number + self.taken[worker]]
""",
    ),
    KnownWrong(
        "starts_the_epoch_again",
        fails=("TextStream/resumed", "TextStream/refuses"),
        read=RESUME,
        explanation="""A resumed stream starts its epoch from the beginning: what the run had trained on in this epoch
        comes a second time. Short runs between failures train on the first windows again and again.""",
        change="""
-        for window in epoch_indices(self.windows, self.seed, *place)[self.taken[worker] :].tolist():
+        for window in epoch_indices(self.windows, self.seed, *place).tolist():
""",
    ),
    KnownWrong(
        "state_of_worker_zero",
        fails=("TextStream/resumed", "TextStream/refuses"),
        read=RESUME,
        explanation="""The state is not kept per worker: all workers resume at one count. Batches come from the workers
        in turn, so that after any number of batches some workers are one batch ahead of others.""",
        change="""
-        for window in epoch_indices(self.windows, self.seed, *place)[self.taken[worker] :].tolist():
+        for window in epoch_indices(self.windows, self.seed, *place)[self.taken[0] :].tolist():
""",
    ),
    KnownWrong(
        "mean_of_the_workers",
        fails=("TextStream/resumed", "TextStream/refuses"),
        read=RESUME,
        explanation="""All workers resume at the mean of their counts. Batches come from the workers in turn, so that
        some are ahead of the mean and repeat windows, and others leave windows out.""",
        change="""
-        for window in epoch_indices(self.windows, self.seed, *place)[self.taken[worker] :].tolist():
+        mean = sum(self.taken) // len(self.taken)
+        for window in epoch_indices(self.windows, self.seed, *place)[mean:].tolist():
""",
    ),
    KnownWrong(
        "epoch_not_in_the_state",
        fails=("TextStream/resumed",),
        read=RESUME,
        explanation="""The epoch is not restored: a run that stops in epoch 1 goes on in the order of epoch 0, and
        other windows than those that are left come.""",
        change="""
-        self.epoch, self.taken = state["epoch"], list(state["taken"])
+        self.taken = list(state["taken"])
""",
    ),
    KnownWrong(
        "state_is_the_live_list",
        fails=("TextStream/state",),
        read=RESUME,
        explanation="""The state holds the stream's own list. While the run goes on, a state that waits to be written,
        or that another stream has loaded, changes with it.""",
        change="""
-        return {"epoch": self.epoch, "ranks": self.ranks, "taken": list(self.taken)}
+        return {"epoch": self.epoch, "ranks": self.ranks, "taken": self.taken}
""",
    ),
    KnownWrong(
        "loaded_list_shared",
        fails=("TextStream/state",),
        read=RESUME,
        explanation="""load_state_dict keeps the list of the state itself, and counts in it: the caller's state
        changes. A second stream that loads it starts elsewhere.""",
        change="""
-        self.epoch, self.taken = state["epoch"], list(state["taken"])
+        self.epoch, self.taken = state["epoch"], state["taken"]
""",
    ),
    KnownWrong(
        "lists_of_windows",
        fails=("TextStream/state",),
        read=RESUME,
        explanation="""The state lists the windows that are left. It grows with the text: of a data set with a billion
        windows, each checkpoint holds gigabytes of numbers that seed and epoch already determine.""",
        change="""
-        return {"epoch": self.epoch, "ranks": self.ranks, "taken": list(self.taken)}
+        order = epoch_indices(self.windows, self.seed, self.epoch, 0, 1, 0, 1).tolist()
+        return {"epoch": self.epoch, "ranks": self.ranks, "taken": list(self.taken), "order": order}
""",
    ),
    KnownWrong(
        "other_workers_accepted",
        fails=("TextStream/refuses",),
        read=RESUME,
        explanation="""A state of another number of workers or ranks is loaded. Another number of workers divides the
        windows differently, so that the counts mean nothing: some windows come twice and some never, in silence.""",
        change="""
-        if (state["ranks"], len(state["taken"])) != (self.ranks, len(self.taken)):
-            raise ValueError(
-                f"the state is of {state['ranks']} ranks with {len(state['taken'])} workers each, "
-                f"not of {self.ranks} with {len(self.taken)}: resume with as many."
-            )
+        state = {**state, "taken": (state["taken"] + [0] * len(self.taken))[: len(self.taken)]}
""",
    ),
    KnownWrong(
        "changed_and_then_refused",
        fails=("TextStream/refuses",),
        read=TASKS,
        explanation="""A state that does not fit raises ValueError, but only after the stream has taken over a part of
        it. A program that catches the error goes on at a wrong place: check first, then change.""",
        change="""
         if (state["ranks"], len(state["taken"])) != (self.ranks, len(self.taken)):
+            self.epoch = state["epoch"]
             raise ValueError(
""",
    ),
    # ------------------------------------------------------------------------------------------------- pack_documents
    KnownWrong(
        "no_end_of_document",
        fails=("pack_documents/tokens",),
        read=PACKING,
        explanation="""No eos stands behind a document. A model then never learns where a text ends, and cannot stop
        when it writes one.""",
        change="""
-        next_tokens = [*document[1:], eos, -100] if document else [-100]
-        for place, (token, target) in enumerate(zip([*document, eos], next_tokens, strict=True)):
+        next_tokens = [*document[1:], -100][: len(document)]
+        for place, (token, target) in enumerate(zip(document, next_tokens, strict=True)):
""",
    ),
    KnownWrong(
        "a_row_for_each_document",
        fails=("pack_documents/tokens",),
        read=PACKING,
        explanation="""Each document begins a row of its own, and padding fills the rest. That is what packing avoids:
        with short documents most of the computation is spent on padding.""",
        change="""
-    packed += [(eos, -100, -1, 0)] * (-len(packed) % length)
+        packed += [(eos, -100, -1, 0)] * (-len(packed) % length)
""",
    ),
    KnownWrong(
        "last_row_dropped",
        fails=("pack_documents/tokens",),
        read=PACKING,
        explanation="""The last row, which is not full, is left out. Its tokens are never trained on; of a small set
        that is a large part.""",
        change="""
-    packed += [(eos, -100, -1, 0)] * (-len(packed) % length)
+    packed = packed[: len(packed) // length * length]
""",
    ),
    KnownWrong(
        "predicts_the_next_document",
        fails=("pack_documents/targets",),
        read=PACKING,
        explanation="""The target of a document's eos is the first token of the next document. The order of documents is
        random, so no model can predict that token, and its loss teaches nothing.""",
        change="""
-    return Packed(*torch.tensor(packed, dtype=torch.int64).view(-1, length, 4).unbind(-1))
+    for number in range(len(packed) - 1):
+        if packed[number + 1][2] >= 0:
+            packed[number] = (packed[number][0], packed[number + 1][0], *packed[number][2:])
+    return Packed(*torch.tensor(packed, dtype=torch.int64).view(-1, length, 4).unbind(-1))
""",
    ),
    KnownWrong(
        "every_next_token",
        fails=("pack_documents/targets",),
        read=PACKING,
        explanation="""The targets are all tokens shifted by one. The eos of a document should then predict the next
        document, which is random, and padding should predict padding, which is easy. Both change the mean loss, and
        neither teaches the model anything.""",
        change="""
-    return Packed(*torch.tensor(packed, dtype=torch.int64).view(-1, length, 4).unbind(-1))
+    parts = torch.tensor(packed, dtype=torch.int64).view(-1, length, 4).unbind(-1)
+    targets = torch.cat([parts[0].flatten()[1:], torch.tensor([-100])[: len(packed)]]).view(-1, length)
+    return Packed(parts[0], targets, *parts[2:])
""",
    ),
    KnownWrong(
        "padding_is_a_target",
        fails=("pack_documents/targets",),
        read=PACKING,
        explanation="""Padding has the target eos. The model soon predicts padding after padding with a loss near 0,
        and the mean loss looks better than it is.""",
        change="""
-    packed += [(eos, -100, -1, 0)] * (-len(packed) % length)
+    packed += [(eos, eos, -1, 0)] * (-len(packed) % length)
""",
    ),
    KnownWrong(
        "eos_is_no_target",
        fails=("pack_documents/targets",),
        read=PACKING,
        explanation="""The last token of a document has no target. Its target is the eos: without it the model never
        learns to end a text.""",
        change="""
-        next_tokens = [*document[1:], eos, -100] if document else [-100]
+        next_tokens = [*document[1:], -100, -100] if document else [-100]
""",
    ),
    KnownWrong(
        "positions_never_restart",
        fails=("pack_documents/documents",),
        read=PACKING,
        explanation="""Positions count along the row and do not restart at 0 in each document. The same text then has
        other positions, and other outputs, if another document comes before it.""",
        change="""
-            position = first + place - max(first, row_start)
+            position = first + place - row_start
""",
    ),
    KnownWrong(
        "padding_in_the_last_document",
        fails=("pack_documents/documents",),
        read=PACKING,
        explanation="""Padding has the number of the last document. Code that counts tokens per document then counts
        padding as text.""",
        change="""
-    packed += [(eos, -100, -1, 0)] * (-len(packed) % length)
+    packed += [(eos, -100, len(documents) - 1, 0)] * (-len(packed) % length)
""",
    ),
    KnownWrong(
        "positions_go_on_in_the_next_row",
        fails=("pack_documents/rows",),
        read=PACKING,
        explanation="""The positions of a document continue in the next row. They grow without a limit, beyond the last
        position that has an embedding, and they count from tokens in another row, to which no token attends.""",
        change="""
-            row_start = (first + place) // length * length
-            position = first + place - max(first, row_start)
-            packed.append((token, target, number, position))
+            packed.append((token, target, number, place))
""",
    ),
    KnownWrong(
        "no_target_at_the_end_of_a_row",
        fails=("pack_documents/rows",),
        read=PACKING,
        explanation="""The last token of each row has no target. Its target is known: the first token of the next row,
        if the document goes on there. Of each row a prediction is lost.""",
        change="""
-            packed.append((token, target, number, position))
+            at_end = (first + place) % length == length - 1 and place < len(document) - 1
+            packed.append((token, -100 if at_end else target, number, position))
""",
    ),
    KnownWrong(
        "long_documents_cut_off",
        fails=("pack_documents/rows",),
        read=PACKING,
        explanation="""A document that is longer than a row is cut off at the row's length: the rest of each long text
        is never trained on.""",
        change="""
     for number, document in enumerate(documents):
+        document = document[: length - 1]
""",
    ),
    KnownWrong(
        "ends_found_by_their_token",
        fails=("pack_documents/odd",),
        read=TASKS,
        explanation="""Ends of documents are found by the number eos. A document may hold this number inside, for
        instance a text about tokenizers: it would be torn in two.""",
        change="""
-            packed.append((token, target, number, position))
+            packed.append((token, -100 if token == eos else target, number, position))
""",
    ),
    KnownWrong(
        "empty_documents_left_out",
        fails=("pack_documents/odd",),
        read=TASKS,
        explanation="""An empty document leaves no eos. It is a document all the same: the contract gives it its eos,
        so that rows tell how many documents there are.""",
        change="""
     for number, document in enumerate(documents):
+        if not document:
+            continue
""",
    ),
    KnownWrong(
        "a_row_of_padding_too_many",
        fails=("pack_documents/full", "pack_documents/none"),
        read=TASKS,
        explanation="""Where the documents fill their rows exactly, a whole row of padding is added: length - n %
        length is length, not 0, for such an n. -n % length is 0.""",
        change="""
-    packed += [(eos, -100, -1, 0)] * (-len(packed) % length)
+    packed += [(eos, -100, -1, 0)] * (length - len(packed) % length)
""",
    ),
    # -------------------------------------------------------------------------------------------------- document_mask
    KnownWrong(
        "attention_across_documents",
        fails=("document_mask/documents",),
        read=PACKING,
        explanation="""The mask is the ordinary causal one: tokens attend to earlier documents of their row. The output
        for a text then depends on the texts that happen to stand before it.""",
        change="""
-    return ((same & real).tril() | itself)[:, None]
+    return (torch.ones_like(same & real).tril() | itself)[:, None]
""",
    ),
    KnownWrong(
        "attention_to_the_future",
        fails=("document_mask/documents",),
        read=PACKING,
        explanation="""Tokens attend to later tokens of their document. The model sees what it should predict: its loss
        falls to nearly 0, and it has learned to copy.""",
        change="""
-    return ((same & real).tril() | itself)[:, None]
+    return ((same & real) | itself)[:, None]
""",
    ),
    KnownWrong(
        "true_where_forbidden",
        fails=("document_mask/documents",),
        read=PACKING,
        explanation="""The mask is inverted: True where a token may not attend, as torch.nn.MultiheadAttention's
        key_padding_mask has it. For scaled_dot_product_attention, True means may.""",
        change="""
-    return ((same & real).tril() | itself)[:, None]
+    return ~((same & real).tril() | itself)[:, None]
""",
    ),
    KnownWrong(
        "no_dimension_for_heads",
        fails=("document_mask/documents",),
        read=TASKS,
        explanation="""The mask has no dimension for the heads. With scores [N, H, T, T], the first dimension of a mask
        [N, T, T] meets the heads: an error, or where N = H the mask of another row.""",
        change="""
-    return ((same & real).tril() | itself)[:, None]
+    return (same & real).tril() | itself
""",
    ),
    KnownWrong(
        "padding_attends_to_nothing",
        fails=("document_mask/padding",),
        read=PACKING,
        explanation="""Padding may attend to nothing, not even to itself. The softmax over no token is 0/0: nan, which
        attention's next layer spreads to every token of the row.""",
        change="""
-    return ((same & real).tril() | itself)[:, None]
+    return (same & real).tril()[:, None]
""",
    ),
    KnownWrong(
        "padding_is_a_document",
        fails=("document_mask/padding",),
        read=PACKING,
        explanation="""Padding attends to earlier padding, as if padding were a document with the number -1. No later
        step reads that result, and a kernel that skips masked blocks has to compute it.""",
        change="""
-    return ((same & real).tril() | itself)[:, None]
+    return (same.tril() | itself)[:, None]
""",
    ),
    # ------------------------------------------------------------------------------------------------------ train_bpe
    KnownWrong(
        "overlapping_pairs_counted_once",
        fails=("train_bpe/count",),
        read=TOKENS,
        explanation="""Pairs that overlap are counted once, as str.count counts. The contract counts every pair of
        neighbors: in [7, 7, 7] the pair (7, 7) occurs twice.""",
        change="""
-    return Counter(pairwise(tokens))
+    counts, place = Counter(), 0
+    while place < len(tokens) - 1:
+        counts[tokens[place], tokens[place + 1]] += 1
+        place += 2 if tokens[place : place + 3] == [tokens[place]] * 3 else 1
+    return counts
""",
    ),
    KnownWrong(
        "every_other_pair",
        fails=("train_bpe/count",),
        read=TOKENS,
        explanation="""Tokens are taken two by two: pairs that begin at an odd place are not counted. A pair's count
        then depends on whether the text before it has an even length.""",
        change="""
-    return Counter(pairwise(tokens))
+    return Counter(zip(tokens[::2], tokens[1::2]))
""",
    ),
    KnownWrong(
        "merged_from_the_right",
        fails=("train_bpe/merge",),
        read=TOKENS,
        explanation="""The list is searched from its end, so that [7, 7, 7] becomes [7, 256], not [256, 7]. Training
        and encoding may agree on it; tokens of other programs with these merges differ.""",
        change="""
-    merged, place = [], 0
-    while place < len(tokens):
-        found = (tokens[place], *tokens[place + 1 : place + 2]) == pair
-        merged.append(new if found else tokens[place])
-        place += 2 if found else 1
-    return merged
+    merged, place = [], len(tokens)
+    while place > 0:
+        found = place > 1 and (tokens[place - 2], tokens[place - 1]) == pair
+        merged.append(new if found else tokens[place - 1])
+        place -= 2 if found else 1
+    return merged[::-1]
""",
    ),
    KnownWrong(
        "merged_with_overlap",
        fails=("train_bpe/merge",),
        read=TOKENS,
        explanation="""Each pair of neighbors is looked at, also one whose first token has just been merged: of [7, 7,
        7] two new tokens are made, and text is doubled.""",
        change="""
-    merged, place = [], 0
-    while place < len(tokens):
-        found = (tokens[place], *tokens[place + 1 : place + 2]) == pair
-        merged.append(new if found else tokens[place])
-        place += 2 if found else 1
-    return merged
+    merged = []
+    for place, token in enumerate(tokens):
+        if (token, *tokens[place + 1 : place + 2]) == pair:
+            merged.append(new)
+        elif not (place and (tokens[place - 1], token) == pair):
+            merged.append(token)
+    return merged
""",
    ),
    KnownWrong(
        "second_token_of_a_pair_stays",
        fails=("train_bpe/merge",),
        read=TOKENS,
        explanation="""The new token takes the place of the pair's first token, and the second token stays: a walk over
        all pairs of neighbors replaces one token per pair, so the list never gets shorter. Skip the second token.""",
        change="""
-        place += 2 if found else 1
+        place += 1
""",
    ),
    KnownWrong(
        "merges_once",
        fails=("train_bpe/merge",),
        read=TOKENS,
        explanation="""Only the first occurrence of the pair is replaced; later occurrences stay.""",
        change="""
-        found = (tokens[place], *tokens[place + 1 : place + 2]) == pair
+        found = new not in merged and (tokens[place], *tokens[place + 1 : place + 2]) == pair
""",
    ),
    KnownWrong(
        "last_token_lost",
        fails=("train_bpe/merge",),
        read=TOKENS,
        explanation="""The walk over pairs ends one token too early: where the last token belongs to no pair, it is
        lost.""",
        change="""
-    while place < len(tokens):
+    while place < len(tokens) - 1:
""",
    ),
    KnownWrong(
        "merges_in_place",
        fails=("train_bpe/merge",),
        read=TASKS,
        explanation="""The caller's list is changed. A caller that tries several merges on one list finds it different
        after the first.""",
        change="""
-    merged, place = [], 0
-    while place < len(tokens):
-        found = (tokens[place], *tokens[place + 1 : place + 2]) == pair
-        merged.append(new if found else tokens[place])
-        place += 2 if found else 1
-    return merged
+    place = 0
+    while place < len(tokens) - 1:
+        if (tokens[place], tokens[place + 1]) == pair:
+            tokens[place : place + 2] = [new]
+        place += 1
+    return tokens
""",
    ),
    KnownWrong(
        "characters_instead_of_bytes",
        fails=("train_bpe/learns",),
        read=TOKENS,
        explanation="""Tokens are characters, by their Unicode numbers. The first 256 tokens are then no bytes, and a
        character that the training text lacks has no token: 150,000 of them exist.""",
        change="""
-    tokens = list(text.encode())
+    tokens = [ord(character) for character in text]
""",
    ),
    KnownWrong(
        "counted_once_for_all_merges",
        fails=("train_bpe/learns",),
        read=TOKENS,
        explanation="""The pairs are counted once, and the most frequent are taken in turn. After a merge the counts
        change, and pairs with the new token appear: without them no token is longer than two bytes.""",
        change="""
-    while len(learned) < merges:
-        counts = count_pairs(tokens)
+    counts = count_pairs(tokens)
+    while len(learned) < merges:
@@
-        tokens = merge_pair(tokens, pair, 256 + len(learned))
         learned.append(pair)
+        del counts[pair]
""",
    ),
    KnownWrong(
        "numbered_from_257",
        fails=("train_bpe/learns",),
        read=TOKENS,
        explanation="""The first merge makes the token 257. Token 256 stays unused, and `decode`, which counts merges
        from 256, reads every merge as the one after it.""",
        change="""
-        tokens = merge_pair(tokens, pair, 256 + len(learned))
         learned.append(pair)
+        tokens = merge_pair(tokens, pair, 256 + len(learned))
""",
    ),
    KnownWrong(
        "ties_by_first_occurrence",
        fails=("train_bpe/ties",),
        read=TOKENS,
        explanation="""Of pairs that occur equally often, the pair that comes first in the text is taken, as max of a
        Counter takes it. The merges then depend on the order of the files of the training text.""",
        change="""
-        pair = min(counts, key=lambda pair: (-counts[pair], pair), default=None)
+        pair = max(counts, key=counts.get, default=None)
""",
    ),
    KnownWrong(
        "ties_by_the_largest",
        fails=("train_bpe/ties",),
        read=TOKENS,
        explanation="""Of pairs that occur equally often, the largest is taken, as max over (count, pair) takes it. The
        contract takes the smallest: two programs agree only on one rule.""",
        change="""
-        pair = min(counts, key=lambda pair: (-counts[pair], pair), default=None)
+        pair = max(counts, key=lambda pair: (counts[pair], pair), default=None)
""",
    ),
    KnownWrong(
        "merges_of_single_pairs",
        fails=("train_bpe/ends",),
        read=TOKENS,
        explanation="""Training continues when no pair occurs twice. The merges then copy the training text, until one
        token stands for all of it. No other text has such tokens.""",
        change="""
-        if pair is None or counts[pair] < 2:
+        if pair is None:
""",
    ),
    KnownWrong(
        "fails_on_short_texts",
        fails=("train_bpe/ends",),
        read=TOKENS,
        explanation="""A text that runs out of pairs raises an exception: min and max of nothing have no answer. Ask
        for the end before you take the best pair.""",
        change="""
-        pair = min(counts, key=lambda pair: (-counts[pair], pair), default=None)
-        if pair is None or counts[pair] < 2:
-            break
+        pair = min(counts, key=lambda pair: (-counts[pair], pair))
+        if counts[pair] < 2:
+            break
""",
    ),
    # --------------------------------------------------------------------------------------------------------- encode
    KnownWrong(
        "merges_in_the_wrong_order",
        fails=("encode/tokens",),
        read=TOKENS,
        explanation="""The merges are applied from the last to the first. Later merges consist of tokens that earlier
        ones make: most of them then find nothing.""",
        change="""
-    for number, pair in enumerate(merges):
+    for number, pair in reversed(list(enumerate(merges))):
""",
    ),
    KnownWrong(
        "merged_as_they_come",
        fails=("encode/tokens",),
        read=TOKENS,
        explanation="""The text is read once from the left, and any known pair is merged where it stands. A pair that
        was learned later takes a token that an earlier merge would have used: other tokens than in training.""",
        change="""
-    for number, pair in enumerate(merges):
-        tokens = merge_pair(tokens, pair, 256 + number)
+    numbers = {pair: 256 + number for number, pair in enumerate(merges)}
+    place = 0
+    while place < len(tokens) - 1:
+        pair = tokens[place], tokens[place + 1]
+        if pair in numbers:
+            tokens[place : place + 2] = [numbers[pair]]
+            place = max(place - 1, 0)
+        else:
+            place += 1
""",
    ),
    KnownWrong(
        "most_frequent_pair_first",
        fails=("encode/tokens",),
        read=TOKENS,
        explanation="""Of the known pairs in the text, the most frequent is merged first. How often a pair occurs
        matters in training alone: a new text is encoded in the order of the merges, or the same word has other tokens
        in another text.""",
        change="""
-    for number, pair in enumerate(merges):
-        tokens = merge_pair(tokens, pair, 256 + number)
-    return tokens
+    while known := {pair: count for pair, count in count_pairs(tokens).items() if pair in merges}:
+        pair = max(known, key=known.get)
+        tokens = merge_pair(tokens, pair, 256 + merges.index(pair))
+    return tokens
""",
    ),
    KnownWrong(
        "longest_token_first",
        fails=("encode/tokens",),
        read=TOKENS,
        explanation="""At each place the longest known token is taken. Other tokenizers work like this. A model that was
        trained on the merges needs the merges, in their order.""",
        change="""
-    for number, pair in enumerate(merges):
-        tokens = merge_pair(tokens, pair, 256 + number)
+    content = [bytes([byte]) for byte in range(256)]
+    for left, right in merges:
+        content.append(content[left] + content[right])
+    rest, tokens = text.encode(), []
+    while rest:
+        length = max(len(part) for part in content if rest.startswith(part))
+        tokens.append(content.index(rest[:length]))
+        rest = rest[length:]
""",
    ),
    KnownWrong(
        "each_token_decoded_alone",
        fails=("encode/decode",),
        read=TOKENS,
        explanation="""The bytes of each token are decoded by themselves. A token may hold a part of a character, which
        is no UTF-8 alone: join the bytes of all tokens, then decode.""",
        change="""
-    return b"".join(content[token] for token in tokens).decode(errors="replace")
+    return "".join(content[token].decode(errors="replace") for token in tokens)
""",
    ),
    KnownWrong(
        "fails_inside_a_character",
        fails=("encode/decode",),
        read=TOKENS,
        explanation="""Tokens that end inside a character raise UnicodeDecodeError. A model that writes token by token
        ends there often.""",
        change="""
-    return b"".join(content[token] for token in tokens).decode(errors="replace")
+    return b"".join(content[token] for token in tokens).decode()
""",
    ),
    KnownWrong(
        "half_characters_left_out",
        fails=("encode/decode",),
        read=TOKENS,
        explanation="""Bytes that are no UTF-8 are left out in silence. Nobody sees that the model wrote them: the
        replacement character shows it.""",
        change="""
-    return b"".join(content[token] for token in tokens).decode(errors="replace")
+    return b"".join(content[token] for token in tokens).decode(errors="ignore")
""",
    ),
    KnownWrong(
        "merges_of_bytes_alone",
        fails=("encode/decode",),
        read=TOKENS,
        explanation="""A merge is taken for a pair of bytes. Its parts may be tokens of earlier merges: their bytes are
        what `decode` has to put together.""",
        change="""
-    for left, right in merges:
-        content.append(content[left] + content[right])
+    for left, right in merges:
+        content.append(bytes([left % 256, right % 256]))
""",
    ),
    KnownWrong(
        "latin_letters_alone",
        fails=("encode/round-trip",),
        read=TOKENS,
        explanation="""Characters that the encoding cannot express are replaced before they are tokens. UTF-8 has bytes
        for every character: encode the text as it is.""",
        change="""
-    tokens = list(text.encode())
+    tokens = list(text.encode("ascii", errors="replace"))
""",
    ),
    KnownWrong(
        "capitals_lost",
        fails=("encode/round-trip",),
        read=TOKENS,
        explanation="""The text is changed to small letters before it is encoded. A byte-pair tokenizer of this lab
        encodes the text as it is: decode returns every capital letter.""",
        change="""
-    tokens = list(text.encode())
+    tokens = list(text.lower().encode())
""",
    ),
    # ----------------------------------------------------------------------------------------------------- Prefetcher
    KnownWrong(
        "all_items_in_the_constructor",
        fails=("Prefetcher/order",),
        read=WAITS,
        explanation="""No other thread draws the items: the thread that reads them waits for each, or for all. Nothing
        is prepared while it works.""",
        change="""
-        self.thread = threading.Thread(target=draw, daemon=True)
-        self.thread.start()
+        self.thread = threading.Thread(target=bool, daemon=True)
+        self.thread.start()
+        for _ in range(10_000):
+            self.free.release()
+        draw()
""",
    ),
    KnownWrong(
        "none_means_the_end",
        fails=("Prefetcher/order",),
        read=TASKS,
        explanation="""None stands for the end. An item that is None ends the iteration early, and all items after it
        are lost: use a mark that no item can be.""",
        change="""
-        if kind == "item":
+        if kind == "item" and item is not None:
             return item
         self.close()
-        raise StopIteration if kind == "end" else item
+        raise item if kind == "error" else StopIteration
""",
    ),
    KnownWrong(
        "last_item_first",
        fails=("Prefetcher/order",),
        read=TASKS,
        explanation="""Items come in another order than they are drawn: a list from whose end items are taken, or a
        LifoQueue. Samples and their epoch no longer match.""",
        change="""
-        self.ready: queue.SimpleQueue[tuple[str, Any]] = queue.SimpleQueue()
+        self.ready = queue.LifoQueue()
+        self.free = threading.Semaphore(ahead + 1)
""",
    ),
    KnownWrong(
        "waits_after_the_end",
        fails=("Prefetcher/order",),
        read=TASKS,
        explanation="""The first call after the last item raises StopIteration; the next call waits forever for an item
        that nobody draws. Note that the end has come.""",
        change="""
-        self.close()
-        raise StopIteration if kind == "end" else item
+        raise StopIteration if kind == "end" else item
""",
    ),
    KnownWrong(
        "no_limit",
        fails=("Prefetcher/ahead",),
        read=WAITS,
        explanation="""The thread draws without a limit. Where the model is slower than the data, the whole data set
        ends up in memory.""",
        change="""
-                    self.free.acquire()
                     if self.closed:
""",
    ),
    KnownWrong(
        "one_more_in_hand",
        fails=("Prefetcher/ahead",),
        read=WAITS,
        explanation="""One item more than `ahead` is drawn: a queue holds `ahead` of them, and the thread that waits to
        put the next one has drawn it already. Of batches on a GPU, that is a batch more memory than planned.""",
        change="""
-        self.free = threading.Semaphore(ahead)
+        self.free = threading.Semaphore(ahead + 1)
""",
    ),
    KnownWrong(
        "one_at_a_time",
        fails=("Prefetcher/ahead",),
        read=WAITS,
        explanation="""Fewer than `ahead` items are drawn ahead. One slow item then makes the loop wait although there
        was time before it to draw more.""",
        change="""
-        self.free = threading.Semaphore(ahead)
+        self.free = threading.Semaphore(1)
""",
    ),
    KnownWrong(
        "error_swallowed",
        fails=("Prefetcher/error",),
        read=TASKS,
        explanation="""An exception of the source looks like its end. The epoch is then too short, without any error:
        after a damaged file all following data are missing.""",
        change="""
             except BaseException as error:
-                self.ready.put(("error", error))
+                self.ready.put(("end", error))
""",
    ),
    KnownWrong(
        "thread_dies_in_silence",
        fails=("Prefetcher/error",),
        read=TASKS,
        explanation="""An exception ends the thread, and the caller waits forever for the next item. Python does not
        pass an exception from one thread to another: put it into the queue like an item.""",
        change="""
             except StopIteration:
                 self.ready.put(("end", None))
-            except BaseException as error:
-                self.ready.put(("error", error))
+            except BaseException:
+                pass
""",
    ),
    KnownWrong(
        "error_before_its_turn",
        fails=("Prefetcher/error",),
        read=TASKS,
        explanation="""The exception comes before items that were drawn without one: they are lost, and how many
        depends on how far the thread was ahead.""",
        change="""
         if self.closed:
             raise StopIteration
+        if getattr(self, "failed", None):
+            self.close()
+            raise self.failed
         kind, item = self.ready.get()
@@
             except BaseException as error:
+                self.failed = error
                 self.ready.put(("error", error))
""",
    ),
    KnownWrong(
        "error_again_and_again",
        fails=("Prefetcher/error",),
        read=TASKS,
        explanation="""The exception is raised at every further call. The contract raises it once: a caller that has
        dealt with it finds the end.""",
        change="""
         if self.closed:
-            raise StopIteration
+            raise getattr(self, "failed", StopIteration)
         kind, item = self.ready.get()
@@
             except BaseException as error:
+                self.failed = error
                 self.ready.put(("error", error))
""",
    ),
    KnownWrong(
        "close_waits_forever",
        fails=("Prefetcher/close",),
        read=TASKS,
        explanation="""close waits for a thread that itself waits for room, and nobody makes room any more. Wake the
        thread before you wait for its end.""",
        change="""
-        self.free.release()
         self.thread.join()
""",
    ),
    KnownWrong(
        "thread_left_behind",
        fails=("Prefetcher/close",),
        read=TASKS,
        explanation="""close only notes that it was called: the thread goes on waiting, with its items, its open files
        and its memory. Each epoch that is left early adds a thread.""",
        change="""
-        self.free.release()
-        self.thread.join()
""",
    ),
    KnownWrong(
        "items_after_close",
        fails=("Prefetcher/close",),
        read=TASKS,
        explanation="""After close, next still returns items that were drawn before. The contract: after close, next
        raises StopIteration.""",
        change="""
-        if self.closed:
+        if self.closed and self.ready.empty():
             raise StopIteration
""",
    ),
    KnownWrong(
        "one_item_after_close",
        fails=("Prefetcher/close",),
        read=TASKS,
        explanation="""close wakes the thread, and the thread draws another item before it looks whether it was closed:
        with slow items, close waits for an item that nobody wants.""",
        change="""
                     self.free.acquire()
-                    if self.closed:
-                        return
                     self.ready.put(("item", next(iterator)))
+                    if self.closed:
+                        return
""",
    ),
    KnownWrong(
        "closed_too_early",
        fails=("Prefetcher/drawing",),
        read=TASKS,
        explanation="""close returns while the thread still draws an item. A caller that then closes the file, or ends
        the process, does so while the thread still reads.""",
        change="""
-        self.thread.join()
+        self.thread.join(0.005)
""",
    ),
)

HURRIED = {
    "channel_statistics": {
        "the numbers of another data set": """
-    return pixels.mean(0).float(), pixels.std(0, correction=0).float()
+    channels = images.shape[-1]
+    return torch.full((channels,), 0.4734), torch.full((channels,), 0.2516)
""",
    },
    "prepare": {
        "not shifted": """
-    if generator is not None:
+    if generator is not None and images is None:
""",
    },
    "evaluate": {
        "one batch with everything": """
-            for x, y in torch.utils.data.DataLoader(dataset, batch_size):
+            for x, y in torch.utils.data.DataLoader(dataset, len(dataset)):
""",
    },
    "epoch_indices": {
        "a slice of a rotated list": """
-    order = np.random.default_rng((seed, epoch)).permutation(size)
+    order = np.roll(np.arange(size), 7 * epoch + seed)
""",
    },
    "seed_worker": {
        "the worker's number alone": """
-    words = np.random.SeedSequence((seed, epoch, rank, worker)).generate_state(3)
+    words = [worker % 2**32] * 3
""",
    },
    "TextStream": {
        "an empty state": """
-        return {"epoch": self.epoch, "ranks": self.ranks, "taken": list(self.taken)}
+        return {"epoch": 0, "ranks": self.ranks, "taken": [0] * len(self.taken)}
""",
    },
    "pack_documents": {
        "rows of zeros": """
-    return Packed(*torch.tensor(packed, dtype=torch.int64).view(-1, length, 4).unbind(-1))
+    return Packed(*torch.zeros(4, len(packed) // length, length, dtype=torch.int64))
""",
    },
    "document_mask": {
        "everything allowed": """
-    return ((same & real).tril() | itself)[:, None]
+    return torch.ones_like(same & real | itself)[:, None]
""",
    },
    "train_bpe": {
        "no merges": """
-    return learned
+    return learned[:0]
""",
    },
    "encode": {
        "bytes alone": """
-        tokens = merge_pair(tokens, pair, 256 + number)
+        tokens = merge_pair(tokens, pair, pair[0])
""",
    },
    "Prefetcher": {
        "an iterator without a thread": """
-        self.thread = threading.Thread(target=draw, daemon=True)
+        self.free = threading.Semaphore(10**6)
+        self.thread = threading.Thread(target=bool, daemon=True)
         self.thread.start()
+        draw()
""",
    },
}
