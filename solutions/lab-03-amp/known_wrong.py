"""Known-wrong solutions of Lab 03, and hurried answers, as changes to exercises.py."""

from rankzero.exercises.checks.known_wrong import KnownWrong

KNOWN_WRONG = (
    KnownWrong(
        "normal_numbers_only",
        fails=("share_lost/fp16",),
        read="handbook/precision.md#underflow-and-loss-scaling",
        explanation="""Every number below the smallest normal number, 6.1e-5 in fp16, is counted as lost. The subnormal
        numbers below it, down to 2**-24 in fp16, have fewer digits but are not 0. Count a number as lost if it is 0
        after storing.""",
        change="""
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
+        lost += int(((nonzero.double() * scale).abs() < torch.finfo(dtype).smallest_normal).sum())
""",
    ),
    KnownWrong(
        "below_the_smallest_number",
        fails=("share_lost/fp16",),
        read="handbook/precision.md#underflow-and-loss-scaling",
        explanation="""Every number below the smallest 16-bit number, 2**-24 in fp16, is counted as lost. Storing rounds
        to the nearest number, so a number above half of 2**-24 is rounded up, not to 0. Count a number as lost if it is
        0 after storing.""",
        change="""
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
+        lost += int(((nonzero * scale).abs() < 2.0**-24).sum())
""",
    ),
    KnownWrong(
        "half_of_the_smallest_number_kept",
        fails=("share_lost/fp16",),
        read="handbook/precision.md#underflow-and-loss-scaling",
        explanation="""A number of exactly half the smallest 16-bit number, 2**-25 in fp16, is not counted as lost. It
        is halfway between 0 and 2**-24, and rounding to even makes it 0. Count a number as lost if it is 0 after
        storing.""",
        change="""
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
+        tiniest = torch.finfo(dtype).smallest_normal * torch.finfo(dtype).eps
+        lost += int(((nonzero * scale).abs() < tiniest / 2).sum())
""",
    ),
    KnownWrong(
        "a_percentage",
        fails=("share_lost/fp16",),
        read="labs/lab-03-amp.md#share_lost",
        explanation="""The result is a percentage, 100 times the share. The share is between 0.0 and 1.0.""",
        change="""
-    return lost / there if there else 0.0
+    return 100 * lost / there if there else 0.0
""",
    ),
    KnownWrong(
        "positive_numbers_only",
        fails=("share_lost/fp16",),
        read="labs/lab-03-amp.md#share_lost",
        explanation="""Negative gradients are missing from the counts. About half of all gradients are negative, and a
        format rounds them to 0 like positive ones.""",
        change="""
-        nonzero = gradient[gradient != 0]
+        nonzero = gradient[gradient > 0]
""",
    ),
    KnownWrong(
        "kept_share_returned",
        fails=("share_lost/fp16",),
        read="labs/lab-03-amp.md#share_lost",
        explanation="""The result is the share of the gradients that are kept. Return the share that becomes 0: 1 minus
        that.""",
        change="""
-    return lost / there if there else 0.0
+    return 1 - lost / there if there else 0.0
""",
    ),
    KnownWrong(
        "rounded_is_lost",
        fails=("share_lost/fp16",),
        read="handbook/precision.md#underflow-and-loss-scaling",
        explanation="""Every number that storing changes is counted as lost. Nearly every number is rounded when it is
        stored in 16 bits. Count a number as lost only if it is 0 after storing.""",
        change="""
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
+        lost += int(((nonzero * scale).to(dtype).to(nonzero.dtype) != nonzero * scale).sum())
""",
    ),
    KnownWrong(
        "zeros_below_the_line",
        fails=("share_lost/zeros",),
        read="handbook/precision.md#underflow-and-loss-scaling",
        explanation="""Numbers that were 0 before are not counted as lost, but they are in the total, so the share is
        too small. In an embedding's gradient, every token that is not in the batch adds a row of zeros. Leave zeros out
        of both counts.""",
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
        read="handbook/precision.md#underflow-and-loss-scaling",
        explanation="""Numbers that were 0 before are in both counts. In an embedding's gradient, every token that is
        not in the batch adds a row of zeros, so the share depends more on the vocabulary than on the format. Leave
        zeros out.""",
        change="""
-        nonzero = gradient[gradient != 0]
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
-        there += nonzero.numel()
+        lost += int(((gradient * scale).to(dtype) == 0).sum())
+        there += gradient.numel()
""",
    ),
    KnownWrong(
        "mean_of_the_tensors_shares_with_zeros",
        fails=("share_lost/zeros", "share_lost/tensors"),
        read="handbook/precision.md#underflow-and-loss-scaling",
        explanation="""The result is the mean of the tensors' shares, which is nan if a tensor has no numbers, and
        zeros are in each tensor's total. Count over all tensors the numbers that are not 0, and those of them that are
        lost. Divide once.""",
        definitions="""
def share_lost(gradients, scale, dtype):
    lost = [((g != 0) & ((g * scale).to(dtype) == 0)).float().mean().item() for g in gradients if g is not None]
    return sum(lost) / len(lost) if lost else 0.0
""",
    ),
    KnownWrong(
        "mean_of_the_tensors_shares",
        fails=("share_lost/tensors",),
        read="handbook/precision.md#underflow-and-loss-scaling",
        explanation="""The result is the mean of the tensors' shares. A norm of 128 numbers then counts as much as a
        matrix of 65,536. Count over all tensors, and divide the two counts once.""",
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
        read="handbook/precision.md#underflow-and-loss-scaling",
        explanation="""The share is that of fp16 for every `dtype`. bf16 has the exponent of fp32 and loses hardly any
        number that fp32 holds, which is why bf16 needs no loss scale. Store the numbers in `dtype`.""",
        change="""
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
+        lost += int(((nonzero * scale).half() == 0).sum())
""",
    ),
    KnownWrong(
        "scaled_after_it_was_stored",
        fails=("share_lost/scale",),
        read="handbook/precision.md#underflow-and-loss-scaling",
        explanation="""The numbers are stored in 16 bits before they are multiplied by the scale. A number that became 0
        stays 0 under any scale. Multiply first. For the same reason a scaler multiplies the loss before the backward
        pass, not the gradients after it.""",
        change="""
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
+        lost += int((nonzero.to(dtype) * scale == 0).sum())
""",
    ),
    KnownWrong(
        "computed_in_fp32",
        fails=("share_lost/scale",),
        read="handbook/precision.md#underflow-and-loss-scaling",
        explanation="""fp64 gradients are rounded to fp32 before they are scaled. fp32 ends at 1.4e-45, so a smaller
        fp64 gradient becomes 0, although the scale could move it into the 16-bit format's range. Multiply each gradient
        in its own dtype.""",
        change="""
-        nonzero = gradient[gradient != 0]
+        nonzero = gradient[gradient != 0].float()
""",
    ),
    KnownWrong(
        "fp32_before_the_count",
        fails=("share_lost/scale",),
        read="handbook/precision.md#underflow-and-loss-scaling",
        explanation="""fp64 gradients are rounded to fp32 before their numbers are counted. A number below 1.4e-45 is
        then 0 and counts as no gradient at all, although it is lost. Count and multiply in each gradient's own
        dtype.""",
        change="""
-        nonzero = gradient[gradient != 0]
+        gradient = gradient.float()
+        nonzero = gradient[gradient != 0]
""",
    ),
    KnownWrong(
        "infinite_is_lost_too",
        fails=("share_lost/scale",),
        read="handbook/precision.md#underflow-and-loss-scaling",
        explanation="""Numbers that become infinite are counted as lost. They are overflows, which a loss scaler
        detects. The share asks for underflows, which no check detects: count only numbers that become 0.""",
        change="""
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
+        lost += int(((nonzero * scale).to(dtype) == 0).sum() + (nonzero * scale).to(dtype).isinf().sum())
""",
    ),
    KnownWrong(
        "unscaled_before_the_test",
        fails=("share_lost/scale",),
        read="handbook/precision.md#underflow-and-loss-scaling",
        explanation="""The stored numbers are divided by the scale, in 16 bits, before they are compared with 0. The
        division rounds small numbers to 0 again, although the scale had saved them. Compare the scaled numbers with
        0.""",
        change="""
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
+        lost += int(((nonzero * scale).to(dtype) / scale == 0).sum())
""",
    ),
    KnownWrong(
        "close_to_zero_is_lost",
        fails=("share_lost/scale",),
        read="handbook/precision.md#underflow-and-loss-scaling",
        explanation="""Numbers close to 0 are counted as lost. torch.isclose and allclose accept a difference of 1e-8,
        far above the smallest number of bf16, 9.2e-41. Compare with 0 exactly.""",
        change="""
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
+        lost += int(torch.isclose((nonzero * scale).to(dtype), torch.zeros((), dtype=dtype)).sum())
""",
    ),
    KnownWrong(
        "scale_ignored",
        fails=("share_lost/scale",),
        read="handbook/precision.md#underflow-and-loss-scaling",
        explanation="""The share is the same for every scale. A loss scale moves small gradients into the format's
        range: multiply the gradients by it before they are stored.""",
        change="""
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
+        lost += int((nonzero.to(dtype) == 0).sum())
""",
    ),
    KnownWrong(
        "scale_divides",
        fails=("share_lost/scale",),
        read="handbook/precision.md#underflow-and-loss-scaling",
        explanation="""The gradients are divided by the scale, so a larger scale loses more of them. A loss scale moves
        small gradients up into the format's range: multiply.""",
        change="""
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
+        lost += int(((nonzero / scale).to(dtype) == 0).sum())
""",
    ),
    KnownWrong(
        "bf16_for_everyone",
        fails=("cast_inputs/lower",),
        read="handbook/precision.md#autocast-the-format-of-each-operation",
        explanation="""The casts are to bf16 for every `low`. With low=torch.float16 the numbers then have 7 fraction
        bits instead of 10, and a GPU without bf16 units becomes slower instead of faster. Cast to `low`.""",
        change="""
-        target = low
+        target = torch.bfloat16
""",
    ),
    KnownWrong(
        "weights_stay_fp32",
        fails=("cast_inputs/lower",),
        read="handbook/precision.md#autocast-the-format-of-each-operation",
        explanation="""For "lower" only the first argument is cast. Under autocast the stored weights stay fp32, but a
        matrix product gets 16-bit copies of all its floating-point arguments. Otherwise it would not run in 16
        bits.""",
        change="""
-    return [one.to(target) if casts(one) else one for one in args]
+    return [one.to(target) if casts(one) and (place == 0 or target != low) else one for place, one in enumerate(args)]
""",
    ),
    KnownWrong(
        "parameters_left_out",
        fails=("cast_inputs/lower", "cast_inputs/widest"),
        read="labs/lab-03-amp.md#cast_inputs",
        explanation="""An nn.Parameter is not cast. Parameter is a subclass of Tensor, so type(value) is Tensor is False
        for it, and a layer's weights stay in fp32. Use isinstance(value, Tensor).""",
        change="""
-        return isinstance(value, Tensor) and value.is_floating_point() and value.dtype != torch.float64
+        return type(value) is Tensor and value.is_floating_point() and value.dtype != torch.float64
""",
    ),
    KnownWrong(
        "fp32_means_not_lower",
        fails=("cast_inputs/fp32",),
        read="handbook/precision.md#autocast-the-format-of-each-operation",
        explanation="""For "fp32" 16-bit arguments stay in 16 bits. A matrix product before the operation may have
        returned bf16, as the logits of a cross-entropy are. "fp32" casts such arguments to fp32.""",
        change="""
-    elif policy == "fp32" or (policy == "widest" and any(casts(one) and one.dtype == torch.float32 for one in args)):
+    elif policy == "widest" and any(casts(one) and one.dtype == torch.float32 for one in args):
""",
    ),
    KnownWrong(
        "widest_is_always_fp32",
        fails=("cast_inputs/widest",),
        read="handbook/precision.md#autocast-the-format-of-each-operation",
        explanation="""For "widest" the arguments are cast to fp32 even where none of them is fp32. If all arguments are
        16-bit, fp32 makes no result more exact, and autograd saves twice the bytes. Leave them unchanged.""",
        change="""
-    elif policy == "fp32" or (policy == "widest" and any(casts(one) and one.dtype == torch.float32 for one in args)):
+    elif policy == "fp32" or (policy == "widest" and True):
""",
    ),
    KnownWrong(
        "widest_is_lowest",
        fails=("cast_inputs/widest",),
        read="handbook/precision.md#autocast-the-format-of-each-operation",
        explanation="""For "widest" fp32 arguments are cast down to `low`. These operations add or join tensors: 16 bits
        do not make them faster, and the fp32 tensor would lose most of its digits. Cast to fp32 if any argument is
        fp32.""",
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
        read="handbook/precision.md#autocast-the-format-of-each-operation",
        explanation="""For "widest" only the first argument decides. If it is 16-bit, the arguments are not cast to fp32
        although a later one is fp32, such as the residual stream. One fp32 argument at any place is enough to cast all
        arguments to fp32.""",
        change="""
-    elif policy == "fp32" or (policy == "widest" and any(casts(one) and one.dtype == torch.float32 for one in args)):
+    elif policy == "fp32" or (policy == "widest" and args[0].dtype == torch.float32):
""",
    ),
    KnownWrong(
        "widest_takes_the_first_dtype",
        fails=("cast_inputs/widest",),
        read="handbook/precision.md#autocast-the-format-of-each-operation",
        explanation="""For "widest" all arguments get the dtype of the first. If that one is 16-bit, fp32 arguments lose
        at least 13 of their 24 bits of precision. One fp32 argument at any place is enough to cast all arguments to
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
        read="handbook/precision.md#autocast-the-format-of-each-operation",
        explanation="""For "widest" a bf16 and an fp16 argument together become fp32. torch's type promotion does that,
        but this policy casts only if one argument is fp32. Leave them unchanged.""",
        change="""
-    elif policy == "fp32" or (policy == "widest" and any(casts(one) and one.dtype == torch.float32 for one in args)):
+    elif policy == "fp32" or (policy == "widest" and len({one.dtype for one in args if casts(one)}) > 1):
""",
    ),
    KnownWrong(
        "unlisted_in_low",
        fails=("cast_inputs/as-they-are", "cast_inputs/gpt"),
        read="handbook/precision.md#autocast-the-format-of-each-operation",
        explanation="""For "" the arguments are cast to `low`. Autocast casts for the operations on its lists only. Any
        other operation runs in the formats that its arguments have. Leave them unchanged.""",
        change="""
+    elif policy == "widest":
+        return list(args)
     else:
-        return list(args)
+        target = low
""",
    ),
    KnownWrong(
        "float64_cast",
        fails=("cast_inputs/others",),
        read="handbook/precision.md#autocast-the-format-of-each-operation",
        explanation="""A float64 tensor is cast. Autocast leaves float64 unchanged, because a program that uses float64
        needs its precision: a gradient check would silently become wrong. Leave float64 out.""",
        change="""
-        return isinstance(value, Tensor) and value.is_floating_point() and value.dtype != torch.float64
+        return isinstance(value, Tensor) and value.is_floating_point()
""",
    ),
    KnownWrong(
        "integers_cast",
        fails=("cast_inputs/others", "cast_inputs/gpt"),
        read="handbook/precision.md#autocast-the-format-of-each-operation",
        explanation="""Integer or bool tensors, such as token ids and masks, are cast. An embedding or a loss rejects
        floating-point ids, and in bf16 the ids 256 and 257 are the same number. Cast floating-point tensors only.""",
        change="""
-        return isinstance(value, Tensor) and value.is_floating_point() and value.dtype != torch.float64
+        return isinstance(value, Tensor)
""",
    ),
    KnownWrong(
        "graph_cut",
        fails=("cast_inputs/gradients",),
        read="handbook/precision.md#autocast-the-format-of-each-operation",
        explanation="""The returned tensors have no graph, so no gradient flows back through the cast: the weights get
        no gradient, and the optimizer skips them without an error. Cast with .to(dtype), whose backward pass casts the
        gradient back.""",
        change="""
-    return [one.to(target) if casts(one) else one for one in args]
+    return [one.detach().to(target) if casts(one) else one for one in args]
""",
    ),
    KnownWrong(
        "never_below_one",
        fails=("update_scale/backs-off",),
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""The scale does not fall below 1. A model whose gradients overflow even without a scale then
        overflows at every step and is never updated again. Halve without a limit: a scale below 1 makes the gradients
        smaller.""",
        change="""
-        return scale * 0.5 if overflows >= hysteresis else scale, 0, overflows
+        return max(1.0, scale * 0.5) if overflows >= hysteresis else scale, 0, overflows
""",
    ),
    KnownWrong(
        "overflow_raises_the_scale",
        fails=("update_scale/backs-off", "update_scale/grows"),
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""An overflow doubles the scale and good steps halve it. In an overflow the scaled gradients are
        too large for fp16, so the scale must fall. Good steps make it grow.""",
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
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""An overflow sets the scale to 65,536. If that is too large, the next step overflows again, and so
        does every later step: the weights no longer change, and the loss looks like a plateau. Halve the scale
        instead.""",
        change="""
-        return scale * 0.5 if overflows >= hysteresis else scale, 0, overflows
+        return 65536.0 if overflows >= hysteresis else scale, 0, overflows
""",
    ),
    KnownWrong(
        "one_overflow_too_many",
        fails=("update_scale/backs-off",),
        read="labs/lab-03-amp.md#update_scale",
        explanation="""The scale falls one overflow too late. The current overflow counts: with hysteresis=1 the first
        overflow halves the scale, with hysteresis=2 the second one.""",
        change="""
-        return scale * 0.5 if overflows >= hysteresis else scale, 0, overflows
+        return scale * 0.5 if overflows > hysteresis else scale, 0, overflows
""",
    ),
    KnownWrong(
        "whole_numbers_only",
        fails=("update_scale/backs-off",),
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""The scale is halved as a whole number, as with // 2, so half of 1 is 0. A scale of 0 makes every
        later gradient 0. Halve with * 0.5: the scale may be below 1.""",
        change="""
-        return scale * 0.5 if overflows >= hysteresis else scale, 0, overflows
+        return scale // 2 if overflows >= hysteresis else scale, 0, overflows
""",
    ),
    KnownWrong(
        "only_one_overflow_halves",
        fails=("update_scale/backs-off",),
        read="labs/lab-03-amp.md#update_scale",
        explanation="""Only overflow number `hysteresis` since the last growth halves the scale, and later ones do not.
        A scale that is 4 times too large then stays too large. Every overflow from that number on halves the scale.""",
        change="""
-        return scale * 0.5 if overflows >= hysteresis else scale, 0, overflows
+        return scale * 0.5 if overflows == hysteresis else scale, 0, overflows
""",
    ),
    KnownWrong(
        "finite_read_the_wrong_way",
        fails=("update_scale/backs-off", "update_scale/grows"),
        read="labs/lab-03-amp.md#update_scale",
        explanation="""Good steps are treated as overflows, and overflows as good steps. `finite` is True if all
        gradients are finite: a good step.""",
        change="""
-    if not finite:
+    if finite:
""",
    ),
    KnownWrong(
        "a_step_late",
        fails=("update_scale/grows",),
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""The scale doubles one good step too late. The last of `growth_interval` good steps in a row
        doubles it: count the current step too.""",
        change="""
-    if good_steps + 1 == growth_interval:
+    if good_steps == growth_interval:
""",
    ),
    KnownWrong(
        "count_kept_after_growth",
        fails=("update_scale/grows",),
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""After the scale has grown, the count of good steps goes on instead of starting at 0, and the
        scale does not grow a second time. Set the count to 0 at each growth.""",
        change="""
-        return scale * 2.0, 0, 0
+        return scale * 2.0, good_steps + 1, 0
""",
    ),
    KnownWrong(
        "grows_at_every_step",
        fails=("update_scale/grows",),
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""After the first interval the scale doubles at every good step. It soon overflows, and one of
        every few steps is skipped. Set the count of good steps to 0 at each growth.""",
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
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""The scale does not grow where `growth_interval` is less than 2000. 2000 is only the default:
        compare with `growth_interval`.""",
        change="""
-    if good_steps + 1 == growth_interval:
+    if good_steps + 1 == 2000:
""",
    ),
    KnownWrong(
        "never_grows",
        fails=("update_scale/grows",),
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""The scale never grows, although good steps are counted. Each overflow then halves the scale for
        the rest of the run, and after a few overflows small gradients underflow as if there were no scale. Double it
        after `growth_interval` good steps in a row.""",
        change="""
-    if good_steps + 1 == growth_interval:
-        return scale * 2.0, 0, 0
""",
    ),
    KnownWrong(
        "nobody_counts",
        fails=("update_scale/grows",),
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""A good step does not change the count of good steps, so no interval is completed and the scale
        never grows. Return the count with the current step included.""",
        change="""
-    return scale, good_steps + 1, overflows
+    return scale, good_steps, overflows
""",
    ),
    KnownWrong(
        "counts_swapped",
        fails=("update_scale/grows",),
        read="labs/lab-03-amp.md#update_scale",
        explanation="""The two counts are returned in the wrong order. The order is (scale, good_steps, overflows).""",
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
        early. The step that completes an interval belongs to that interval: set the count to 0.""",
        change="""
-        return scale * 2.0, 0, 0
+        return scale * 2.0, 1, 0
""",
    ),
    KnownWrong(
        "count_kept_after_overflow",
        fails=("update_scale/counts-anew",),
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""After an overflow the count of good steps goes on. The scale was just found too large, but it
        soon grows and overflows again. The interval counts good steps in a row: an overflow sets the count to 0.""",
        change="""
-        return scale * 0.5 if overflows >= hysteresis else scale, 0, overflows
+        return scale * 0.5 if overflows >= hysteresis else scale, good_steps, overflows
""",
    ),
    KnownWrong(
        "every_overflow_halves",
        fails=("update_scale/hysteresis",),
        read="labs/lab-03-amp.md#update_scale",
        explanation="""Each overflow halves the scale for every `hysteresis`. With hysteresis=2 the first overflow since
        the last growth leaves the scale unchanged; the second and every later one halve it.""",
        change="""
-        return scale * 0.5 if overflows >= hysteresis else scale, 0, overflows
+        return scale * 0.5, 0, overflows
""",
    ),
    KnownWrong(
        "overflows_in_a_row",
        fails=("update_scale/hysteresis",),
        read="labs/lab-03-amp.md#update_scale",
        explanation="""A good step sets the count of overflows to 0. A scale that is too large for one batch in five
        then never falls. Count the overflows since the last growth, with good steps between them.""",
        change="""
-    return scale, good_steps + 1, overflows
+    return scale, good_steps + 1, 0
""",
    ),
    KnownWrong(
        "overflows_counted_anew",
        fails=("update_scale/hysteresis",),
        read="labs/lab-03-amp.md#update_scale",
        explanation="""After the scale has been halved, the next overflow does not halve it, as if the count of
        overflows were reset. Only a growth of the scale resets that count: until then each further overflow halves the
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
        explanation="""Overflows from before the last growth still count after it. Later in the run every single
        overflow then halves the scale, as with hysteresis=1. A growth sets both counts to 0.""",
        change="""
-        return scale * 2.0, 0, 0
+        return scale * 2.0, 0, overflows
""",
    ),
    KnownWrong(
        "borne_overflow_keeps_the_row",
        fails=("update_scale/hysteresis",),
        read="labs/lab-03-amp.md#update_scale",
        explanation="""An overflow that does not halve the scale leaves the count of good steps unchanged. The scale
        then grows although the last `growth_interval` steps were not all good. Every overflow sets the count of good
        steps to 0.""",
        change="""
-        return scale * 0.5 if overflows >= hysteresis else scale, 0, overflows
+        return (scale * 0.5, 0, overflows) if overflows >= hysteresis else (scale, good_steps, overflows)
""",
    ),
    KnownWrong(
        "a_hundred_steps",
        fails=("update_scale/default",),
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""Without `growth_interval` the scale grows before 2000 good steps. Each growth beyond the largest
        scale that works costs a skipped step: one in 2,000 at the default of 2000, and one in 100 at a default of
        100.""",
        change="""
-    scale: float, good_steps: int, overflows: int, finite: bool, growth_interval: int = 2000, hysteresis: int = 1
+    scale: float, good_steps: int, overflows: int, finite: bool, growth_interval: int = 100, hysteresis: int = 1
""",
    ),
    KnownWrong(
        "never_divided",
        fails=("unscale/divides",),
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""The gradients are not divided, or only a copy is. They stay too large by the scale: SGD takes
        huge steps, clipping cuts every step to its limit, and AdamW hides both. A common cause: model.parameters() is a
        generator, and a second loop over it gets nothing.""",
        change="""
-            parameter.grad.div_(scale)
""",
    ),
    KnownWrong(
        "scaled_once_more",
        fails=("unscale/divides", "unscale/large"),
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""The gradients are multiplied by the scale instead of divided. Backward from the scaled loss has
        already multiplied them by it. Divide.""",
        change="""
-            parameter.grad.div_(scale)
+            parameter.grad.mul_(scale)
""",
    ),
    KnownWrong(
        "weights_divided",
        fails=("unscale/divides",),
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""The weights change. Each weight divided by a scale of 65,536 is nearly 0, and the model is lost.
        Divide the gradients only.""",
        change="""
-            parameter.grad.div_(scale)
+            parameter.data.div_(scale)
""",
    ),
    KnownWrong(
        "a_bool_comes_back",
        fails=("unscale/divides", "unscale/finite", "unscale/large"),
        read="labs/lab-03-amp.md#unscale",
        explanation="""The function returns one bool for all gradients, as the starter's does. This exercise asks for
        the positions: they show in which layer an overflow begins.""",
        change="""
-    return not_finite
+    return not not_finite
""",
    ),
    KnownWrong(
        "new_gradients",
        fails=("unscale/in-place",),
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""The divided gradients are new tensors or lie in new memory. For a moment two sets of gradients
        are in memory, and code that refers to the old tensors, such as DDP's buckets, still reads scaled numbers.
        Divide in place, with div_.""",
        change="""
-            parameter.grad.div_(scale)
+            parameter.grad = parameter.grad / scale
""",
    ),
    KnownWrong(
        "any_for_all",
        fails=("unscale/finite",),
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""A gradient counts as finite if any of its numbers is finite. One inf among a million numbers is
        enough to ruin the weights: require that all of them are finite.""",
        change="""
-        if not parameter.grad.isfinite().all():
+        if not parameter.grad.isfinite().any():
""",
    ),
    KnownWrong(
        "first_gradient_only",
        fails=("unscale/finite", "unscale/large"),
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""Only the first gradient that is not finite is reported. The list then does not show whether one
        layer overflows or all of them. Report every position.""",
        change="""
-    return not_finite
+    return not_finite[:1]
""",
    ),
    KnownWrong(
        "stops_at_the_first_bad",
        fails=("unscale/finite", "unscale/large", "unscale/all"),
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""Gradients after the first one that is not finite are neither divided nor checked. Code that logs
        their norms then reads scaled numbers, and the list misses positions. Store the position and go on.""",
        change="""
             not_finite.append(position)
+            break
""",
    ),
    KnownWrong(
        "nan_is_not_infinite",
        fails=("unscale/finite",),
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""inf is found and nan is not. An overflow inside the backward pass often becomes nan, from inf -
        inf or 0 * inf. The update would then make weights nan. Use isfinite, which is False for both.""",
        change="""
-        if not parameter.grad.isfinite().all():
+        if parameter.grad.isinf().any():
""",
    ),
    KnownWrong(
        "only_plus_infinity",
        fails=("unscale/finite",),
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""-inf is not found. About half of all overflows are negative. Use isfinite, which is False for
        inf, -inf and nan.""",
        change="""
-        if not parameter.grad.isfinite().all():
+        if (parameter.grad.isnan() | (parameter.grad == torch.inf)).any():
""",
    ),
    KnownWrong(
        "positions_without_none",
        fails=("unscale/finite",),
        read="labs/lab-03-amp.md#unscale",
        explanation="""Parameters without a gradient are left out of the counting, so each position after such a
        parameter is too small. Count the positions over all of `parameters`.""",
        change="""
-    for position, parameter in enumerate(parameters):
+    for position, parameter in enumerate(one for one in parameters if one.grad is not None):
""",
    ),
    KnownWrong(
        "second_loop_finds_nothing",
        fails=("unscale/finite", "unscale/large"),
        read="labs/lab-03-amp.md#unscale",
        explanation="""If `parameters` is a generator, the result is always []. A generator yields its items only once:
        after a first loop that divides, a second loop gets no parameters. Use one loop, or make a list first.""",
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
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""Large finite gradients are reported as not finite, as when their norm or their square overflows
        to inf. Clipping handles large gradients; a step is skipped only for inf and nan. Test each number with
        isfinite.""",
        change="""
-        if not parameter.grad.isfinite().all():
+        if not parameter.grad.norm().isfinite():
""",
    ),
    KnownWrong(
        "looks_at_the_sum",
        fails=("unscale/large",),
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""Some large finite gradients are reported as not finite, as when their sum is tested. The sum of
        finite numbers can overflow to inf, and good steps are then skipped. Test each number with isfinite.""",
        change="""
-        if not parameter.grad.isfinite().all():
+        if not parameter.grad.sum().isfinite():
""",
    ),
    KnownWrong(
        "bad_gradients_undivided",
        fails=("unscale/all",),
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""A gradient with a number that is not finite is not divided; the others are. Code that logs norms
        after a skipped step then reads scaled and unscaled gradients together. Divide every gradient, then test it.""",
        change="""
-        if id(parameter) not in divided:
+        if id(parameter) not in divided and parameter.grad.isfinite().all():
""",
    ),
    KnownWrong(
        "tested_before_the_division",
        fails=("unscale/all",),
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""Gradients are tested before they are divided. With a scale below 1 the division makes numbers
        larger: in fp16, 40000 / 0.5 is inf, and the update would use it. Divide first, then test.""",
        change="""
-        if id(parameter) not in divided:
-            divided.add(id(parameter))
-            parameter.grad.div_(scale)
-        if not parameter.grad.isfinite().all():
-            not_finite.append(position)
+        if not parameter.grad.isfinite().all():
+            not_finite.append(position)
+        if id(parameter) not in divided:
+            divided.add(id(parameter))
+            parameter.grad.div_(scale)
""",
    ),
    KnownWrong(
        "divided_each_time",
        fails=("unscale/once",),
        read="labs/lab-03-amp.md#unscale",
        explanation="""The gradient of a parameter that occurs twice is divided twice. A tied weight, often the model's
        largest matrix, then gets an update that is too small by the scale. Remember by id() which parameters have been
        divided.""",
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
        explanation="""A parameter that occurs twice is reported only at its first position. The contract asks for every
        position whose gradient is not finite; only the division happens once.""",
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
        explanation="""The returned loss is multiplied by the scale. A logged curve then jumps by a factor of 2 when the
        scale changes. Multiply only the loss on which backward runs, and return the loss without the scale.""",
        change="""
-        total += loss.item()
+        total += loss.item() * scale
""",
    ),
    KnownWrong(
        "last_loss_reported",
        fails=("scaled_step/loss", "scaled_step/formats"),
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""The returned loss is that of the last micro-batch. The update uses all micro-batches, so the log
        shows the loss of a smaller batch than the update's. Return the mean over all micro-batches.""",
        change="""
-    return total / len(micro_batches), updated
+    return loss.item(), updated
""",
    ),
    KnownWrong(
        "updates_every_micro_batch",
        fails=("scaled_step/loss", "scaled_step/update", "scaled_step/scaled", "scaled_step/formats"),
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""Every micro-batch gets its own update. That is training with small batches, and with several
        times as many updates as the schedule counts. Add up the gradients of all micro-batches, then update once.""",
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
        explanation="""The returned loss is the sum over the micro-batches, too large by their number. The update is
        right, but the logged loss depends on how the batch was split. Return the mean.""",
        change="""
-    return total / len(micro_batches), updated
+    return total, updated
""",
    ),
    KnownWrong(
        "never_cleared",
        fails=("scaled_step/update",),
        read="labs/lab-03-amp.md#mental-model",
        explanation="""Gradients from before the call are not cleared. Each backward then adds scaled gradients to old
        unscaled ones, and after the first overflow they stay infinite. Clear the gradients before the first
        backward.""",
        change="""
-    optimizer.zero_grad(set_to_none=True)
""",
    ),
    KnownWrong(
        "cleared_every_micro_batch",
        fails=("scaled_step/update", "scaled_step/skip"),
        read="handbook/backpropagation.md#gradients-add-up-in-pgrad",
        explanation="""The gradients are cleared between micro-batches, so the update uses only the last one, divided by
        their number. Clear once, before the first backward; after that backward adds up.""",
        change="""
     for x, y in micro_batches:
+        optimizer.zero_grad()
""",
    ),
    KnownWrong(
        "updates_follow_the_sum",
        fails=("scaled_step/update", "scaled_step/scaled"),
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""The losses are not divided by the number of micro-batches. The gradient is then too large by that
        number: SGD takes too long a step, clipping starts too early, and fp16 overflows at a smaller scale.""",
        change="""
-        (loss * scale / len(micro_batches)).backward()
+        (loss * scale).backward()
""",
    ),
    KnownWrong(
        "never_scaled",
        fails=("scaled_step/update", "scaled_step/scaled", "scaled_step/skip"),
        read="labs/lab-03-amp.md#mental-model",
        explanation="""Backward runs on the loss without the scale, but the gradients are divided by the scale. fp16
        underflows as it does without a scale, and the update is too small by the scale. Multiply the loss by the scale
        before backward.""",
        change="""
-        (loss * scale / len(micro_batches)).backward()
+        (loss / len(micro_batches)).backward()
""",
    ),
    KnownWrong(
        "never_unscales",
        fails=("scaled_step/update",),
        read="labs/lab-03-amp.md#mental-model",
        explanation="""The gradients are still multiplied by the scale when the optimizer reads them. Clipping then cuts
        nearly all of them to max_norm, so every step has the same length; without clipping SGD diverges. Divide by the
        scale first.""",
        change="""
-    updated = not unscale(model.parameters(), scale)
+    gradients = [one.grad for one in model.parameters() if one.grad is not None]
+    updated = all(bool(one.isfinite().all()) for one in gradients)
""",
    ),
    KnownWrong(
        "first_group_alone",
        fails=("scaled_step/update", "scaled_step/skip"),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""Only the gradients of the optimizer's first parameter group are divided by the scale, tested and
        clipped. The gradients of the other groups keep the scale. Take the parameters of the model.""",
        change="""
-    updated = not unscale(model.parameters(), scale)
-    if updated:
-        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
+    parameters = optimizer.param_groups[0]["params"]
+    updated = not unscale(parameters, scale)
+    if updated:
+        nn.utils.clip_grad_norm_(parameters, max_norm)
""",
    ),
    KnownWrong(
        "unscaled_every_micro_batch",
        fails=("scaled_step/update",),
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""The gradients are divided by the scale after each backward. Earlier micro-batches are then
        divided several times, so almost only the last one counts. Let the gradients add up with the scale, and divide
        once, after the last backward.""",
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
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""The gradients are divided by the scale twice, so the update is too small by the scale. With SGD
        the loss hardly changes; AdamW divides by the gradient's size and hides the error until weight decay outweighs
        the gradients. Unscale once.""",
        change="""
-    updated = not unscale(model.parameters(), scale)
+    updated = not unscale(model.parameters(), scale) + unscale(model.parameters(), scale)
""",
    ),
    KnownWrong(
        "one_backward_for_all",
        fails=("scaled_step/scaled", "scaled_step/skip"),
        read="handbook/gradient-mechanics.md#accumulation-saves-activations-only",
        explanation="""All forward passes run before the first backward. The gradient is right, but the activations of
        all micro-batches are in memory at once, as with one large batch. Run backward for each micro-batch before the
        next forward pass.""",
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
        explanation="""Backward runs on the loss without the scale, and the gradients are multiplied by it afterwards.
        The backward pass has already stored gradients in 16 bits, and a number that became 0 there stays 0. Multiply
        the loss, before backward.""",
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
        activations of the whole batch are in memory at once, which micro-batches avoid. Run one forward and one
        backward for each micro-batch.""",
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
        explanation="""Clipping runs before unscaling. Nearly every scaled gradient is above max_norm, so it is cut to
        max_norm and then divided by the scale: the update nearly vanishes. AdamW divides by the gradient's size and
        hides this. Unscale first.""",
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
        explanation="""The gradient is not clipped: the optimizer reads it at full length for every max_norm. (A limit
        that is multiplied by the scale also clips nothing.) Clip to max_norm after unscaling.""",
        change="""
-        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
""",
    ),
    KnownWrong(
        "first_group_clipped",
        fails=("scaled_step/clip",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""Only the gradients of the optimizer's first parameter group are clipped. The norm lacks the
        other groups, whose gradients keep their length, so the update can be too long and its direction changes. Clip
        all parameters of the model together.""",
        change="""
-        nn.utils.clip_grad_norm_(model.parameters(), max_norm)
+        nn.utils.clip_grad_norm_(optimizer.param_groups[0]["params"], max_norm)
""",
    ),
    KnownWrong(
        "clips_every_micro_batch",
        fails=("scaled_step/clip",),
        read="handbook/gradient-mechanics.md#clipping-by-norm-and-by-value",
        explanation="""The gradient is clipped after each micro-batch, before it is complete. The early micro-batches
        are cut more often than the last, so the gradient's direction changes. Clip once, after the last backward and
        after unscaling.""",
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
        explanation="""An update is made although gradients are not finite, as when they are replaced by zeros. With a
        gradient of 0, AdamW still applies its averages and weight decay and counts a step. Skip the update: neither
        weights nor optimizer state may change.""",
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
        explanation="""The update is made even when gradients are not finite. A growing scale causes overflows by
        design, and one such update makes the weights nan. Update only if unscale returns an empty list.""",
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
        read="handbook/precision.md#autocast-the-format-of-each-operation",
        explanation="""The loss is scaled and the gradients are unscaled, but the layers run in fp32: autocast is off.
        The step works, but it is not faster, and fp32 needs no scale. Run the forward pass and the loss under
        autocast.""",
        change="""
-        with torch.autocast("cpu", dtype=low):
-            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
+        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
""",
    ),
    KnownWrong(
        "loss_outside_autocast",
        fails=("scaled_step/skip", "scaled_step/formats"),
        read="handbook/precision.md#autocast-the-format-of-each-operation",
        explanation="""The model runs under autocast and the loss does not. The logits are 16-bit, and without autocast
        cross_entropy computes in 16 bits: the loss has about 3 digits. Under autocast cross_entropy runs in fp32:
        compute the loss inside the block.""",
        change="""
-            loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten())
+            logits = model(x)
+        loss = F.cross_entropy(logits.flatten(0, 1), y.flatten())
""",
    ),
    KnownWrong(
        "low_ignored",
        fails=(
            "scaled_step/skip",
            "scaled_step/formats",
        ),
        read="handbook/precision.md#autocast-the-format-of-each-operation",
        explanation="""Forward pass and loss run in bf16 for every `low`. bf16 is torch.autocast's default on a CPU. A
        step with low=torch.float16 then shows neither the digits nor the overflows of fp16. Pass `low` to autocast.""",
        change="""
-        with torch.autocast("cpu", dtype=low):
+        with torch.autocast("cpu"):
""",
    ),
    KnownWrong(
        "leaves_out_a_loss_of_nan",
        fails=("scaled_step/skip",),
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""A micro-batch with a loss of nan is left out, and the others make an update. The update is then
        not that of the mean loss, and a model whose weights are nan seems to train on. Run backward for each
        micro-batch, and skip the whole update where a gradient is not finite.""",
        change="""
-        (loss * scale / len(micro_batches)).backward()
+        if loss.isfinite():
+            (loss * scale / len(micro_batches)).backward()
""",
    ),
    KnownWrong(
        "infinite_loss_skips_the_update",
        fails=("scaled_step/skip",),
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""The update is left out because the loss is infinite, although every gradient is finite. A target
        whose logit is masked with -inf has an infinite loss and a finite gradient. Only the gradient decides: test it
        after unscaling.""",
        change="""
-    updated = not unscale(model.parameters(), scale)
+    updated = not unscale(model.parameters(), scale) and total < float("inf")
""",
    ),
    KnownWrong(
        "returns_at_an_overflow",
        fails=("scaled_step/skip",),
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""The function returns as soon as a scaled loss is inf, so the returned loss lacks the later
        micro-batches. It is then no mean over the batch, and a log shows jumps. Run all micro-batches, and then decide
        on the update.""",
        change="""
-        (loss * scale / len(micro_batches)).backward()
         total += loss.item()
+        if not (loss * scale / len(micro_batches)).isfinite():
+            return total / len(micro_batches), False
+        (loss * scale / len(micro_batches)).backward()
""",
    ),
    KnownWrong(
        "loss_divided_by_the_scale",
        fails=("scaled_step/skip",),
        read="handbook/precision.md#dynamic-loss-scaling",
        explanation="""The returned loss is the scaled loss divided by the scale. With a large scale, the scaled loss is
        inf in fp32, and inf divided by the scale is inf. Take loss.item() before you multiply by the scale.""",
        change="""
-        (loss * scale / len(micro_batches)).backward()
+        loss = loss * scale / len(micro_batches)
+        loss.backward()
@@
-    return total / len(micro_batches), updated
+    return total / scale, updated
""",
    ),
    KnownWrong(
        "stops_at_the_first_overflow",
        fails=("scaled_step/skip",),
        read="labs/lab-03-amp.md#scaled_step",
        explanation="""Micro-batches after the first overflow are left out, so the returned loss of a skipped step is
        not the mean over all of them. Logged losses are then not comparable. Run all micro-batches in every step.""",
        change="""
         total += loss.item()
+        if not all(bool(p.grad.isfinite().all()) for p in model.parameters() if p.grad is not None):
+            break
""",
    ),
    KnownWrong(
        "always_fp16",
        fails=("scaled_step/formats",),
        read="handbook/precision.md#autocast-the-format-of-each-operation",
        explanation="""Forward pass and loss run in fp16 for every `low`. With low=torch.bfloat16 the step then has the
        range of fp16 and overflows where bf16 would not. Pass `low` to autocast.""",
        change="""
-        with torch.autocast("cpu", dtype=low):
+        with torch.autocast("cpu", dtype=torch.float16):
""",
    ),
    KnownWrong(
        "backward_under_autocast",
        fails=("scaled_step/formats",),
        read="handbook/precision.md#autocast-the-format-of-each-operation",
        explanation="""Autocast is on during backward. Each backward operation already runs in the format of its forward
        operation. With autocast on, hooks and custom backward functions are cast too, and PyTorch's documentation
        advises against it. Leave autocast before backward.""",
        change="""
-        (loss * scale / len(micro_batches)).backward()
+            (loss * scale / len(micro_batches)).backward()
""",
    ),
    KnownWrong(
        "cleared_after_the_update",
        fails=("scaled_step/stale",),
        read="labs/lab-03-amp.md#mental-model",
        explanation="""Gradients are cleared after an update, but not before the first backward. A skipped step leaves
        inf in them; inf plus any number is not finite, so every later step is skipped too, while the scale falls toward
        0. Clear before the first backward.""",
        change="""
-    optimizer.zero_grad(set_to_none=True)
@@
         optimizer.step()
+        optimizer.zero_grad(set_to_none=True)
""",
    ),
    KnownWrong(
        "cleared_to_zero",
        fails=("scaled_step/stale",),
        read="handbook/gradient-mechanics.md#a-gradient-of-none-and-a-gradient-of-zero",
        explanation="""Old gradients are set to 0, not to None. An optimizer skips a parameter only if its gradient is
        None: with 0, weight decay and momentum change a parameter that the model does not use. Clear with
        set_to_none=True.""",
        change="""
-    optimizer.zero_grad(set_to_none=True)
+    optimizer.zero_grad(set_to_none=False)
""",
    ),
    KnownWrong(
        "training_mode_forced",
        fails=("scaled_step/mode",),
        read="handbook/forward-pass.md#evaluation-mode-and-no_grad",
        explanation="""The model is put into training mode although the caller had it, or a part of it, in evaluation
        mode. Fine-tuning with dropout off on purpose then trains with dropout on. Run the model in the mode it has.""",
        change="""
     optimizer.zero_grad(set_to_none=True)
+    model.train()
""",
    ),
    KnownWrong(
        "masters_in_half",
        fails=("master_weights/copies", "master_weights/step"),
        read="handbook/precision.md#the-format-of-each-number",
        explanation="""The masters have the weights' own dtype. A bf16 master holds the same number as its bf16 weight:
        between 1 and 2 it can change only in steps of 0.0078, so small updates are lost. Make the masters fp32.""",
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
        explanation="""Masters of fp32 weights share memory with the model. A conversion to fp32 copies a 16-bit weight,
        but for an fp32 weight it returns the same tensor, so the optimizer changes the model directly. clone() always
        copies.""",
        change="""
-    return [nn.Parameter(parameter.detach().clone().float()) for parameter in model.parameters()]
+    return [nn.Parameter(parameter.detach().float()) for parameter in model.parameters()]
""",
    ),
    KnownWrong(
        "copied_the_wrong_way",
        fails=("master_weights/step",),
        read="handbook/precision.md#the-format-of-each-number",
        explanation="""After the update the weights are copied into the masters, which undoes the update. The masters
        hold the exact numbers: copy them into the weights, which are rounded copies.""",
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
        runs in fp32: slower, and with twice the bytes. copy_ rounds the masters into the existing tensors.""",
        change="""
-            parameter.copy_(master)
+            parameter.data = master.data
""",
    ),
    KnownWrong(
        "optimizer_never_steps",
        fails=("master_weights/step",),
        read="handbook/precision.md#the-format-of-each-number",
        explanation="""The masters do not change: there is no update, or it is undone. Give the gradients to the
        masters, call optimizer.step(), and copy the masters into the model.""",
        change="""
-    optimizer.step()
""",
    ),
    KnownWrong(
        "update_before_the_gradients",
        fails=("master_weights/step",),
        read="handbook/precision.md#the-format-of-each-number",
        explanation="""The optimizer steps before the masters have this step's gradients. The first step does nothing,
        and each later one uses the gradients of the step before. Set master.grad first.""",
        change="""
+    optimizer.step()
     for parameter, master in zip(model.parameters(), masters, strict=True):
@@
-    optimizer.step()
""",
    ),
    KnownWrong(
        "masters_in_the_groups_order",
        fails=("master_weights/step",),
        read="labs/lab-03-amp.md#master_weights",
        explanation="""Weights are paired with the tensors of the optimizer's parameter groups. The groups may hold the
        masters in another order, as after the usual split into weights with and without decay. A weight then gets
        another weight's master. Pair with `masters`: make_masters keeps the model's order.""",
        change="""
-    for parameter, master in zip(model.parameters(), masters, strict=True):
-        master.grad = None if parameter.grad is None else parameter.grad.float()
+    masters = [master for group in optimizer.param_groups for master in group["params"]]
+    for parameter, master in zip(model.parameters(), masters, strict=True):
+        master.grad = None if parameter.grad is None else parameter.grad.float()
""",
    ),
    KnownWrong(
        "updates_the_weights_instead",
        fails=("master_weights/step",),
        read="handbook/precision.md#the-format-of-each-number",
        explanation="""The change of each master is added to the 16-bit weight. Each addition is rounded to 16 bits, so
        small updates are lost, and weights and masters drift apart. Copy the whole master into the weight.""",
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
        explanation="""The masters are updated, but the model's weights stay unchanged. The optimizer's state changes
        and the loss does not. Copy the masters into the model after each update.""",
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
        explanation="""All weights are rounded to one 16-bit format, fp32 weights too, so an fp32 norm loses at least 13
        of its 24 bits of precision. Round each master to the dtype of its own parameter.""",
        change="""
-            parameter.copy_(master)
+            parameter.copy_(master.bfloat16())
""",
    ),
    KnownWrong(
        "masters_rounded_too",
        fails=("master_weights/step",),
        read="handbook/precision.md#the-format-of-each-number",
        explanation="""The masters are rounded to the weights' precision after each step. Updates below that precision
        are lost every time and never add up, so the masters have no use. Round only the weights.""",
        change="""
             parameter.copy_(master)
+            master.copy_(parameter)
""",
    ),
    KnownWrong(
        "gradients_added_up",
        fails=("master_weights/small", "master_weights/none"),
        read="handbook/backpropagation.md#gradients-add-up-in-pgrad",
        explanation="""The masters' gradients of earlier steps are added to those of this step, so every step follows
        the sum of all gradients so far. model.zero_grad() clears the model's gradients, not the masters'. Replace
        master.grad in each step.""",
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
        explanation="""The masters are set to the 16-bit weights between two steps. Updates below the weights' precision
        are then lost in every step. After make_masters, never copy weights into masters.""",
        change="""
     for parameter, master in zip(model.parameters(), masters, strict=True):
+        master.data.copy_(parameter.data)
""",
    ),
    KnownWrong(
        "none_becomes_zero",
        fails=("master_weights/none",),
        read="handbook/precision.md#the-format-of-each-number",
        explanation="""A master whose parameter has no gradient gets a gradient of zeros. AdamW then still applies its
        averages and weight decay to it. Set master.grad to None: the optimizer skips it.""",
        change="""
-        master.grad = None if parameter.grad is None else parameter.grad.float()
+        master.grad = torch.zeros_like(master) if parameter.grad is None else parameter.grad.float()
""",
    ),
    KnownWrong(
        "old_gradient_stays",
        fails=("master_weights/none",),
        read="handbook/precision.md#the-format-of-each-number",
        explanation="""The master of a parameter without a gradient keeps its gradient from an earlier step, and the
        optimizer applies that gradient again in every later step. Where the parameter's gradient is None, set the
        master's to None.""",
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
        explanation="""The model's parameters lie in new memory after the step. Code that refers to the old memory, such
        as DDP's buckets or a captured CUDA graph, keeps using old weights. copy_ writes into the existing memory.""",
        change="""
-            parameter.copy_(master)
+            parameter.data = master.detach().clone().to(parameter.dtype)
""",
    ),
    KnownWrong(
        "gradients_unset",
        fails=("master_weights/model",),
        read="handbook/precision.md#the-format-of-each-number",
        explanation="""The gradients of the model's parameters are removed or changed by the step. They belong to the
        caller, who may log their norm after the step or add the next micro-batch to them. Leave them unchanged.""",
        change="""
         master.grad = None if parameter.grad is None else parameter.grad.float()
+        parameter.grad = None
""",
    ),
)

HURRIED = {
    "share_lost": {
        "the scale is in 16 bits": """
-        lost += int(((nonzero * scale).to(dtype) == 0).sum())
+        lost += int(((nonzero * torch.tensor(scale).to(dtype)).to(dtype) == 0).sum())
""",
        "inf is left out": """
-        nonzero = gradient[gradient != 0]
+        nonzero = gradient[(gradient != 0) & gradient.isfinite()]
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
        "frozen ones have no master": """
-    return [nn.Parameter(parameter.detach().clone().float()) for parameter in model.parameters()]
+    return [nn.Parameter(p.detach().clone().float()) for p in model.parameters() if p.requires_grad]
""",
        "masters of the first group alone": """
-    for parameter, master in zip(model.parameters(), masters, strict=True):
-        master.grad = None if parameter.grad is None else parameter.grad.float()
+    for parameter, master in zip(model.parameters(), optimizer.param_groups[0]["params"]):
+        master.grad = None if parameter.grad is None else parameter.grad.float()
""",
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
