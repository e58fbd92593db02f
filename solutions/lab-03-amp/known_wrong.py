"""Known-wrong solutions of Lab 03, and hurried answers, as changes to exercises.py."""

from rankzero.exercises.checks.known_wrong import KnownWrong

KNOWN_WRONG = (
    KnownWrong(
        "normal_numbers_only",
        fails=("share_lost/fp16",),
        read="handbook/precision.md#the-bottom-of-the-range",
        explanation="""Everything below the smallest normal number, 6.1e-5 in fp16, is counted as lost. Below it lie the
        subnormal numbers, down to 2**-24: they lose digits one by one and are not 0. Do not compare with a threshold;
        store the number and look.""",
        change="""
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
+        lost += int(((nonzero.double() * scale).abs() < torch.finfo(dtype).smallest_normal).sum())
""",
    ),
    KnownWrong(
        "zeros_below_the_line",
        fails=("share_lost/zeros",),
        read="handbook/precision.md#the-bottom-of-the-range",
        explanation="""Zeros from before are not counted as lost, but they are counted as there: the share is divided by
        all numbers. The more rows of the embedding the batch leaves out, the better the format seems to be.""",
        change="""
-        nonzero = gradient[gradient != 0]
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
-        there += nonzero.numel()
+        lost += int((((gradient * scale).to(dtype) == 0) & (gradient != 0)).sum())
+        there += gradient.numel()
""",
    ),
    KnownWrong(
        "zeros_counted",
        fails=("share_lost/zeros",),
        read="handbook/precision.md#the-bottom-of-the-range",
        explanation="""Numbers that are 0 before are counted too, as lost and as there. An embedding has a row of zeros
        for every token that is not in the batch, so this share depends on the vocabulary more than on the format.""",
        change="""
-        nonzero = gradient[gradient != 0]
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
-        there += nonzero.numel()
+        lost += int(((gradient * scale).to(dtype) == 0).sum())
+        there += gradient.numel()
""",
    ),
    KnownWrong(
        "mean_of_the_tensors_shares",
        fails=("share_lost/tensors",),
        read="handbook/precision.md#the-bottom-of-the-range",
        explanation="""Each tensor gets its share, and the shares are averaged. A norm of 128 numbers then counts as
        much as a matrix of 65,536. Add up counts, and divide once.""",
        definitions="""
def share_lost(gradients, scale, dtype):
    shares = []
    for gradient in gradients:
        if gradient is not None and gradient.count_nonzero():
            nonzero = gradient[gradient != 0]
            shares.append(float(((nonzero * scale).to(dtype) == 0).double().mean()))
    return sum(shares) / len(shares) if shares else 0.0
""",
    ),
    KnownWrong(
        "every_format_is_fp16",
        fails=("share_lost/scale",),
        read="handbook/precision.md#the-bottom-of-the-range",
        explanation="""The numbers are stored in fp16, whatever `dtype` says. bf16 has fp32's exponent and loses hardly
        anything that fp32 holds; that is the whole reason why it needs no scaler.""",
        change="""
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
+        lost += int(((nonzero * scale).half() == 0).sum())
""",
    ),
    KnownWrong(
        "scaled_after_it_was_stored",
        fails=("share_lost/scale",),
        read="handbook/precision.md#the-bottom-of-the-range",
        explanation="""The gradient is stored in 16 bits first and multiplied afterwards. What became 0 stays 0 under
        any scale. That is why a scaler multiplies the loss, before backward, and not the gradients, after it.""",
        change="""
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
+        lost += int((nonzero.to(dtype) * scale == 0).sum())
""",
    ),
    KnownWrong(
        "bf16_for_everyone",
        fails=("cast_inputs/lower",),
        read="handbook/precision.md#which-operation-runs-in-which-format",
        explanation="""bf16 is written into the code, and `low` is ignored. On a GPU from before 2020, which multiplies
        fp16 fast and bf16 not at all, that is the difference between a speed-up and a crawl.""",
        change="""
-        target = low
+        target = torch.bfloat16
""",
    ),
    KnownWrong(
        "weights_stay_fp32",
        fails=("cast_inputs/lower",),
        read="handbook/precision.md#which-operation-runs-in-which-format",
        explanation="""Only the first argument, the activation, is cast; the weight stays in fp32, because "under
        autocast the weights stay fp32". The stored weight does. The matrix product gets a 16-bit copy of it, or there
        would be no 16-bit product.""",
        change="""
-    return [one.to(target) if casts(one) else one for one in args]
+    return [one.to(target) if casts(one) and (place == 0 or target != low) else one for place, one in enumerate(args)]
""",
    ),
    KnownWrong(
        "fp32_means_not_lower",
        fails=("cast_inputs/fp32",),
        read="handbook/precision.md#which-operation-runs-in-which-format",
        explanation="""Operations on the fp32 list get their arguments as they are. But a matrix product before them has
        left its result in 16 bits: the logits of a cross-entropy arrive in bf16. "fp32" is a cast too, back up.""",
        change="""
-    elif policy == "fp32" or (policy == "widest" and any(casts(one) and one.dtype == torch.float32 for one in args)):
+    elif policy == "widest" and any(casts(one) and one.dtype == torch.float32 for one in args):
""",
    ),
    KnownWrong(
        "widest_is_always_fp32",
        fails=("cast_inputs/widest",),
        read="handbook/precision.md#which-operation-runs-in-which-format",
        explanation=""""widest" is taken for fp32. If all arguments are 16-bit they stay 16-bit: nothing would become
        more exact, and twice the memory would be kept for backward.""",
        change="""
-    elif policy == "fp32" or (policy == "widest" and any(casts(one) and one.dtype == torch.float32 for one in args)):
+    elif policy == "fp32" or (policy == "widest" and True):
""",
    ),
    KnownWrong(
        "widest_is_lowest",
        fails=("cast_inputs/widest",),
        read="handbook/precision.md#which-operation-runs-in-which-format",
        explanation=""""widest" is treated like "lower": the fp32 arguments are rounded down to meet the others. It is
        the other way round. These operations add or join tensors, they gain no speed from 16 bits, and they would lose
        16 of the fp32 tensor's 24 digits.""",
        change="""
-    if policy == "lower":
+    if policy in ("lower", "widest"):
         target = low
-    elif policy == "fp32" or (policy == "widest" and any(casts(one) and one.dtype == torch.float32 for one in args)):
+    elif policy == "fp32":
""",
    ),
    KnownWrong(
        "widest_is_the_first",
        fails=("cast_inputs/widest",),
        read="handbook/precision.md#which-operation-runs-in-which-format",
        explanation="""For "widest" all arguments get the dtype of the first. With a 16-bit tensor in front, an fp32
        residual stream would be rounded to 16 bits by one addition. Look at all of them first.""",
        change="""
-    elif policy == "fp32" or (policy == "widest" and any(casts(one) and one.dtype == torch.float32 for one in args)):
+    elif policy == "fp32" or (policy == "widest" and args[0].dtype == torch.float32):
""",
    ),
    KnownWrong(
        "float64_cast",
        fails=("cast_inputs/others",),
        read="handbook/precision.md#which-operation-runs-in-which-format",
        explanation="""A tensor in float64 is cast like the others. Autocast leaves it alone: whoever computes in 64
        bits has asked for that, and a gradient check in float64 would be ruined in silence.""",
        change="""
-        return isinstance(value, Tensor) and value.is_floating_point() and value.dtype != torch.float64
+        return isinstance(value, Tensor) and value.is_floating_point()
""",
    ),
    KnownWrong(
        "integers_cast",
        fails=("cast_inputs/others", "cast_inputs/gpt"),
        read="handbook/precision.md#which-operation-runs-in-which-format",
        explanation="""Every tensor is cast, token ids and masks included. An embedding or a loss wants integers and
        refuses; worse, bf16 cannot tell token 257 from token 256. Only floating-point tensors have a format to
        choose.""",
        change="""
-        return isinstance(value, Tensor) and value.is_floating_point() and value.dtype != torch.float64
+        return isinstance(value, Tensor)
""",
    ),
    KnownWrong(
        "graph_cut",
        fails=("cast_inputs/gradients",),
        read="handbook/precision.md#which-operation-runs-in-which-format",
        explanation="""The casts are made on detached tensors, so autograd does not see them: the weights get no
        gradient, and the optimizer skips them without a word. A cast is an operation like any other, and its backward
        casts the gradient back.""",
        change="""
-    return [one.to(target) if casts(one) else one for one in args]
+    return [one.detach().to(target) if casts(one) else one for one in args]
""",
    ),
    KnownWrong(
        "never_below_one",
        fails=("update_scale/backs-off",),
        read="handbook/precision.md#a-scale-that-finds-itself",
        explanation="""The scale stops at 1. A model whose gradients are too large even unscaled would overflow at
        every step from then on, and never update again. Below 1 the scale makes them smaller, which is then what
        they need.""",
        change="""
-        return scale * 0.5, 0
+        return max(1.0, scale * 0.5), 0
""",
    ),
    KnownWrong(
        "overflow_raises_the_scale",
        fails=("update_scale/backs-off", "update_scale/grows"),
        read="handbook/precision.md#a-scale-that-finds-itself",
        explanation="""An overflow doubles the scale and success lowers it. It is the other way round: an overflow says
        that scaled gradients are too large for fp16, so the scale has to fall.""",
        change="""
+        return scale * 2.0, 0
+    if good_steps + 1 == growth_interval:
         return scale * 0.5, 0
-    if good_steps + 1 == growth_interval:
-        return scale * 2.0, 0
""",
    ),
    KnownWrong(
        "starts_over_at_65536",
        fails=("update_scale/backs-off",),
        read="handbook/precision.md#a-scale-that-finds-itself",
        explanation="""An overflow sets the scale back to where it started. If 65,536 is too large, the next step
        overflows with it again, and so does every one after that: the run stands still and its loss looks like a
        plateau.""",
        change="""
-        return scale * 0.5, 0
+        return 65536.0, 0
""",
    ),
    KnownWrong(
        "a_step_late",
        fails=("update_scale/grows",),
        read="handbook/precision.md#a-scale-that-finds-itself",
        explanation="""The count is compared before the step at hand is counted, so the scale doubles one good step too
        late. The step that completes the interval is the one that doubles it.""",
        change="""
-    if good_steps + 1 == growth_interval:
+    if good_steps == growth_interval:
""",
    ),
    KnownWrong(
        "count_kept_after_growth",
        fails=("update_scale/grows",),
        read="handbook/precision.md#a-scale-that-finds-itself",
        explanation="""After the scale has grown the count goes on instead of starting anew. With == it never grows a
        second time; with >= it doubles at every later step and overflows within a few.""",
        change="""
-        return scale * 2.0, 0
+        return scale * 2.0, good_steps + 1
""",
    ),
    KnownWrong(
        "grows_at_every_step",
        fails=("update_scale/grows",),
        read="handbook/precision.md#a-scale-that-finds-itself",
        explanation="""Once the interval is reached the scale doubles at every good step, because the count is compared
        with >= and never set back. The scale climbs until it overflows, and every few steps one is thrown away.""",
        change="""
-    if good_steps + 1 == growth_interval:
-        return scale * 2.0, 0
+    if good_steps + 1 >= growth_interval:
+        return scale * 2.0, good_steps + 1
""",
    ),
    KnownWrong(
        "interval_is_2000",
        fails=("update_scale/grows",),
        read="handbook/precision.md#a-scale-that-finds-itself",
        explanation="""2000 is written into the code and `growth_interval` is ignored. It is the default; a short run,
        or a test, asks for less.""",
        change="""
-    if good_steps + 1 == growth_interval:
+    if good_steps + 1 == 2000:
""",
    ),
    KnownWrong(
        "never_grows",
        fails=("update_scale/grows",),
        read="handbook/precision.md#a-scale-that-finds-itself",
        explanation="""The scale only ever falls. One bad batch costs a factor of 2 for the rest of the run, and after a
        few of them small gradients are lost as if there were no scaler. A scale has to find its way back up.""",
        change="""
-    if good_steps + 1 == growth_interval:
-        return scale * 2.0, 0
""",
    ),
    KnownWrong(
        "nobody_counts",
        fails=("update_scale/grows",),
        read="handbook/precision.md#a-scale-that-finds-itself",
        explanation="""A good step leaves the count where it is, so an interval is never completed and the scale never
        grows. The count that comes back has to include the step at hand.""",
        change="""
-    return scale, good_steps + 1
+    return scale, good_steps
""",
    ),
    KnownWrong(
        "count_kept_after_overflow",
        fails=("update_scale/counts-anew",),
        read="handbook/precision.md#a-scale-that-finds-itself",
        explanation="""An overflow halves the scale, but the count of good steps goes on. The scale then grows soon
        after it has just been found too large, and overflows again. The interval is one of good steps in a row.""",
        change="""
-        return scale * 0.5, 0
+        return scale * 0.5, good_steps
""",
    ),
    KnownWrong(
        "a_hundred_steps",
        fails=("update_scale/default",),
        read="handbook/precision.md#a-scale-that-finds-itself",
        explanation="""The default interval is 100. Each growth past the largest scale that works costs a skipped step.
        At 2000 that is one step in 2,000; at 100 it is one in a hundred.""",
        change="""
-def update_scale(scale: float, good_steps: int, finite: bool, growth_interval: int = 2000) -> tuple[float, int]:
+def update_scale(scale: float, good_steps: int, finite: bool, growth_interval: int = 100) -> tuple[float, int]:
""",
    ),
    KnownWrong(
        "never_divided",
        fails=("unscale/divides",),
        read="handbook/precision.md#a-scale-that-finds-itself",
        explanation="""The gradients are looked at and not divided. The optimizer gets them 65,536 times too large: SGD
        jumps, clipping cuts every step to its limit, and AdamW hides both.""",
        change="""
-            parameter.grad.div_(scale)
""",
    ),
    KnownWrong(
        "parameters_passed_twice",
        fails=("unscale/divides",),
        read="handbook/precision.md#a-scale-that-finds-itself",
        explanation="""Two loops over `parameters`: one looks, one divides. But model.parameters() is a generator and
        passes once; the second loop sees nothing, and the optimizer gets gradients that are 65,536 times too large. Do
        both in one loop, or make a list first.""",
        change="""
-    finite = True
+    finite = all(bool(one.grad.isfinite().all()) for one in parameters if one.grad is not None)
@@
-            finite = finite and bool(parameter.grad.isfinite().all())
""",
    ),
    KnownWrong(
        "scaled_once_more",
        fails=("unscale/divides",),
        read="handbook/precision.md#a-scale-that-finds-itself",
        explanation="""The gradients are multiplied by the scale a second time instead of divided. Backward has
        multiplied them already, because the loss was.""",
        change="""
-            parameter.grad.div_(scale)
+            parameter.grad.mul_(scale)
""",
    ),
    KnownWrong(
        "weights_divided",
        fails=("unscale/divides",),
        read="handbook/precision.md#a-scale-that-finds-itself",
        explanation="""The parameters are divided, not their gradients. After one step the model is gone: each weight is
        65,536 times smaller.""",
        change="""
-            parameter.grad.div_(scale)
+            parameter.data.div_(scale)
""",
    ),
    KnownWrong(
        "new_gradients",
        fails=("unscale/in-place",),
        read="handbook/precision.md#a-scale-that-finds-itself",
        explanation="""p.grad = p.grad / scale makes new tensors: for a moment there are two sets of gradients in
        memory, and whoever holds on to the old ones (DDP's buckets are such) still sees scaled numbers. div_ divides
        what is there.""",
        change="""
-            parameter.grad.div_(scale)
+            parameter.grad = parameter.grad / scale
""",
    ),
    KnownWrong(
        "any_for_all",
        fails=("unscale/finite",),
        read="handbook/precision.md#a-scale-that-finds-itself",
        explanation="""A gradient counts as finite if any of its numbers is. One inf among a million is enough to spoil
        the weights: all of them have to be finite.""",
        change="""
-            finite = finite and bool(parameter.grad.isfinite().all())
+            finite = finite and bool(parameter.grad.isfinite().any())
""",
    ),
    KnownWrong(
        "first_gradient_only",
        fails=("unscale/finite",),
        read="handbook/precision.md#a-scale-that-finds-itself",
        explanation="""Only the first gradient is looked at. That is the embedding's, where backward ends, so an
        overflow often reaches it; but one that begins in a weight's own gradient does not.""",
        change="""
-    finite = True
+    finite = None
@@
-            finite = finite and bool(parameter.grad.isfinite().all())
-    return finite
+            if finite is None:
+                finite = bool(parameter.grad.isfinite().all())
+    return finite is not False
""",
    ),
    KnownWrong(
        "last_gradient_only",
        fails=("unscale/finite",),
        read="handbook/precision.md#a-scale-that-finds-itself",
        explanation="""The verdict on each gradient overwrites the one before, so that only the last one counts. A
        verdict over all of them is an `and`.""",
        change="""
-            finite = finite and bool(parameter.grad.isfinite().all())
+            finite = bool(parameter.grad.isfinite().all())
""",
    ),
    KnownWrong(
        "nan_is_not_infinite",
        fails=("unscale/finite",),
        read="handbook/precision.md#a-scale-that-finds-itself",
        explanation="""Only inf is looked for. An overflow in the middle of backward often arrives as nan, from inf -
        inf or 0 * inf, and isinf says False to it. The update then writes nan into the weights, and no later step can
        mend them.""",
        change="""
-            finite = finite and bool(parameter.grad.isfinite().all())
+            finite = finite and not bool(parameter.grad.isinf().any())
""",
    ),
    KnownWrong(
        "only_plus_infinity",
        fails=("unscale/finite",),
        read="handbook/precision.md#a-scale-that-finds-itself",
        explanation="""The largest number of each gradient is compared with inf. That overlooks -inf, which is the
        smallest, and half of all overflows are negative.""",
        change="""
-            finite = finite and bool(parameter.grad.isfinite().all())
+            largest = float(parameter.grad.max())
+            finite = finite and largest == largest and largest != float("inf")
""",
    ),
    KnownWrong(
        "looks_at_the_norm",
        fails=("unscale/large",),
        read="handbook/precision.md#a-scale-that-finds-itself",
        explanation="""The norm of all gradients is tested. It squares the numbers, and the square of a finite number
        can be inf. Large gradients are what clipping is for; skipping is for those that are no numbers any more.""",
        definitions="""
def unscale(parameters, scale):
    gradients = [parameter.grad for parameter in parameters if parameter.grad is not None]
    for gradient in gradients:
        gradient.div_(scale)
    return bool(torch.nn.utils.get_total_norm(gradients).isfinite())
""",
    ),
    KnownWrong(
        "looks_at_the_sum",
        fails=("unscale/large",),
        read="handbook/precision.md#a-scale-that-finds-itself",
        explanation="""One sum over all gradients is tested. It does become inf or nan if any number is, but it also
        overflows by itself: finite numbers can add up to inf. Then good steps are skipped. Test the numbers, or a sum
        of zeros made of them (0 * g).""",
        change="""
-    finite = True
+    total = 0.0
@@
-            finite = finite and bool(parameter.grad.isfinite().all())
-    return finite
+            total = total + parameter.grad.sum()
+    return bool(torch.as_tensor(total).isfinite())
""",
    ),
    KnownWrong(
        "stops_at_the_first_bad",
        fails=("unscale/all",),
        read="handbook/precision.md#a-scale-that-finds-itself",
        explanation="""The function returns at the first gradient that is not finite. The ones after it keep their
        scale, and whoever logs their norms or adds up micro-batches sees two kinds of gradients. Note the verdict, and
        go on.""",
        change="""
-    finite = True
@@
-            finite = finite and bool(parameter.grad.isfinite().all())
-    return finite
+            if not parameter.grad.isfinite().all():
+                return False
+    return True
""",
    ),
    KnownWrong(
        "scaled_loss_reported",
        fails=("scaled_step/loss", "scaled_step/formats"),
        read="labs/lab-03-amp.md#mental-model",
        explanation="""The loss that is returned still has the scale on it. Curves then jump by a factor of 2 whenever
        the scale changes. Scale a copy for backward, and report the loss itself.""",
        change="""
-    (loss * scale).backward()
+    loss = loss * scale
+    loss.backward()
""",
    ),
    KnownWrong(
        "never_cleared",
        fails=("scaled_step/update",),
        read="labs/lab-03-amp.md#mental-model",
        explanation="""Nothing clears the gradients. Each backward adds scaled numbers to what is there, which has
        been unscaled already, and after the first overflow everything stays infinite. Clear before backward, as in
        Lab 02.""",
        change="""
-    optimizer.zero_grad(set_to_none=True)
""",
    ),
    KnownWrong(
        "never_scaled",
        fails=("scaled_step/update", "scaled_step/scaled"),
        read="labs/lab-03-amp.md#mental-model",
        explanation="""backward runs on the plain loss, and the gradients are divided by the scale all the same. fp16
        loses what it always lost, and the update is 65,536 times too small.""",
        change="""
-    (loss * scale).backward()
+    loss.backward()
""",
    ),
    KnownWrong(
        "never_unscales",
        fails=("scaled_step/update",),
        read="labs/lab-03-amp.md#mental-model",
        explanation="""The loss is scaled and the gradients are never divided. Clipping cuts them all to max_norm, which
        looks like a fixed-length step; without clipping SGD diverges at once.""",
        change="""
-    finite = unscale(model.parameters(), scale)
+    gradients = [one.grad for one in model.parameters() if one.grad is not None]
+    finite = all(bool(one.isfinite().all()) for one in gradients)
""",
    ),
    KnownWrong(
        "unscales_twice",
        fails=("scaled_step/update",),
        read="labs/lab-03-amp.md#mental-model",
        explanation="""The gradients are divided once by hand and once more by unscale. The update is 65,536 times too
        small. With SGD the loss stands still; with AdamW, which normalizes, it hardly shows, until weight decay
        outweighs the gradients.""",
        change="""
     (loss * scale).backward()
+    for parameter in model.parameters():
+        if parameter.grad is not None:
+            parameter.grad.div_(scale)
""",
    ),
    KnownWrong(
        "gradients_scaled_after_backward",
        fails=("scaled_step/scaled",),
        read="labs/lab-03-amp.md#mental-model",
        explanation="""The gradients are multiplied after backward and divided again. By then they have been stored in
        16 bits all the way down, and what became 0 stays 0. The scale has to go on the loss, where backward starts.""",
        change="""
-    (loss * scale).backward()
+    loss.backward()
+    for parameter in model.parameters():
+        if parameter.grad is not None:
+            parameter.grad.mul_(scale)
""",
    ),
    KnownWrong(
        "clips_scaled_gradients",
        fails=("scaled_step/clip",),
        read="labs/lab-03-amp.md#mental-model",
        explanation="""Clipping comes before unscaling, so it measures a norm that is larger by the scale. Nearly every
        gradient is then cut to max_norm and divided by 65,536 afterwards: the update nearly vanishes, and with AdamW,
        which divides by the gradient's size, nobody notices for long.""",
        change="""
     (loss * scale).backward()
+    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
@@
-        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
""",
    ),
    KnownWrong(
        "limit_is_scaled_too",
        fails=("scaled_step/clip",),
        read="labs/lab-03-amp.md#mental-model",
        explanation="""The gradients are unscaled, and the limit is multiplied by the scale all the same. One of the two
        would do: scaled gradients against a scaled limit, or true against true. Both together clip nothing.""",
        change="""
-        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
+        nn.utils.clip_grad_norm_(model.parameters(), max_norm * scale)
""",
    ),
    KnownWrong(
        "never_clips",
        fails=("scaled_step/clip",),
        read="labs/lab-03-amp.md#mental-model",
        explanation="""max_norm is not used: nothing is clipped. Unscaling comes before clipping, and does not replace
        it.""",
        change="""
-        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
""",
    ),
    KnownWrong(
        "bad_gradients_become_zero",
        fails=("scaled_step/skip",),
        read="labs/lab-03-amp.md#mental-model",
        explanation="""Gradients that are not finite are set to 0, and the step is taken. That is an update all the
        same: AdamW's averages still push, weight decay still shrinks, and the step count moves on. A skipped step
        leaves no trace.""",
        change="""
-    if finite:
-        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
-        optimizer.step()
+    if not finite:
+        for parameter in model.parameters():
+            if parameter.grad is not None:
+                parameter.grad.zero_()
+    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
+    optimizer.step()
""",
    ),
    KnownWrong(
        "updates_on_inf",
        fails=("scaled_step/skip",),
        read="labs/lab-03-amp.md#mental-model",
        explanation="""The step is taken whether or not the gradients are finite. One overflow, which a growing scale
        brings about on purpose, and the weights are nan for good. The verdict has to decide about the update.""",
        change="""
-    if finite:
-        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
-        optimizer.step()
+    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
+    optimizer.step()
""",
    ),
    KnownWrong(
        "always_fp16",
        fails=("scaled_step/formats",),
        read="labs/lab-03-amp.md#mental-model",
        explanation="""fp16 is written into the code and `low` is ignored. A run that was meant to be bf16 then has
        fp16's range, and overflows where bf16 would not.""",
        change="""
-    with torch.autocast("cpu", dtype=low):
+    with torch.autocast("cpu", dtype=torch.float16):
""",
    ),
    KnownWrong(
        "backward_under_autocast",
        fails=("scaled_step/formats",),
        read="labs/lab-03-amp.md#mental-model",
        explanation="""backward is called inside the autocast block. Each backward operation already runs in the format
        of its forward operation; with autocast on, hooks and custom backwards are cast a second time. The documentation
        advises against it. Leave the block with the loss.""",
        change="""
-    (loss * scale).backward()
+        (loss * scale).backward()
""",
    ),
    KnownWrong(
        "loss_outside_autocast",
        fails=("scaled_step/formats",),
        read="labs/lab-03-amp.md#mental-model",
        explanation="""The model runs under autocast and the loss does not. Logits leave the last matrix product in 16
        bits, and without autocast cross_entropy takes them as they are: the loss itself is rounded to 3 digits. Inside
        the block it is on the fp32 list.""",
        change="""
-        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
+        logits = model(x)
+    loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
""",
    ),
    KnownWrong(
        "no_autocast",
        fails=("scaled_step/formats",),
        read="labs/lab-03-amp.md#mental-model",
        explanation="""The loss is scaled and unscaled, but nothing runs in 16 bits: autocast is missing. Everything
        works, nothing is faster, and the scale changes no bit of any gradient.""",
        change="""
-    with torch.autocast("cpu", dtype=low):
-        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
+    loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
""",
    ),
    KnownWrong(
        "cleared_after_the_update",
        fails=("scaled_step/stale",),
        read="labs/lab-03-amp.md#mental-model",
        explanation="""The gradients are cleared after an update, so a skipped step leaves its inf behind. The next
        backward adds to it, inf plus anything is inf, and every step from then on is skipped. The run stands still
        while the scale falls to 0.""",
        change="""
-    optimizer.zero_grad(set_to_none=True)
@@
         optimizer.step()
+        optimizer.zero_grad(set_to_none=True)
""",
    ),
    KnownWrong(
        "masters_in_half",
        fails=("master_weights/copies", "master_weights/step"),
        read="handbook/precision.md#where-each-number-wants-which-format",
        explanation="""The masters are copies in the weights' own dtype. A bf16 master next to a bf16 weight stores the
        same number twice: between 1 and 2 it moves in steps of 0.0078 or not at all. What the copy is for is its 16
        further digits.""",
        change="""
-    return [nn.Parameter(parameter.detach().clone().float()) for parameter in model.parameters()]
+    return [nn.Parameter(parameter.detach().clone()) for parameter in model.parameters()]
@@
-        master.grad = None if parameter.grad is None else parameter.grad.float()
+        master.grad = None if parameter.grad is None else parameter.grad.clone()
""",
    ),
    KnownWrong(
        "masters_share_memory",
        fails=("master_weights/copies", "master_weights/model"),
        read="handbook/precision.md#where-each-number-wants-which-format",
        explanation="""parameter.detach().float() makes a copy of a 16-bit weight, but of an fp32 weight, such as a norm
        kept in fp32, it returns the very same memory. The optimizer then updates the model directly, and what looked
        like a copy is none. clone() always copies.""",
        change="""
-    return [nn.Parameter(parameter.detach().clone().float()) for parameter in model.parameters()]
+    return [nn.Parameter(parameter.detach().float()) for parameter in model.parameters()]
""",
    ),
    KnownWrong(
        "copied_the_wrong_way",
        fails=("master_weights/step",),
        read="handbook/precision.md#where-each-number-wants-which-format",
        explanation="""After the update the weights are copied into the masters. That undoes it: the old weights are
        back on both sides. The masters are what is true, the weights their rounded copy.""",
        change="""
-            parameter.copy_(master)
+            master.copy_(parameter)
""",
    ),
    KnownWrong(
        "model_becomes_fp32",
        fails=("master_weights/step",),
        read="handbook/precision.md#where-each-number-wants-which-format",
        explanation="""parameter.data = master.data makes the model fp32 after the first step, and its memory the
        masters'. Every later forward pass runs in fp32: right, slow, and twice the size. copy_ rounds into the tensor
        that is there.""",
        change="""
-            parameter.copy_(master)
+            parameter.data = master.data
""",
    ),
    KnownWrong(
        "optimizer_never_steps",
        fails=("master_weights/step",),
        read="handbook/precision.md#where-each-number-wants-which-format",
        explanation="""The gradients reach the masters and the masters reach the model, but nobody calls
        optimizer.step(): nothing moves.""",
        change="""
-    optimizer.step()
""",
    ),
    KnownWrong(
        "update_before_the_gradients",
        fails=("master_weights/step",),
        read="handbook/precision.md#where-each-number-wants-which-format",
        explanation="""The optimizer steps before the masters have received this step's gradients. The first step does
        nothing, and each later one follows the gradients of the step before.""",
        change="""
+    optimizer.step()
     for parameter, master in zip(model.parameters(), masters, strict=True):
@@
-    optimizer.step()
""",
    ),
    KnownWrong(
        "updates_the_weights_instead",
        fails=("master_weights/step",),
        read="handbook/precision.md#where-each-number-wants-which-format",
        explanation="""The masters move, and the same difference is added to the 16-bit weights, instead of the masters
        being copied into them. Each addition is rounded to 16 bits, so small updates are lost from the weights for
        good, and both drift apart.""",
        change="""
+    before = [master.detach().clone() for master in masters]
     for parameter, master in zip(model.parameters(), masters, strict=True):
@@
-        for parameter, master in zip(model.parameters(), masters, strict=True):
-            parameter.copy_(master)
+        for parameter, master, old in zip(model.parameters(), masters, before, strict=True):
+            parameter.add_((master - old).to(parameter.dtype))
""",
    ),
    KnownWrong(
        "weights_never_written",
        fails=("master_weights/step",),
        read="handbook/precision.md#where-each-number-wants-which-format",
        explanation="""The masters are updated and never copied into the model. The optimizer walks, its state looks
        healthy, and the model stays where it was.""",
        change="""
-    with torch.no_grad():
-        for parameter, master in zip(model.parameters(), masters, strict=True):
-            parameter.copy_(master)
""",
    ),
    KnownWrong(
        "masters_read_back",
        fails=("master_weights/small", "master_weights/none"),
        read="handbook/precision.md#where-each-number-wants-which-format",
        explanation="""Before each step the masters are read back from the 16-bit weights, "so that they agree". That
        throws away what the masters had saved up: updates below the weight's precision are lost again, every step.
        After the start nothing ever flows from weights to masters.""",
        change="""
     for parameter, master in zip(model.parameters(), masters, strict=True):
+        master.data.copy_(parameter.data)
""",
    ),
    KnownWrong(
        "none_becomes_zero",
        fails=("master_weights/none",),
        read="handbook/precision.md#where-each-number-wants-which-format",
        explanation="""A parameter without a gradient gives its master a gradient of zeros. Zero is not nothing: AdamW's
        averages still push, and weight decay still shrinks the weight. With None it skips the master.""",
        change="""
-        master.grad = None if parameter.grad is None else parameter.grad.float()
+        master.grad = torch.zeros_like(master) if parameter.grad is None else parameter.grad.float()
""",
    ),
    KnownWrong(
        "old_gradient_stays",
        fails=("master_weights/none",),
        read="handbook/precision.md#where-each-number-wants-which-format",
        explanation="""A parameter without a gradient is passed over, and its master keeps the gradient of the step
        before. The optimizer applies it once more, and again in every later step. Where the parameter has None the
        master must have None.""",
        change="""
-        master.grad = None if parameter.grad is None else parameter.grad.float()
+        if parameter.grad is not None:
+            master.grad = parameter.grad.float()
""",
    ),
    KnownWrong(
        "weights_in_new_memory",
        fails=("master_weights/model",),
        read="handbook/precision.md#where-each-number-wants-which-format",
        explanation="""parameter.data = master.to(...) gives each parameter new memory in every step. Whoever holds on
        to the old one (DDP's buckets, a captured CUDA graph, an optimizer's flat buffer) keeps computing with old
        weights. copy_ writes into the memory that is there.""",
        change="""
-            parameter.copy_(master)
+            parameter.data = master.detach().clone().to(parameter.dtype)
""",
    ),
)

