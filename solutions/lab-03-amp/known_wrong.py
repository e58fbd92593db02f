"""Known-wrong solutions of Lab 03, and hurried answers, as changes to exercises.py."""

from rankzero.exercises.checks.known_wrong import KnownWrong

KNOWN_WRONG = (
    KnownWrong(
        "normal_numbers_only",
        fails=("share_lost/fp16",),
        read="handbook/precision.md#the-bottom-of-the-range",
        explanation="""Every number below the smallest normal number, 6.1e-5 in fp16, is counted as lost. Below it are
        the subnormal numbers, down to 2**-24: they lose digits one by one and are not 0. A number is lost if it is 0
        after it was stored.""",
        change="""
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
+        lost += int(((nonzero.double() * scale).abs() < torch.finfo(dtype).smallest_normal).sum())
""",
    ),
    KnownWrong(
        "below_the_smallest_number",
        fails=("share_lost/fp16",),
        read="handbook/precision.md#the-bottom-of-the-range",
        explanation="""Every number below the smallest 16-bit number, 2**-24 in fp16, is counted as lost. Storing rounds
        to the nearest number: above half of that smallest number it rounds up to it, not down to 0. A number is lost if
        it is 0 after it was stored.""",
        change="""
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
+        lost += int(((nonzero * scale).abs() < 2.0**-24).sum())
""",
    ),
    KnownWrong(
        "a_percentage",
        fails=("share_lost/fp16",),
        read="labs/lab-03-amp.md#share_lost",
        explanation="""The result is a percentage, 100 times the share. The share of all gradients is 1.0.""",
        change="""
-    return lost / there if there else 0.0
+    return 100 * lost / there if there else 0.0
""",
    ),
    KnownWrong(
        "positive_numbers_only",
        fails=("share_lost/fp16",),
        read="labs/lab-03-amp.md#share_lost",
        explanation="""Negative gradients are missing from the counts. Half of all gradients are negative, and become 0
        as the positive ones do.""",
        change="""
-        nonzero = gradient[gradient != 0]
+        nonzero = gradient[gradient > 0]
""",
    ),
    KnownWrong(
        "kept_share_returned",
        fails=("share_lost/fp16",),
        read="labs/lab-03-amp.md#share_lost",
        explanation="""The result is the share of the gradients that are kept: 1 minus the share that becomes 0.""",
        change="""
-    return lost / there if there else 0.0
+    return 1 - lost / there if there else 0.0
""",
    ),
    KnownWrong(
        "rounded_is_lost",
        fails=("share_lost/fp16",),
        read="handbook/precision.md#the-bottom-of-the-range",
        explanation="""Every number that storing changes is counted as lost. Nearly every number is rounded when it is
        stored in 16 bits; lost are those that are 0 afterwards.""",
        change="""
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
+        lost += int(((nonzero * scale).to(dtype).to(nonzero.dtype) != nonzero * scale).sum())
""",
    ),
    KnownWrong(
        "zeros_below_the_line",
        fails=("share_lost/zeros",),
        read="handbook/precision.md#the-bottom-of-the-range",
        explanation="""Numbers that are 0 before are not counted as lost, but they are counted in the total, so the
        share is too small. The more rows of the embedding the batch leaves out, the better the format seems to be.""",
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
        explanation="""Numbers that are 0 before are counted, both as lost and in the total. An embedding has a row of
        zeros for every token that is not in the batch, so this share depends on the vocabulary more than on the
        format.""",
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
        explanation="""The result is the mean of the tensors' shares. A norm of 128 numbers then counts as much as a
        matrix of 65,536. The share of all numbers is one count divided by another count, over all tensors.""",
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
        explanation="""The share is that of fp16, whatever `dtype` says. bf16 has fp32's exponent and loses hardly
        anything that fp32 holds; that is the whole reason why it needs no loss scale.""",
        change="""
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
+        lost += int(((nonzero * scale).half() == 0).sum())
""",
    ),
    KnownWrong(
        "scaled_after_it_was_stored",
        fails=("share_lost/scale",),
        read="handbook/precision.md#the-bottom-of-the-range",
        explanation="""The scale acts on numbers that have been stored in 16 bits already. A number that became 0 stays
        0 under any scale. That is why a scaler multiplies the loss, before backward, and not the gradients, after
        it.""",
        change="""
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
+        lost += int((nonzero.to(dtype) * scale == 0).sum())
""",
    ),
    KnownWrong(
        "computed_in_fp32",
        fails=("share_lost/scale",),
        read="handbook/precision.md#the-bottom-of-the-range",
        explanation="""fp64 gradients are rounded to fp32 before they are scaled. fp32 ends at 1.4e-45: a smaller fp64
        gradient becomes 0 there, although the scale would have brought it into the 16-bit format's range. Multiply each
        gradient in its own dtype, and store the product.""",
        change="""
-        nonzero = gradient[gradient != 0]
+        nonzero = gradient[gradient != 0].float()
""",
    ),
    KnownWrong(
        "infinite_is_lost_too",
        fails=("share_lost/scale",),
        read="handbook/precision.md#the-bottom-of-the-range",
        explanation="""Numbers that become infinite are counted as lost. Those are overflows, at the top of the format's
        range, and a scaler notices them. The share is that of the numbers that become 0, which nothing notices.""",
        change="""
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
+        lost += int(((nonzero * scale).to(dtype) == 0).sum() + (nonzero * scale).to(dtype).isinf().sum())
""",
    ),
    KnownWrong(
        "unscaled_before_the_test",
        fails=("share_lost/scale",),
        read="handbook/precision.md#the-bottom-of-the-range",
        explanation="""The stored numbers are divided by the scale, in 16 bits, before they are compared with 0. That
        division loses what the scale has saved. A scaler divides in fp32, where these numbers are not lost.""",
        change="""
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
+        lost += int(((nonzero * scale).to(dtype) / scale == 0).sum())
""",
    ),
    KnownWrong(
        "close_to_zero_is_lost",
        fails=("share_lost/scale",),
        read="handbook/precision.md#the-bottom-of-the-range",
        explanation="""Numbers close to 0 are counted as lost. torch.isclose and allclose accept a difference of 1e-8,
        far above the smallest numbers of bf16, 9.2e-41. A number is lost if it is 0 exactly.""",
        change="""
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
+        lost += int(torch.isclose((nonzero * scale).to(dtype), torch.zeros((), dtype=dtype)).sum())
""",
    ),
    KnownWrong(
        "scale_ignored",
        fails=("share_lost/scale",),
        read="handbook/precision.md#the-bottom-of-the-range",
        explanation="""The share is the same for every scale: nothing multiplies the gradients before they are stored.
        The scale is what brings them into the format's range.""",
        change="""
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
+        lost += int((nonzero.to(dtype) == 0).sum())
""",
    ),
    KnownWrong(
        "scale_divides",
        fails=("share_lost/scale",),
        read="handbook/precision.md#the-bottom-of-the-range",
        explanation="""The gradients are divided by the scale, so a larger scale loses more of them. A loss scale
        multiplies: it lifts small gradients into the format's range.""",
        change="""
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
+        lost += int(((nonzero / scale).to(dtype) == 0).sum())
""",
    ),
    KnownWrong(
        "bf16_for_everyone",
        fails=("cast_inputs/lower",),
        read="handbook/precision.md#which-operation-runs-in-which-format",
        explanation="""The casts go to bf16, whatever `low` says. With low=torch.float16 the numbers get 7 bits of
        fraction instead of 10, and on a GPU without bf16 units a crawl instead of a speed-up.""",
        change="""
-        target = low
+        target = torch.bfloat16
""",
    ),
    KnownWrong(
        "weights_stay_fp32",
        fails=("cast_inputs/lower",),
        read="handbook/precision.md#which-operation-runs-in-which-format",
        explanation="""Of an operation with the policy "lower" only the first argument is cast. Under autocast the
        *stored* weights stay fp32, but the matrix product gets 16-bit copies of all its floating-point arguments, or it
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
        explanation=""""fp32" leaves 16-bit arguments as they are. But a matrix product before has left its result in 16
        bits: the logits of a cross-entropy arrive in bf16. "fp32" is a cast too, back up.""",
        change="""
-    elif policy == "fp32" or (policy == "widest" and any(casts(one) and one.dtype == torch.float32 for one in args)):
+    elif policy == "widest" and any(casts(one) and one.dtype == torch.float32 for one in args):
""",
    ),
    KnownWrong(
        "widest_is_always_fp32",
        fails=("cast_inputs/widest",),
        read="handbook/precision.md#which-operation-runs-in-which-format",
        explanation=""""widest" casts to fp32 also where no argument is fp32. If all arguments are 16-bit they stay as
        they are: nothing would become more exact, and twice the memory would be kept for backward.""",
        change="""
-    elif policy == "fp32" or (policy == "widest" and any(casts(one) and one.dtype == torch.float32 for one in args)):
+    elif policy == "fp32" or (policy == "widest" and True):
""",
    ),
    KnownWrong(
        "widest_is_lowest",
        fails=("cast_inputs/widest",),
        read="handbook/precision.md#which-operation-runs-in-which-format",
        explanation=""""widest" casts fp32 arguments down to `low`. It is the other way round: these operations add or
        join tensors, gain no speed from 16 bits, and would lose 16 of the fp32 tensor's 24 digits.""",
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
        explanation="""For "widest" the first argument decides. With a 16-bit tensor in front, an fp32 residual stream
        would be left or rounded to 16 bits in one addition. One fp32 argument at any place is enough to cast all of
        them to fp32.""",
        change="""
-    elif policy == "fp32" or (policy == "widest" and any(casts(one) and one.dtype == torch.float32 for one in args)):
+    elif policy == "fp32" or (policy == "widest" and args[0].dtype == torch.float32):
""",
    ),
    KnownWrong(
        "widest_takes_the_first_dtype",
        fails=("cast_inputs/widest",),
        read="handbook/precision.md#which-operation-runs-in-which-format",
        explanation="""For "widest" all arguments get the dtype of the first one. With a 16-bit tensor in front, fp32
        arguments lose 13 bits or more of their 24. One fp32 argument at any place is enough to cast all of them to
        fp32.""",
        change="""
-    elif policy == "fp32" or (policy == "widest" and any(casts(one) and one.dtype == torch.float32 for one in args)):
+    elif policy == "widest" and any(map(casts, args)):
+        target = next(one.dtype for one in args if casts(one))
+    elif policy == "fp32":
""",
    ),
    KnownWrong(
        "mixed_16_bit_is_widened",
        fails=("cast_inputs/widest",),
        read="handbook/precision.md#which-operation-runs-in-which-format",
        explanation="""For "widest" a bf16 and an fp16 argument become fp32, although no argument is fp32. torch's own
        type promotion does that; this policy asks for one fp32 argument. Without it the arguments stay as they are.""",
        change="""
-    elif policy == "fp32" or (policy == "widest" and any(casts(one) and one.dtype == torch.float32 for one in args)):
+    elif policy == "fp32" or (policy == "widest" and len({one.dtype for one in args if casts(one)}) > 1):
""",
    ),
    KnownWrong(
        "float64_cast",
        fails=("cast_inputs/others",),
        read="handbook/precision.md#which-operation-runs-in-which-format",
        explanation="""A tensor in float64 is cast. Autocast leaves it alone: a program that computes in 64 bits does so
        on purpose, and a gradient check in float64 would be ruined without an error.""",
        change="""
-        return isinstance(value, Tensor) and value.is_floating_point() and value.dtype != torch.float64
+        return isinstance(value, Tensor) and value.is_floating_point()
""",
    ),
    KnownWrong(
        "integers_cast",
        fails=("cast_inputs/others", "cast_inputs/gpt"),
        read="handbook/precision.md#which-operation-runs-in-which-format",
        explanation="""Integer or bool tensors, such as token ids and masks, are cast. An embedding or a loss needs
        integers and refuses; worse, bf16 cannot tell token 257 from token 256. Only floating-point tensors have a
        format to choose.""",
        change="""
-        return isinstance(value, Tensor) and value.is_floating_point() and value.dtype != torch.float64
+        return isinstance(value, Tensor)
""",
    ),
    KnownWrong(
        "graph_cut",
        fails=("cast_inputs/gradients",),
        read="handbook/precision.md#which-operation-runs-in-which-format",
        explanation="""The tensors that come back have no graph, so no gradient flows back through the cast: the weights
        get none, and the optimizer skips them without an error. A cast is an operation like any other, and its backward
        casts the gradient back.""",
        change="""
-    return [one.to(target) if casts(one) else one for one in args]
+    return [one.detach().to(target) if casts(one) else one for one in args]
""",
    ),
    KnownWrong(
        "never_below_one",
        fails=("update_scale/backs-off",),
        read="handbook/precision.md#the-search-for-the-scale",
        explanation="""The scale stops falling at 1. A model whose gradients are too large even without a scale would
        overflow at every step from then on, and never update again. Below 1 the scale makes them smaller, which is then
        what they need.""",
        change="""
-        return scale * 0.5 if overflows >= hysteresis else scale, 0, overflows
+        return max(1.0, scale * 0.5) if overflows >= hysteresis else scale, 0, overflows
""",
    ),
    KnownWrong(
        "overflow_raises_the_scale",
        fails=("update_scale/backs-off", "update_scale/grows"),
        read="handbook/precision.md#the-search-for-the-scale",
        explanation="""An overflow doubles the scale and success halves it. It is the other way round: an overflow says
        that the scaled gradients are too large for fp16, so the scale has to fall.""",
        change="""
-        return scale * 0.5 if overflows >= hysteresis else scale, 0, overflows
+        return scale * 2.0 if overflows >= hysteresis else scale, 0, overflows
@@
-        return scale * 2.0, 0, 0
+        return scale * 0.5, 0, 0
""",
    ),
    KnownWrong(
        "starts_over_at_65536",
        fails=("update_scale/backs-off",),
        read="handbook/precision.md#the-search-for-the-scale",
        explanation="""An overflow sets the scale to 65,536. If that is too large, the next step overflows again, and so
        does every step after it: the run stands still and its loss looks like a plateau. Each overflow has to halve the
        scale that was too large.""",
        change="""
-        return scale * 0.5 if overflows >= hysteresis else scale, 0, overflows
+        return 65536.0 if overflows >= hysteresis else scale, 0, overflows
""",
    ),
    KnownWrong(
        "one_overflow_too_many",
        fails=("update_scale/backs-off",),
        read="labs/lab-03-amp.md#update_scale",
        explanation="""The scale falls one overflow too late. The overflow at hand counts: with hysteresis=1 the first
        overflow halves the scale, with hysteresis=2 the second one.""",
        change="""
-        return scale * 0.5 if overflows >= hysteresis else scale, 0, overflows
+        return scale * 0.5 if overflows > hysteresis else scale, 0, overflows
""",
    ),
    KnownWrong(
        "whole_numbers_only",
        fails=("update_scale/backs-off",),
        read="handbook/precision.md#the-search-for-the-scale",
        explanation="""The scale is halved in whole numbers, as // 2 does, so half of 1 is 0. A scale of 0 makes every
        gradient 0 for good. The scale has no limit on either side: below 1 it goes on with 0.5.""",
        change="""
-        return scale * 0.5 if overflows >= hysteresis else scale, 0, overflows
+        return scale // 2 if overflows >= hysteresis else scale, 0, overflows
""",
    ),
    KnownWrong(
        "only_one_overflow_halves",
        fails=("update_scale/backs-off",),
        read="labs/lab-03-amp.md#update_scale",
        explanation="""Only the overflow number `hysteresis` since the last growth halves the scale; those after it do
        not. A scale that is 4 times too large then never falls far enough. Each overflow from that number on halves
        it.""",
        change="""
-        return scale * 0.5 if overflows >= hysteresis else scale, 0, overflows
+        return scale * 0.5 if overflows == hysteresis else scale, 0, overflows
""",
    ),
    KnownWrong(
        "finite_read_the_wrong_way",
        fails=("update_scale/backs-off", "update_scale/grows"),
        read="labs/lab-03-amp.md#update_scale",
        explanation="""Good steps are treated as overflows and overflows as good steps. `finite` is True where all
        gradients are finite, which is a good step.""",
        change="""
-    if not finite:
+    if finite:
""",
    ),
    KnownWrong(
        "a_step_late",
        fails=("update_scale/grows",),
        read="handbook/precision.md#the-search-for-the-scale",
        explanation="""The scale doubles one good step too late. The step that completes the interval is the step that
        doubles it: of `growth_interval` good steps in a row, the last.""",
        change="""
-    if good_steps + 1 == growth_interval:
+    if good_steps == growth_interval:
""",
    ),
    KnownWrong(
        "count_kept_after_growth",
        fails=("update_scale/grows",),
        read="handbook/precision.md#the-search-for-the-scale",
        explanation="""After the scale has grown, the count of good steps goes on instead of starting at 0, and the
        scale does not grow a second time. Each growth has to be followed by a new interval.""",
        change="""
-        return scale * 2.0, 0, 0
+        return scale * 2.0, good_steps + 1, 0
""",
    ),
    KnownWrong(
        "grows_at_every_step",
        fails=("update_scale/grows",),
        read="handbook/precision.md#the-search-for-the-scale",
        explanation="""Once the first interval is complete, the scale doubles at every good step. It climbs until it
        overflows, and every few steps one is thrown away. Each growth has to set the count of good steps to 0.""",
        change="""
-    if good_steps + 1 == growth_interval:
-        return scale * 2.0, 0, 0
+    if good_steps + 1 >= growth_interval:
+        return scale * 2.0, good_steps + 1, 0
""",
    ),
    KnownWrong(
        "interval_is_2000",
        fails=("update_scale/grows",),
        read="handbook/precision.md#the-search-for-the-scale",
        explanation="""The scale does not grow where `growth_interval` is less than 2000. 2000 is the default; a short
        run, or a test, asks for less.""",
        change="""
-    if good_steps + 1 == growth_interval:
+    if good_steps + 1 == 2000:
""",
    ),
    KnownWrong(
        "never_grows",
        fails=("update_scale/grows",),
        read="handbook/precision.md#the-search-for-the-scale",
        explanation="""The scale never grows, although good steps are counted. One bad batch costs a factor of 2 for the
        rest of the run, and after a few of them small gradients are lost as if there were no scale.""",
        change="""
-    if good_steps + 1 == growth_interval:
-        return scale * 2.0, 0, 0
""",
    ),
    KnownWrong(
        "nobody_counts",
        fails=("update_scale/grows",),
        read="handbook/precision.md#the-search-for-the-scale",
        explanation="""A good step leaves the count where it is, so an interval is never completed and the scale never
        grows. The count that comes back has to include the step at hand.""",
        change="""
-    return scale, good_steps + 1, overflows
+    return scale, good_steps, overflows
""",
    ),
    KnownWrong(
        "counts_swapped",
        fails=("update_scale/grows",),
        read="labs/lab-03-amp.md#update_scale",
        explanation="""The two counts come back in the wrong order. The caller takes the second of the three values for
        the good steps and the third for the overflows: (scale, good_steps, overflows).""",
        change="""
-        return scale * 0.5 if overflows >= hysteresis else scale, 0, overflows
+        return scale * 0.5 if overflows >= hysteresis else scale, overflows, 0
@@
-    return scale, good_steps + 1, overflows
+    return scale, overflows, good_steps + 1
""",
    ),
    KnownWrong(
        "count_starts_at_one",
        fails=("update_scale/grows",),
        read="labs/lab-03-amp.md#update_scale",
        explanation="""After a growth the count of good steps starts at 1, so each later growth comes one step too
        early. The step that completes an interval belongs to that interval, not to the next one.""",
        change="""
-        return scale * 2.0, 0, 0
+        return scale * 2.0, 1, 0
""",
    ),
    KnownWrong(
        "count_kept_after_overflow",
        fails=("update_scale/counts-anew",),
        read="handbook/precision.md#the-search-for-the-scale",
        explanation="""After an overflow the count of good steps goes on. The scale then grows soon after it has just
        been found too large, and overflows again. The interval is one of good steps in a row.""",
        change="""
-        return scale * 0.5 if overflows >= hysteresis else scale, 0, overflows
+        return scale * 0.5 if overflows >= hysteresis else scale, good_steps, overflows
""",
    ),
    KnownWrong(
        "every_overflow_halves",
        fails=("update_scale/hysteresis",),
        read="labs/lab-03-amp.md#update_scale",
        explanation="""Each overflow halves the scale, whatever `hysteresis` says. With hysteresis=2 the first overflow
        since the last growth costs a step and leaves the scale as it is; only from the second one on does the scale
        fall.""",
        change="""
-        return scale * 0.5 if overflows >= hysteresis else scale, 0, overflows
+        return scale * 0.5, 0, overflows
""",
    ),
    KnownWrong(
        "overflows_in_a_row",
        fails=("update_scale/hysteresis",),
        read="labs/lab-03-amp.md#update_scale",
        explanation="""A good step sets the count of overflows to 0, so only overflows in a row are counted. A scale
        that is twice too large for every fifth batch would then never fall. Overflows are counted since the scale last
        grew, whatever good steps come between.""",
        change="""
-    return scale, good_steps + 1, overflows
+    return scale, good_steps + 1, 0
""",
    ),
    KnownWrong(
        "overflows_counted_anew",
        fails=("update_scale/hysteresis",),
        read="labs/lab-03-amp.md#update_scale",
        explanation="""Once the scale has been halved, the next overflow is tolerated again, as if the count of
        overflows had been reset. Only a growth of the scale resets it: until then each further overflow halves the
        scale.""",
        change="""
-        return scale * 0.5 if overflows >= hysteresis else scale, 0, overflows
+        return (scale * 0.5, 0, 0) if overflows >= hysteresis else (scale, 0, overflows)
""",
    ),
    KnownWrong(
        "overflows_never_forgotten",
        fails=("update_scale/hysteresis",),
        read="labs/lab-03-amp.md#update_scale",
        explanation="""Overflows from before the last growth still count after it. Late in a run every single overflow
        then halves the scale, as with hysteresis=1. A growth sets both counts to 0.""",
        change="""
-        return scale * 2.0, 0, 0
+        return scale * 2.0, 0, overflows
""",
    ),
    KnownWrong(
        "borne_overflow_keeps_the_row",
        fails=("update_scale/hysteresis",),
        read="labs/lab-03-amp.md#update_scale",
        explanation="""An overflow that leaves the scale as it is does not end the row of good steps. The scale then
        grows though its last `growth_interval` steps were not all good. Every overflow sets the count of good steps to
        0.""",
        change="""
-        return scale * 0.5 if overflows >= hysteresis else scale, 0, overflows
+        return (scale * 0.5, 0, overflows) if overflows >= hysteresis else (scale, good_steps, overflows)
""",
    ),
    KnownWrong(
        "a_hundred_steps",
        fails=("update_scale/default",),
        read="handbook/precision.md#the-search-for-the-scale",
        explanation="""Without `growth_interval` the scale grows before 2000 good steps are over. Each growth past the
        largest scale that works costs a skipped step. At 2000 that is one step in 2,000; at 100 it is one in a
        hundred.""",
        change="""
-    scale: float, good_steps: int, overflows: int, finite: bool, growth_interval: int = 2000, hysteresis: int = 1
+    scale: float, good_steps: int, overflows: int, finite: bool, growth_interval: int = 100, hysteresis: int = 1
""",
    ),
    KnownWrong(
        "never_divided",
        fails=("unscale/divides",),
        read="handbook/precision.md#the-search-for-the-scale",
        explanation="""The gradients are what they were: nothing divides them, or only a copy. The optimizer gets them
        65,536 times too large: SGD jumps, clipping cuts every step to its limit, and AdamW hides both. One common
        cause: model.parameters() is a generator, and a second loop over it finds nothing.""",
        change="""
-            parameter.grad.div_(scale)
""",
    ),
    KnownWrong(
        "scaled_once_more",
        fails=("unscale/divides", "unscale/large"),
        read="handbook/precision.md#the-search-for-the-scale",
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
        read="handbook/precision.md#the-search-for-the-scale",
        explanation="""The parameters change, not their gradients alone. After one step the model is gone: each weight
        is 65,536 times smaller.""",
        change="""
-            parameter.grad.div_(scale)
+            parameter.data.div_(scale)
""",
    ),
    KnownWrong(
        "a_bool_comes_back",
        fails=("unscale/divides", "unscale/finite", "unscale/large"),
        read="labs/lab-03-amp.md#unscale",
        explanation="""The function returns one bool for all gradients, as in the starter. Here the positions are asked
        for: a run that overflows again and again is diagnosed by the name of the layer in which it begins.""",
        change="""
-    return not_finite
+    return not not_finite
""",
    ),
    KnownWrong(
        "new_gradients",
        fails=("unscale/in-place",),
        read="handbook/precision.md#the-search-for-the-scale",
        explanation="""The divided gradients are new tensors, or lie in new memory: for a moment there are two sets of
        gradients, and code that refers to the old tensors (DDP's buckets do) still sees scaled numbers. div_ divides
        what is there.""",
        change="""
-            parameter.grad.div_(scale)
+            parameter.grad = parameter.grad / scale
""",
    ),
    KnownWrong(
        "any_for_all",
        fails=("unscale/finite",),
        read="handbook/precision.md#the-search-for-the-scale",
        explanation="""A gradient counts as finite if any of its numbers is. One inf among a million is enough to spoil
        the weights: all of them have to be finite.""",
        change="""
-        if not parameter.grad.isfinite().all():
+        if not parameter.grad.isfinite().any():
""",
    ),
    KnownWrong(
        "first_gradient_only",
        fails=("unscale/finite", "unscale/large"),
        read="handbook/precision.md#the-search-for-the-scale",
        explanation="""Only the first gradient that is not finite is reported. The others are missing from the list, so
        the list cannot say whether one layer overflows or all of them.""",
        change="""
-    return not_finite
+    return not_finite[:1]
""",
    ),
    KnownWrong(
        "stops_at_the_first_bad",
        fails=("unscale/finite", "unscale/large", "unscale/all"),
        read="handbook/precision.md#the-search-for-the-scale",
        explanation="""Nothing happens after the first gradient that is not finite. The gradients after it keep their
        scale, and code that logs their norms or adds up micro-batches sees two kinds of gradients. Note the position,
        and go on.""",
        change="""
             not_finite.append(position)
+            break
""",
    ),
    KnownWrong(
        "nan_is_not_infinite",
        fails=("unscale/finite",),
        read="handbook/precision.md#the-search-for-the-scale",
        explanation="""inf is found, nan is not. An overflow in the middle of backward often arrives as nan, from inf -
        inf or 0 * inf. The update then writes nan into the weights, and no later step can repair them.""",
        change="""
-        if not parameter.grad.isfinite().all():
+        if parameter.grad.isinf().any():
""",
    ),
    KnownWrong(
        "only_plus_infinity",
        fails=("unscale/finite",),
        read="handbook/precision.md#the-search-for-the-scale",
        explanation="""-inf is not found. Half of all overflows are negative, and the largest number of a gradient says
        nothing about its smallest.""",
        change="""
-        if not parameter.grad.isfinite().all():
+        if (parameter.grad.isnan() | (parameter.grad == torch.inf)).any():
""",
    ),
    KnownWrong(
        "positions_without_none",
        fails=("unscale/finite",),
        read="labs/lab-03-amp.md#unscale",
        explanation="""Parameters without a gradient are not counted, so each position after such a parameter is too
        small, and is that of another parameter. Positions are those in `parameters`.""",
        change="""
-    for position, parameter in enumerate(parameters):
+    for position, parameter in enumerate(one for one in parameters if one.grad is not None):
""",
    ),
    KnownWrong(
        "second_loop_finds_nothing",
        fails=("unscale/finite", "unscale/large"),
        read="labs/lab-03-amp.md#unscale",
        explanation="""Where `parameters` is a generator, the answer is always []. A generator can be read once: after a
        first loop that divides, a second loop that looks for bad numbers finds no parameters. Make a list of it first,
        or do both in one loop.""",
        definitions="""
def unscale(parameters, scale):
    divided = set()
    for parameter in parameters:
        if parameter.grad is not None and id(parameter) not in divided:
            divided.add(id(parameter))
            parameter.grad.div_(scale)
    return [i for i, p in enumerate(parameters) if p.grad is not None and not p.grad.isfinite().all()]
""",
    ),
    KnownWrong(
        "looks_at_the_norm",
        fails=("unscale/large",),
        read="handbook/precision.md#the-search-for-the-scale",
        explanation="""Large finite gradients are reported as not finite: their norms, or their squares, are inf. Large
        gradients are what clipping is for; skipping is for numbers that are inf or nan themselves.""",
        change="""
-        if not parameter.grad.isfinite().all():
+        if not parameter.grad.norm().isfinite():
""",
    ),
    KnownWrong(
        "looks_at_the_sum",
        fails=("unscale/large",),
        read="handbook/precision.md#the-search-for-the-scale",
        explanation="""Some large finite gradients are reported as not finite: their sum is inf. A sum does become inf
        or nan if any number is, but finite numbers can add up to inf as well. Then good steps are skipped. Test the
        numbers, or a sum of zeros made of them (0 * g).""",
        change="""
-        if not parameter.grad.isfinite().all():
+        if not parameter.grad.sum().isfinite():
""",
    ),
    KnownWrong(
        "bad_gradients_undivided",
        fails=("unscale/all",),
        read="handbook/precision.md#the-search-for-the-scale",
        explanation="""A gradient with a number that is not finite keeps its scale; only the finite gradients are
        divided. Code that logs the norms after a skipped step then sees two kinds of gradients. Divide first, and look
        afterwards.""",
        change="""
-        if id(parameter) not in divided:
+        if id(parameter) not in divided and parameter.grad.isfinite().all():
""",
    ),
    KnownWrong(
        "divided_each_time",
        fails=("unscale/once",),
        read="labs/lab-03-amp.md#unscale",
        explanation="""A parameter that occurs twice has its gradient divided twice. The tied weight, often the largest
        matrix of the model, then gets an update that is 65,536 times too small. Remember by id() which parameters have
        been divided.""",
        change="""
-        if id(parameter) not in divided:
-            divided.add(id(parameter))
-            parameter.grad.div_(scale)
+        parameter.grad.div_(scale)
""",
    ),
    KnownWrong(
        "listed_once",
        fails=("unscale/once",),
        read="labs/lab-03-amp.md#unscale",
        explanation="""A parameter that occurs twice is reported at its first position only. Each position whose
        gradient is not finite is asked for; only the division must not happen twice.""",
        change="""
-        if id(parameter) not in divided:
-            divided.add(id(parameter))
-            parameter.grad.div_(scale)
+        if id(parameter) in divided:
+            continue
+        divided.add(id(parameter))
+        parameter.grad.div_(scale)
""",
    ),
    KnownWrong(
        "scaled_loss_reported",
        fails=("scaled_step/loss", "scaled_step/formats"),
        read="labs/lab-03-amp.md#mental-model",
        explanation="""The loss that is returned still has the scale on it. Curves then jump by a factor of 2 whenever
        the scale changes. Scale a copy for backward, and report the loss itself.""",
        change="""
-        total += loss.item()
+        total += loss.item() * scale
""",
    ),
    KnownWrong(
        "last_loss_reported",
        fails=("scaled_step/loss", "scaled_step/formats"),
        read="handbook/precision.md#the-search-for-the-scale",
        explanation="""The function returns the loss of the last micro-batch. Logged, it is the loss of a smaller batch
        than the update follows. The mean over all micro-batches belongs to the update.""",
        change="""
-    return total / len(micro_batches), updated
+    return loss.item(), updated
""",
    ),
    KnownWrong(
        "updates_every_micro_batch",
        fails=("scaled_step/loss", "scaled_step/update", "scaled_step/scaled", "scaled_step/formats"),
        read="handbook/precision.md#the-search-for-the-scale",
        explanation="""Every micro-batch gets an update of its own. That is training with small batches, and several
        times as many updates as the schedule counts. The gradients of all micro-batches add up first; then comes one
        update.""",
        change="""
     for x, y in micro_batches:
+        optimizer.zero_grad()
@@
-        (loss * scale / len(micro_batches)).backward()
+        (loss * scale).backward()
@@
-    updated = not unscale(model.parameters(), scale)
-    if updated:
-        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
-        optimizer.step()
+        updated = not unscale(model.parameters(), scale)
+        if updated:
+            nn.utils.clip_grad_norm_(model.parameters(), max_norm)
+            optimizer.step()
""",
    ),
    KnownWrong(
        "losses_added_up",
        fails=("scaled_step/loss", "scaled_step/formats"),
        read="labs/lab-03-amp.md#scaled_step",
        explanation="""The loss that comes back is the sum over the micro-batches, not their mean: it is too large by
        their number. The update is right, and the curve depends on how the batch was cut.""",
        change="""
-    return total / len(micro_batches), updated
+    return total, updated
""",
    ),
    KnownWrong(
        "never_cleared",
        fails=("scaled_step/update",),
        read="labs/lab-03-amp.md#mental-model",
        explanation="""Old gradients are not cleared. Each backward adds scaled numbers to gradients that have been
        unscaled already, and after the first overflow everything stays infinite. Clear before the first backward.""",
        change="""
-    optimizer.zero_grad(set_to_none=True)
""",
    ),
    KnownWrong(
        "cleared_every_micro_batch",
        fails=("scaled_step/update", "scaled_step/skip"),
        read="handbook/backpropagation.md#pgrad-adds-it-does-not-replace",
        explanation="""The gradients of earlier micro-batches are gone when the update comes: it follows the last
        micro-batch alone, divided by their number. Clear once, before the first backward; from then on backward
        adds.""",
        change="""
     for x, y in micro_batches:
+        optimizer.zero_grad()
""",
    ),
    KnownWrong(
        "updates_follow_the_sum",
        fails=("scaled_step/update", "scaled_step/scaled"),
        read="handbook/precision.md#the-search-for-the-scale",
        explanation="""The losses of the micro-batches are not divided by their number. The gradient is that of the sum,
        as many times too large as there are micro-batches: SGD steps too far, clipping acts too early, and fp16
        overflows at a smaller scale.""",
        change="""
-        (loss * scale / len(micro_batches)).backward()
+        (loss * scale).backward()
""",
    ),
    KnownWrong(
        "never_scaled",
        fails=("scaled_step/update", "scaled_step/scaled", "scaled_step/skip"),
        read="labs/lab-03-amp.md#mental-model",
        explanation="""backward runs on the plain loss, and the gradients are divided by the scale all the same. fp16
        loses what it always lost, and the update is too small by the scale.""",
        change="""
-        (loss * scale / len(micro_batches)).backward()
+        (loss / len(micro_batches)).backward()
""",
    ),
    KnownWrong(
        "never_unscales",
        fails=("scaled_step/update",),
        read="labs/lab-03-amp.md#mental-model",
        explanation="""The gradients still carry the scale when the optimizer reads them. Clipping cuts them all to
        max_norm, which looks like a step of fixed length; without clipping SGD diverges at once.""",
        change="""
-    updated = not unscale(model.parameters(), scale)
+    gradients = [one.grad for one in model.parameters() if one.grad is not None]
+    updated = all(bool(one.isfinite().all()) for one in gradients)
""",
    ),
    KnownWrong(
        "unscaled_every_micro_batch",
        fails=("scaled_step/update",),
        read="handbook/precision.md#the-search-for-the-scale",
        explanation="""The gradients are divided after each backward, so the next micro-batch adds scaled numbers to
        numbers without a scale, and the earlier ones are divided again. Only the last micro-batch's gradient counts in
        full. Gradients that add up keep the scale; divide once, after the last backward.""",
        change="""
     optimizer.zero_grad(set_to_none=True)
+    bad = []
@@
-        (loss * scale / len(micro_batches)).backward()
+        (loss * scale / len(micro_batches)).backward()
+        bad += unscale(model.parameters(), scale)
@@
-    updated = not unscale(model.parameters(), scale)
+    updated = not bad
""",
    ),
    KnownWrong(
        "unscales_twice",
        fails=("scaled_step/update",),
        read="handbook/precision.md#the-search-for-the-scale",
        explanation="""The gradients are divided by the scale twice, so the update is too small by the scale. With SGD
        the loss stands still; with AdamW, which divides by the gradient's size, it hardly shows, until weight decay
        outweighs the gradients.""",
        change="""
-    updated = not unscale(model.parameters(), scale)
+    updated = not unscale(model.parameters(), scale) + unscale(model.parameters(), scale)
""",
    ),
    KnownWrong(
        "one_backward_for_all",
        fails=("scaled_step/scaled", "scaled_step/skip"),
        read="handbook/gradient-mechanics.md#accumulation-saves-activations-only",
        explanation="""All forward passes come before the first backward. The gradient is right, but the activations of
        every micro-batch wait for it, so this takes as much memory as one large batch. Run backward for each
        micro-batch before the next forward.""",
        change="""
-        (loss * scale / len(micro_batches)).backward()
-        total += loss.item()
+        total = total + loss
+    (total * scale / len(micro_batches)).backward()
+    total = total.item()
""",
    ),
    KnownWrong(
        "gradients_scaled_after_backward",
        fails=("scaled_step/scaled", "scaled_step/skip"),
        read="labs/lab-03-amp.md#mental-model",
        explanation="""backward starts from the plain loss, and the gradients are multiplied by the scale after it. By
        then they have been stored in 16 bits all the way down, and what became 0 stays 0. The scale has to go on the
        loss, where backward starts.""",
        change="""
-        (loss * scale / len(micro_batches)).backward()
+        (loss / len(micro_batches)).backward()
@@
-    updated = not unscale(model.parameters(), scale)
+    for parameter in model.parameters():
+        if parameter.grad is not None:
+            parameter.grad.mul_(scale)
+    updated = not unscale(model.parameters(), scale)
""",
    ),
    KnownWrong(
        "one_large_batch",
        fails=("scaled_step/scaled", "scaled_step/skip", "scaled_step/formats", "scaled_step/mode"),
        read="labs/lab-03-amp.md#scaled_step",
        explanation="""All micro-batches go through the model as one batch. Loss and gradient are right, but the
        activations of the whole batch are there at once, which the micro-batches were to avoid. Run one forward and one
        backward for each.""",
        change="""
-    for x, y in micro_batches:
+    for x, y in [tuple(map(torch.cat, zip(*micro_batches)))]:
+        micro_batches = [0]
""",
    ),
    KnownWrong(
        "clips_scaled_gradients",
        fails=("scaled_step/clip",),
        read="labs/lab-03-amp.md#mental-model",
        explanation="""Clipping measures a gradient that still carries the scale. Nearly every gradient is then cut to
        max_norm and divided by the scale afterwards: the update nearly vanishes, and with AdamW, which divides by the
        gradient's size, nobody notices for long. Unscale first.""",
        change="""
-    updated = not unscale(model.parameters(), scale)
+    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
+    updated = not unscale(model.parameters(), scale)
@@
-        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
""",
    ),
    KnownWrong(
        "never_clips",
        fails=("scaled_step/clip",),
        read="labs/lab-03-amp.md#mental-model",
        explanation="""The gradient is not clipped: the optimizer sees its full length, however small max_norm is. (A
        limit that is multiplied by the scale, too, clips nothing.) Unscaling comes before clipping, and does not
        replace it.""",
        change="""
-        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
""",
    ),
    KnownWrong(
        "clips_every_micro_batch",
        fails=("scaled_step/clip",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The gradient is clipped while it still grows: after each micro-batch instead of after the last.
        The early micro-batches are cut more often than the last, so the gradient turns. Clip once, the complete and
        true gradient.""",
        change="""
-        (loss * scale / len(micro_batches)).backward()
+        (loss * scale / len(micro_batches)).backward()
+        nn.utils.clip_grad_norm_(model.parameters(), max_norm * scale)
""",
    ),
    KnownWrong(
        "bad_gradients_become_zero",
        fails=("scaled_step/skip",),
        read="labs/lab-03-amp.md#mental-model",
        explanation="""An update is made although gradients are not finite, without inf or nan in the weights. Zeros in
        place of bad gradients are an update all the same: AdamW's averages still push, weight decay still shrinks, and
        the step count moves on. A skipped step leaves no trace.""",
        change="""
-    if updated:
-        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
-        optimizer.step()
+    if not updated:
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
        explanation="""The update is made whether or not the gradients are finite. One overflow, which a growing scale
        brings about on purpose, and the weights are nan for good. What unscale returns has to decide about the
        update.""",
        change="""
-    if updated:
-        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
-        optimizer.step()
+    nn.utils.clip_grad_norm_(model.parameters(), max_norm)
+    optimizer.step()
""",
    ),
    KnownWrong(
        "no_autocast",
        fails=("scaled_step/skip", "scaled_step/formats"),
        read="handbook/precision.md#which-operation-runs-in-which-format",
        explanation="""The loss is scaled and unscaled, but the layers run in fp32: autocast is off. Everything works,
        nothing is faster, and the scale changes no bit of any gradient.""",
        change="""
-        with torch.autocast("cpu", dtype=low):
-            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
+        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
""",
    ),
    KnownWrong(
        "loss_outside_autocast",
        fails=("scaled_step/skip", "scaled_step/formats"),
        read="handbook/precision.md#which-operation-runs-in-which-format",
        explanation="""The model runs under autocast and the loss does not. Logits leave the last matrix product in 16
        bits, and without autocast cross_entropy takes them as they are: the loss itself is rounded to 3 digits. Under
        autocast it is on the fp32 list.""",
        change="""
-            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
+            logits = model(x)
+        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
""",
    ),
    KnownWrong(
        "stops_at_the_first_overflow",
        fails=("scaled_step/skip",),
        read="labs/lab-03-amp.md#scaled_step",
        explanation="""Micro-batches after the first overflow are left out, so the loss of a skipped step is not the
        mean over all of them: it is too low. The loss that is logged has to mean the same in every step, skipped or
        not.""",
        change="""
         total += loss.item()
+        if not all(bool(p.grad.isfinite().all()) for p in model.parameters() if p.grad is not None):
+            break
""",
    ),
    KnownWrong(
        "always_fp16",
        fails=("scaled_step/formats",),
        read="handbook/precision.md#which-operation-runs-in-which-format",
        explanation="""Forward and loss run in fp16, whatever `low` says. A run that was meant to be bf16 then has
        fp16's range, and overflows where bf16 would not.""",
        change="""
-        with torch.autocast("cpu", dtype=low):
+        with torch.autocast("cpu", dtype=torch.float16):
""",
    ),
    KnownWrong(
        "backward_under_autocast",
        fails=("scaled_step/formats",),
        read="handbook/precision.md#which-operation-runs-in-which-format",
        explanation="""Autocast is on while backward runs. Each backward operation already runs in the format of its
        forward operation; with autocast on, hooks and custom backwards are cast a second time, and PyTorch's
        documentation advises against it. Autocast ends with the loss.""",
        change="""
-        (loss * scale / len(micro_batches)).backward()
+            (loss * scale / len(micro_batches)).backward()
""",
    ),
    KnownWrong(
        "cleared_after_the_update",
        fails=("scaled_step/stale",),
        read="labs/lab-03-amp.md#mental-model",
        explanation="""Gradients from before this step are not cleared, though those of a step that was updated are. A
        skipped step leaves its inf behind: inf plus anything is inf, and every step from then on is skipped. The run
        stands still while the scale falls to 0. Clear before the first backward.""",
        change="""
-    optimizer.zero_grad(set_to_none=True)
@@
         optimizer.step()
+        optimizer.zero_grad(set_to_none=True)
""",
    ),
    KnownWrong(
        "training_mode_forced",
        fails=("scaled_step/mode",),
        read="handbook/forward-pass.md#two-switches-that-look-like-one",
        explanation="""The model is put into training mode, whatever mode it was in. Which mode is right is the caller's
        choice: fine-tuning with dropout off on purpose then trains with it on.""",
        change="""
     optimizer.zero_grad(set_to_none=True)
+    model.train()
""",
    ),
    KnownWrong(
        "masters_in_half",
        fails=("master_weights/copies", "master_weights/step"),
        read="handbook/precision.md#the-format-of-each-number",
        explanation="""The masters are stored in the weights' own dtype. A bf16 master next to a bf16 weight stores the
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
        read="handbook/precision.md#the-format-of-each-number",
        explanation="""Masters of fp32 weights share the model's memory. A conversion to fp32 copies a 16-bit weight,
        but of an fp32 weight, such as a norm kept in fp32, it returns the same memory. The optimizer then updates the
        model directly. clone() always copies.""",
        change="""
-    return [nn.Parameter(parameter.detach().clone().float()) for parameter in model.parameters()]
+    return [nn.Parameter(parameter.detach().float()) for parameter in model.parameters()]
""",
    ),
    KnownWrong(
        "copied_the_wrong_way",
        fails=("master_weights/step",),
        read="handbook/precision.md#the-format-of-each-number",
        explanation="""After the update the masters hold the old weights again: the weights were copied into the
        masters. That undoes the update on both sides. The masters hold the true numbers, the weights their rounded
        copy.""",
        change="""
-            parameter.copy_(master)
+            master.copy_(parameter)
""",
    ),
    KnownWrong(
        "model_becomes_fp32",
        fails=("master_weights/step",),
        read="handbook/precision.md#the-format-of-each-number",
        explanation="""The model's parameters are fp32 after the step, in the masters' memory. Every later forward pass
        runs in fp32: right, slow, and twice the size. copy_ rounds into the tensor that is there.""",
        change="""
-            parameter.copy_(master)
+            parameter.data = master.data
""",
    ),
    KnownWrong(
        "optimizer_never_steps",
        fails=("master_weights/step",),
        read="handbook/precision.md#the-format-of-each-number",
        explanation="""The masters are what they were: no update happens, or it is undone. The gradients have to reach
        the masters, then optimizer.step() moves the masters, then the model gets them, rounded.""",
        change="""
-    optimizer.step()
""",
    ),
    KnownWrong(
        "update_before_the_gradients",
        fails=("master_weights/step",),
        read="handbook/precision.md#the-format-of-each-number",
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
        read="handbook/precision.md#the-format-of-each-number",
        explanation="""The masters are right, but the weights are not the rounded masters: the change of each master is
        added to the 16-bit weight. Each addition is rounded to 16 bits, so small updates are lost from the weights for
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
        read="handbook/precision.md#the-format-of-each-number",
        explanation="""The masters are updated, and the model's weights stay as they are. The optimizer's state looks
        healthy, the loss does not move: after each update the masters have to be copied into the model.""",
        change="""
-    with torch.no_grad():
-        for parameter, master in zip(model.parameters(), masters, strict=True):
-            parameter.copy_(master)
""",
    ),
    KnownWrong(
        "every_weight_in_bf16",
        fails=("master_weights/step",),
        read="labs/lab-03-amp.md#master_weights",
        explanation="""All weights are rounded to one 16-bit format on their way from the masters, fp32 weights too: an
        fp32 norm loses 13 bits or more of its 24. Each parameter is its master, rounded to the parameter's own
        dtype.""",
        change="""
-            parameter.copy_(master)
+            parameter.copy_(master.bfloat16())
""",
    ),
    KnownWrong(
        "masters_rounded_too",
        fails=("master_weights/step",),
        read="handbook/precision.md#the-format-of-each-number",
        explanation="""The masters are rounded to the weights' precision after each step. What is below that precision
        is lost every time, so small updates never add up, and the masters are of no use. Only the weights are
        rounded.""",
        change="""
             parameter.copy_(master)
+            master.copy_(parameter)
""",
    ),
    KnownWrong(
        "gradients_added_up",
        fails=("master_weights/small", "master_weights/none"),
        read="handbook/backpropagation.md#pgrad-adds-it-does-not-replace",
        explanation="""The masters' gradients of earlier steps are added to those of this step, as nothing clears them.
        Every step then follows the sum of all gradients so far. The optimizer was made for the masters: a
        model.zero_grad() of the caller does not reach them.""",
        change="""
-        master.grad = None if parameter.grad is None else parameter.grad.float()
+        if parameter.grad is not None:
+            master.grad = parameter.grad.float() + (0 if master.grad is None else master.grad)
""",
    ),
    KnownWrong(
        "masters_read_back",
        fails=("master_weights/small", "master_weights/none"),
        read="handbook/precision.md#the-format-of-each-number",
        explanation="""The masters lose what they had saved up: they are set to the 16-bit weights between two steps.
        Updates below the weight's precision are lost again, every step. After the start nothing ever flows from weights
        to masters.""",
        change="""
     for parameter, master in zip(model.parameters(), masters, strict=True):
+        master.data.copy_(parameter.data)
""",
    ),
    KnownWrong(
        "none_becomes_zero",
        fails=("master_weights/none",),
        read="handbook/precision.md#the-format-of-each-number",
        explanation="""A master whose parameter has no gradient is updated with a gradient of zeros. Zero is not
        nothing: AdamW's averages still push, and weight decay still shrinks the weight. With None the optimizer skips
        the master.""",
        change="""
-        master.grad = None if parameter.grad is None else parameter.grad.float()
+        master.grad = torch.zeros_like(master) if parameter.grad is None else parameter.grad.float()
""",
    ),
    KnownWrong(
        "old_gradient_stays",
        fails=("master_weights/none",),
        read="handbook/precision.md#the-format-of-each-number",
        explanation="""The master of a parameter without a gradient keeps the gradient of the step before. The optimizer
        applies it once more, and again in every later step. Where the parameter's gradient is None the master's must be
        None.""",
        change="""
-        master.grad = None if parameter.grad is None else parameter.grad.float()
+        if parameter.grad is not None:
+            master.grad = parameter.grad.float()
""",
    ),
    KnownWrong(
        "weights_in_new_memory",
        fails=("master_weights/model",),
        read="handbook/precision.md#the-format-of-each-number",
        explanation="""The model's parameters lie in new memory after the step. Code that refers to the old memory
        (DDP's buckets, a captured CUDA graph, an optimizer's flat buffer) keeps computing with old weights. copy_
        writes into the memory that is there.""",
        change="""
-            parameter.copy_(master)
+            parameter.data = master.detach().clone().to(parameter.dtype)
""",
    ),
    KnownWrong(
        "gradients_unset",
        fails=("master_weights/model",),
        read="handbook/precision.md#the-format-of-each-number",
        explanation="""The gradients of the model's parameters are gone or changed after the step. They are the
        caller's: the norm that is logged after the step, or the next micro-batch, still reads them.""",
        change="""
         master.grad = None if parameter.grad is None else parameter.grad.float()
+        parameter.grad = None
""",
    ),
)

HURRIED = {
    "share_lost": {
        "a half of the last number is lost": """
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
+        lost += int(((nonzero * scale).abs() < 2.0**-25).sum())
""",
        "the scale is in 16 bits": """
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
+        lost += int(((nonzero * torch.tensor(scale).to(dtype)).to(dtype) == 0).sum())
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
    },
    "update_scale": {
        "the scale has an upper limit": """
-        return scale * 2.0, 0, 0
+        return min(scale * 2.0, 2.0**60), 0, 0
""",
        "the scale never grows at an interval of 1": """
-    if good_steps + 1 == growth_interval:
+    if good_steps and good_steps + 1 == growth_interval:
""",
        "never above 65536": """
-        return scale * 2.0, 0, 0
+        return min(65536.0, scale * 2.0), 0, 0
""",
        "never below fp16's smallest": """
-        return scale * 0.5 if overflows >= hysteresis else scale, 0, overflows
+        return max(scale * 0.5, 2.0**-24) if overflows >= hysteresis else scale, 0, overflows
""",
        "a tensor": """
-        return scale * 0.5 if overflows >= hysteresis else scale, 0, overflows
+        return torch.tensor(scale * 0.5) if overflows >= hysteresis else scale, 0, overflows
""",
        "counts in floats": """
-    return scale, good_steps + 1, overflows
+    return scale, good_steps + 1.0, overflows
""",
        "overflow counts as one": """
-        return scale * 0.5 if overflows >= hysteresis else scale, 0, overflows
+        return scale * 0.5 if overflows >= hysteresis else scale, 1, overflows
""",
        "halves at every second overflow": """
-        return scale * 0.5 if overflows >= hysteresis else scale, 0, overflows
+        return scale * 0.5 if overflows % hysteresis == 0 else scale, 0, overflows
""",
        "hysteresis is 2 by default": """
-    scale: float, good_steps: int, overflows: int, finite: bool, growth_interval: int = 2000, hysteresis: int = 1
+    scale: float, good_steps: int, overflows: int, finite: bool, growth_interval: int = 2000, hysteresis: int = 2
""",
    },
    "unscale": {
        "the generator passes once": """
-    not_finite: list[int] = []
+    not_finite = [i for i, p in enumerate(parameters) if p.grad is not None and not p.grad.isfinite().all()]
""",
        "positions from 1": """
-            not_finite.append(position)
+            not_finite.append(position + 1)
""",
        "a set of positions": """
-    return not_finite
+    return set(not_finite)
""",
        "positions in a tensor": """
-            not_finite.append(position)
+            not_finite.append(torch.tensor(position))
""",
        "bad gradients go": """
             not_finite.append(position)
+            parameter.grad = None
""",
        "bad gradients become 0": """
             not_finite.append(position)
+            parameter.grad.zero_()
""",
        "the largest is below fp16's": """
-        if not parameter.grad.isfinite().all():
+        if not (parameter.grad.abs() <= 65504).all():
""",
        "finite in fp32": """
-        if not parameter.grad.isfinite().all():
+        if not parameter.grad.float().isfinite().all():
""",
        "repairs nan on the way": """
-            parameter.grad.div_(scale)
+            parameter.grad.div_(scale).nan_to_num_()
""",
        "swaps the memory": """
-            parameter.grad.div_(scale)
+            parameter.grad.data = parameter.grad / scale
""",
        "equal parameters are the same": """
-        if id(parameter) not in divided:
-            divided.add(id(parameter))
+        if parameter.shape not in divided:
+            divided.add(parameter.shape)
""",
    },
    "scaled_step": {
        "asks the loss": """
-    updated = not unscale(model.parameters(), scale)
+    updated = not unscale(model.parameters(), scale) or total < float("inf")
""",
        "clips each tensor": """
-        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
+        [nn.utils.clip_grad_norm_([p], max_norm) for p in model.parameters()]
""",
        "clips each number": """
-        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
+        nn.utils.clip_grad_value_(model.parameters(), max_norm)
""",
        "the limit is scaled too": """
-        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
+        nn.utils.clip_grad_norm_(model.parameters(), max_norm * scale)
""",
        "a 16-bit loss": """
-        (loss * scale / len(micro_batches)).backward()
+        loss = loss.to(low)
+        (loss * scale / len(micro_batches)).backward()
""",
        "scaled in 16 bits": """
-        (loss * scale / len(micro_batches)).backward()
+        (loss.to(low) * scale / len(micro_batches)).float().backward()
""",
        "forward in evaluation mode": """
     optimizer.zero_grad(set_to_none=True)
+    model.eval()
+    model.register_forward_hook(lambda *_: model.train() and None)
""",
        "looks at the norm for nan": """
+    updated = not nn.utils.clip_grad_norm_(model.parameters(), max_norm).isnan()
     if updated:
-        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
+        pass
""",
        "the model becomes 16-bit": """
     optimizer.zero_grad(set_to_none=True)
+    model.to(low)
""",
        "left in evaluation mode": """
         total += loss.item()
+    model.eval()
""",
        "always 65536": """
-        (loss * scale / len(micro_batches)).backward()
+        (loss * 65536.0 / len(micro_batches)).backward()
""",
        "the last micro-batch decides": """
-    updated = not unscale(model.parameters(), scale)
+    finite = all(bool(p.grad.isfinite().all()) for p in model.parameters() if p.grad is not None)
+    unscale(model.parameters(), scale)
+    updated = finite or not loss.isfinite()
+    updated = True if len(micro_batches) > 1 else updated
""",
        "a skipped step reports no loss": """
-    return total / len(micro_batches), updated
+    return (total / len(micro_batches) if updated else float("nan")), updated
""",
        "bf16 by default": """
-    low: torch.dtype = torch.float16,
+    low: torch.dtype = torch.bfloat16,
""",
        "the first micro-batch only": """
-    for x, y in micro_batches:
+    for x, y in micro_batches[:1]:
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
        "gradients by way of fp16": """
-        master.grad = None if parameter.grad is None else parameter.grad.float()
+        master.grad = None if parameter.grad is None else parameter.grad.half().float()
""",
        "buffers get masters": """
-    return [nn.Parameter(parameter.detach().clone().float()) for parameter in model.parameters()]
+    return [nn.Parameter(tensor.detach().clone().float()) for tensor in model.state_dict().values()]
""",
        "a tied weight has two masters": """
-    return [nn.Parameter(parameter.detach().clone().float()) for parameter in model.parameters()]
+    every = [p for _, p in model.named_parameters(remove_duplicate=False)]
+    return [nn.Parameter(parameter.detach().clone().float()) for parameter in every]
""",
        "one missing gradient skips all": """
-    optimizer.step()
+    if all(one.grad is not None for one in masters):
+        optimizer.step()
""",
    },
}