HURRIED = {
    "share_lost": {
        "everything below 2**-24 is lost": """
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
+        lost += int(((nonzero * scale).abs() < 2.0**-24).sum())
""",
        "a half of the last number is lost": """
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
+        lost += int(((nonzero * scale).abs() < 2.0**-25).sum())
""",
        "positive gradients only": """
-        nonzero = gradient[gradient != 0]
+        nonzero = gradient[gradient > 0]
""",
        "the scale is in 16 bits": """
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
+        lost += int(((nonzero * torch.tensor(scale).to(dtype)).to(dtype) == 0).sum())
""",
        "infinite is lost too": """
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
+        lost += int(((nonzero * scale).to(dtype) == 0).sum() + (nonzero * scale).to(dtype).isinf().sum())
""",
        "a percentage": """
-    return lost / there if there else 0.0
+    return 100 * lost / there if there else 0.0
""",
        "scales the gradients themselves": """
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
+        lost += int((gradient.mul_(scale)[gradient != 0].to(dtype) == 0).sum())
""",
    },
    "cast_inputs": {
        "by way of fp16": """
-    return [one.to(target) if casts(one) else one for one in args]
+    return [one.to(torch.float16).to(target) if casts(one) else one for one in args]
""",
        "parameters are left out": """
-        return isinstance(value, Tensor) and value.is_floating_point() and value.dtype != torch.float64
+        return type(value) is Tensor and value.is_floating_point() and value.dtype != torch.float64
""",
        "masks are cast": """
-        return isinstance(value, Tensor) and value.is_floating_point() and value.dtype != torch.float64
+        return isinstance(value, Tensor) and value.dtype != torch.int64 and value.dtype != torch.float64
""",
        "a new leaf": """
-    return [one.to(target) if casts(one) else one for one in args]
+    return [one.detach().to(target).requires_grad_(one.requires_grad) if casts(one) else one for one in args]
""",
        "two 16-bit formats promote to fp32": """
-    elif policy == "fp32" or (policy == "widest" and any(casts(one) and one.dtype == torch.float32 for one in args)):
+    elif policy == "fp32" or (policy == "widest" and len({one.dtype for one in args if casts(one)}) > 1):
""",
    },
    "update_scale": {
        "the scale has an upper limit": """
-        return scale * 2.0, 0
+        return min(scale * 2.0, 2.0**60), 0
""",
        "the scale never grows at an interval of 1": """
-    if good_steps + 1 == growth_interval:
+    if good_steps and good_steps + 1 == growth_interval:
""",
        "never above 65536": """
-        return scale * 2.0, 0
+        return min(65536.0, scale * 2.0), 0
""",
        "never above 2**32": """
-        return scale * 2.0, 0
+        return min(2.0**32, scale * 2.0), 0
""",
        "never below fp16's smallest": """
-        return scale * 0.5, 0
+        return max(scale * 0.5, 2.0**-24), 0
""",
        "a tensor": """
-        return scale * 0.5, 0
+        return torch.tensor(scale * 0.5), 0
""",
        "counts in floats": """
-    return scale, good_steps + 1
+    return scale, good_steps + 1.0
""",
        "whole numbers": """
-        return scale * 0.5, 0
+        return scale // 2, 0
""",
        "overflow counts as one": """
-        return scale * 0.5, 0
+        return scale * 0.5, 1
""",
    },
    "unscale": {
        "the generator passes once": """
-    finite = True
+    finite = all(bool(one.grad.isfinite().all()) for one in parameters if one.grad is not None)
""",
        "bad gradients go": """
             finite = finite and bool(parameter.grad.isfinite().all())
+    for one in () if finite else parameters:
+        one.grad = None
""",
        "bad gradients become 0": """
             parameter.grad.div_(scale)
+            if not parameter.grad.isfinite().all():
+                finite = bool(parameter.grad.zero_().any())
""",
        "the largest is below fp16's": """
-            finite = finite and bool(parameter.grad.isfinite().all())
+            finite = finite and bool((parameter.grad.abs() <= 65504).all())
""",
        "finite in fp32": """
-            finite = finite and bool(parameter.grad.isfinite().all())
+            finite = finite and bool(parameter.grad.float().isfinite().all())
""",
        "mends nan on the way": """
-            parameter.grad.div_(scale)
+            parameter.grad.div_(scale).nan_to_num_()
""",
        "swaps the memory": """
-            parameter.grad.div_(scale)
+            parameter.grad.data = parameter.grad / scale
""",
    },
    "scaled_step": {
        "asks the loss": """
     finite = unscale(model.parameters(), scale)
+    finite = bool(loss.isfinite())
""",
        "clips each tensor": """
-        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
+        [nn.utils.clip_grad_norm_([p], max_norm) for p in model.parameters()]
""",
        "clips each number": """
-        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
+        nn.utils.clip_grad_value_(model.parameters(), max_norm)
""",
        "a 16-bit loss": """
         loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
+    loss = loss.to(low)
""",
        "scaled in 16 bits": """
-    (loss * scale).backward()
+    (loss.to(low) * scale).float().backward()
""",
        "forward in evaluation mode": """
     optimizer.zero_grad(set_to_none=True)
+    model.eval()
+    model.register_forward_hook(lambda *_: model.train() and None)
""",
        "looks at the norm for nan": """
+    finite = not nn.utils.clip_grad_norm_(model.parameters(), max_norm).isnan()
     if finite:
-        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
+        pass
""",
        "the model becomes 16-bit": """
     optimizer.zero_grad(set_to_none=True)
+    model.to(low)
""",
        "left in evaluation mode": """
         loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
+    model.eval()
""",
        "always 65536": """
-    (loss * scale).backward()
+    (loss * 65536.0).backward()
""",
        "each gradient is clipped alone": """
-        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
+        for p in model.parameters():
+            nn.utils.clip_grad_norm_([p], max_norm)
""",
    },
    "master_weights": {
        "the change is added": """
         master.grad = None if parameter.grad is None else parameter.grad.float()
+    old = [one.detach().clone() for one in masters]
@@
-        for parameter, master in zip(model.parameters(), masters, strict=True):
-            parameter.copy_(master)
+        for parameter, master in zip(model.parameters(), zip(masters, old), strict=True):
+            parameter.add_(master[0] - master[1])
""",
        "cuts digits off instead of rounding": """
-            parameter.copy_(master)
+            parameter.copy_((master.view(torch.int32) & -(2**16)).view(torch.float32))
""",
        "masters are rounded too": """
             parameter.copy_(master)
+            master.copy_(parameter)
""",
        "gradients by way of fp16": """
-        master.grad = None if parameter.grad is None else parameter.grad.float()
+        master.grad = None if parameter.grad is None else parameter.grad.half().float()
""",
        "one missing gradient skips all": """
-    optimizer.step()
+    if all(one.grad is not None for one in masters):
+        optimizer.step()
""",
    },
}
