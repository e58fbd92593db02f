"""Known-wrong solutions of Lab 01, and hurried answers, as changes to exercises.py."""

from rankzero.exercises.checks.known_wrong import KnownWrong

KNOWN_WRONG = (
    KnownWrong(
        "biases_counted",
        fails=("parameter_count/block",),
        read="handbook/memory.md#kinds-of-memory-in-a-step",
        explanation="""Biases are counted. GPT-2 has a bias for each matrix and each norm; this GPT, like most later
        models, has none. A parameter count in a paper may be with or without biases.""",
        change="""
-    block = 3 * C * C + C * C + 2 * 4 * C * C + 2 * C
+    block = 12 * C * C + 9 * C + 2 * 2 * C
@@
-    return vocab_size * C + block_size * C + n_layer * block + C + output
+    return vocab_size * C + block_size * C + n_layer * block + 2 * C + output
""",
    ),
    KnownWrong(
        "mlp_counted_once",
        fails=("parameter_count/block",),
        read="handbook/memory.md#kinds-of-memory-in-a-step",
        explanation="""The MLP has two matrices of 4C times C, one that widens and one that narrows. Here only one is
        counted: a block then has 8 C squared instead of 12.""",
        change="""
-    block = 3 * C * C + C * C + 2 * 4 * C * C + 2 * C
+    block = 3 * C * C + C * C + 4 * C * C + 2 * C
""",
    ),
    KnownWrong(
        "norms_forgotten",
        fails=("parameter_count/block",),
        read="handbook/memory.md#kinds-of-memory-in-a-step",
        explanation="""The LayerNorm weights are missing. 12·C² counts a block's matrices only. Each block also has two
        norms of hidden_dim weights, and one more norm follows the last block.""",
        change="""
-    block = 3 * C * C + C * C + 2 * 4 * C * C + 2 * C
+    block = 3 * C * C + C * C + 2 * 4 * C * C
@@
-    return vocab_size * C + block_size * C + n_layer * block + C + output
+    return vocab_size * C + block_size * C + n_layer * block + output
""",
    ),
    KnownWrong(
        "last_norm_forgotten",
        fails=("parameter_count/tied",),
        read="handbook/memory.md#kinds-of-memory-in-a-step",
        explanation="""The norm after the last block is missing. It adds hidden_dim parameters. That is few beside
        millions, but only a count that is exact can be checked against the model.""",
        change="""
-    return vocab_size * C + block_size * C + n_layer * block + C + output
+    return vocab_size * C + block_size * C + n_layer * block + output
""",
    ),
    KnownWrong(
        "positions_forgotten",
        fails=("parameter_count/tied",),
        read="handbook/memory.md#kinds-of-memory-in-a-step",
        explanation="""The learned positions are missing: a second embedding, block_size rows of hidden_dim numbers.
        Models with rotary positions have no such embedding; this GPT has one.""",
        change="""
-    return vocab_size * C + block_size * C + n_layer * block + C + output
+    return vocab_size * C + n_layer * block + C + output
""",
    ),
    KnownWrong(
        "tied_counted_twice",
        fails=("parameter_count/tied", "parameter_count/untied"),
        read="handbook/memory.md#kinds-of-memory-in-a-step",
        explanation="""The output layer is counted although it is the token embedding's own matrix. A tied matrix has
        two uses, but it is in memory once and has one gradient.""",
        change="""
-    output = 0 if tied else vocab_size * C
+    output = vocab_size * C
""",
    ),
    KnownWrong(
        "tied_ignored",
        fails=("parameter_count/untied",),
        read="handbook/memory.md#kinds-of-memory-in-a-step",
        explanation="""The count is the same with and without `tied`. An untied output layer is one more matrix, of
        vocab_size rows. In a small model with a large vocabulary it is a large part of the model.""",
        change="""
-    output = 0 if tied else vocab_size * C
+    output = 0
""",
    ),
    KnownWrong(
        "positions_with_vocabulary",
        fails=("parameter_count/untied",),
        read="handbook/memory.md#kinds-of-memory-in-a-step",
        explanation="""An untied output layer is counted with a row for each position too. The output layer computes one
        logit per token of the vocabulary, so it has vocab_size rows. Only the embedding of positions has a row for each
        position.""",
        change="""
-    output = 0 if tied else vocab_size * C
+    output = 0 if tied else (vocab_size + block_size) * C
""",
    ),
    KnownWrong(
        "masters_in_fp32_too",
        fails=("state_bytes/fp32", "state_bytes/optimizers"),
        read="handbook/memory.md#bytes-per-parameter-8-12-16-18-20",
        explanation="""Master weights are counted although the weights are in fp32. Master weights are an fp32 copy;
        only a recipe whose model computes in fewer bits than the optimizer needs that copy.""",
        change="""
-        "fp32": (4, 4, 0, 4),
+        "fp32": (4, 4, 4, 4),
""",
    ),
    KnownWrong(
        "one_average",
        fails=("state_bytes/fp32", "state_bytes/mixed", "state_bytes/bf16"),
        read="handbook/memory.md#optimizer-state",
        explanation="""One average per parameter is counted for AdamW. AdamW keeps two: of the gradient and of its
        square. SGD with momentum keeps one.""",
        change="""
-    averages = {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer]
+    averages = {"sgd": 0, "momentum": 1, "adamw": 1}[optimizer]
""",
    ),
    KnownWrong(
        "step_counts_forgotten",
        fails=("state_bytes/fp32", "state_bytes/mixed", "state_bytes/bf16"),
        read="handbook/memory.md#optimizer-state",
        explanation="""AdamW's step counts are missing: one 4-byte number for each parameter tensor. They take only a
        few hundred bytes, but a memory leak shows only in a ledger that is right to the byte.""",
        change="""
-    steps = 4 * n_tensors if optimizer == "adamw" else 0
+    steps = 0
""",
    ),
    KnownWrong(
        "step_count_of_8_bytes",
        fails=(
            "state_bytes/fp32",
            "state_bytes/mixed",
            "state_bytes/bf16",
        ),
        read="handbook/memory.md#optimizer-state",
        explanation="""8 bytes per parameter tensor are counted for AdamW's step. torch keeps one step count per
        parameter tensor, a float32 tensor of one number: 4 bytes.""",
        change="""
-    steps = 4 * n_tensors if optimizer == "adamw" else 0
+    steps = 8 * n_tensors if optimizer == "adamw" else 0
""",
    ),
    KnownWrong(
        "one_step_count",
        fails=("state_bytes/fp32", "state_bytes/mixed", "state_bytes/bf16"),
        read="handbook/memory.md#optimizer-state",
        explanation="""One step count is counted for the whole model. AdamW keeps one for each parameter tensor, because
        it skips a tensor that has no gradient, and that tensor's count then stays behind.""",
        change="""
-    steps = 4 * n_tensors if optimizer == "adamw" else 0
+    steps = 4 if optimizer == "adamw" else 0
""",
    ),
    KnownWrong(
        "step_count_per_parameter",
        fails=("state_bytes/fp32", "state_bytes/mixed", "state_bytes/bf16"),
        read="handbook/memory.md#optimizer-state",
        explanation="""A step count is counted for each parameter. AdamW keeps one for each parameter tensor; all
        numbers of the tensor share it.""",
        change="""
-    steps = 4 * n_tensors if optimizer == "adamw" else 0
+    steps = 4 * n_parameters if optimizer == "adamw" else 0
""",
    ),
    KnownWrong(
        "half_averages_in_mixed",
        fails=("state_bytes/mixed", "state_bytes/optimizers"),
        read="handbook/memory.md#bytes-per-parameter-8-12-16-18-20",
        explanation="""AdamW's averages are counted in bf16, beside fp32 master weights. The average of the squared
        gradient often changes by only a thousandth per step. bf16 has 8 bits of precision and would round that change
        away, so both averages are in fp32.""",
        change="""
-        "mixed": (2, 2, 4, 4),
-        "mixed-fp32-accum": (2, 2 + 4, 4, 4),
+        "mixed": (2, 2, 4, 2),
+        "mixed-fp32-accum": (2, 6, 4, 2),
""",
    ),
    KnownWrong(
        "masters_forgotten",
        fails=("state_bytes/mixed", "state_bytes/optimizers"),
        read="handbook/memory.md#bytes-per-parameter-8-12-16-18-20",
        explanation="""The fp32 master weights are missing. Updates are often too small to change a bf16 weight, so
        mixed precision also keeps the weights in fp32: 4 more bytes per parameter.""",
        change="""
-        "mixed": (2, 2, 4, 4),
-        "mixed-fp32-accum": (2, 2 + 4, 4, 4),
+        "mixed": (2, 2, 0, 4),
+        "mixed-fp32-accum": (2, 6, 0, 4),
""",
    ),
    KnownWrong(
        "accumulator_replaces_gradient",
        fails=("state_bytes/accumulation", "state_bytes/optimizers"),
        read="handbook/memory.md#bytes-per-parameter-8-12-16-18-20",
        explanation="""The fp32 sum is counted instead of the bf16 gradients. Some recipes do that, such as
        Megatron-LM's with 18 bytes per parameter. In this recipe backward still writes bf16 gradients, which are then
        added to the sum. Count both: 20 bytes per parameter with AdamW.""",
        change="""
-        "mixed-fp32-accum": (2, 2 + 4, 4, 4),
+        "mixed-fp32-accum": (2, 4, 4, 4),
""",
    ),
    KnownWrong(
        "sum_in_the_optimizer_state",
        fails=("state_bytes/accumulation", "state_bytes/optimizers"),
        read="handbook/memory.md#bytes-per-parameter-8-12-16-18-20",
        explanation="""The fp32 sum of the gradients is counted as optimizer state. The total is right, but the sum
        holds gradients: count it under "gradients".""",
        change="""
-        "mixed-fp32-accum": (2, 2 + 4, 4, 4),
+        "mixed-fp32-accum": (2, 2, 4 + 4, 4),
""",
    ),
    KnownWrong(
        "masters_beside_bf16",
        fails=(
            "state_bytes/bf16",
            "state_bytes/optimizers",
        ),
        read="handbook/memory.md#bytes-per-parameter-8-12-16-18-20",
        explanation="""fp32 master weights and fp32 averages are counted for the pure bf16 recipe. This recipe keeps
        everything in bf16 and has no master weights: 8 bytes per parameter with AdamW.""",
        change="""
-        "bf16": (2, 2, 0, 2),
+        "bf16": (2, 2, 4, 4),
""",
    ),
    KnownWrong(
        "masters_for_bf16",
        fails=("state_bytes/bf16", "state_bytes/optimizers"),
        read="handbook/memory.md#bytes-per-parameter-8-12-16-18-20",
        explanation="""fp32 master weights are counted for the pure bf16 recipe. In this recipe the optimizer updates
        the bf16 weights directly: 8 bytes per parameter with AdamW.""",
        change="""
-        "bf16": (2, 2, 0, 2),
+        "bf16": (2, 2, 4, 2),
""",
    ),
    KnownWrong(
        "fp32_averages_for_bf16",
        fails=("state_bytes/bf16", "state_bytes/optimizers"),
        read="handbook/memory.md#bytes-per-parameter-8-12-16-18-20",
        explanation="""fp32 averages are counted for the pure bf16 recipe. This recipe keeps the averages in bf16, 2
        bytes each: 8 bytes per parameter with AdamW.""",
        change="""
-        "bf16": (2, 2, 0, 2),
+        "bf16": (2, 2, 0, 4),
""",
    ),
    KnownWrong(
        "momentum_like_adam",
        fails=("state_bytes/optimizers",),
        read="handbook/memory.md#optimizer-state",
        explanation="""Two averages per parameter are counted for SGD with momentum. It keeps one, the velocity.""",
        change="""
-    averages = {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer]
+    averages = {"sgd": 0, "momentum": 2, "adamw": 2}[optimizer]
""",
    ),
    KnownWrong(
        "steps_for_momentum",
        fails=("state_bytes/optimizers",),
        read="handbook/memory.md#optimizer-state",
        explanation="""Step counts are counted for SGD with momentum. Only AdamW needs them, to correct the bias of its
        averages in the first steps.""",
        change="""
-    steps = 4 * n_tensors if optimizer == "adamw" else 0
+    steps = 4 * n_tensors if optimizer != "sgd" else 0
""",
    ),
    KnownWrong(
        "masters_for_averages_alone",
        fails=("state_bytes/optimizers",),
        read="handbook/memory.md#bytes-per-parameter-8-12-16-18-20",
        explanation="""The fp32 master weights are missing with SGD. SGD keeps no averages, but the recipe decides
        whether there are master weights: in the mixed recipes every optimizer updates an fp32 copy.""",
        change="""
-    averages = {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer]
+    averages = {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer]
+    master = master if averages else 0
""",
    ),
    KnownWrong(
        "masters_for_adamw_alone",
        fails=("state_bytes/optimizers",),
        read="handbook/memory.md#bytes-per-parameter-8-12-16-18-20",
        explanation="""The fp32 master weights are missing with SGD or momentum. The recipe decides whether there are
        master weights, not the optimizer: in the mixed recipes every optimizer updates an fp32 copy.""",
        change="""
-    averages = {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer]
+    averages = {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer]
+    master = master if optimizer == "adamw" else 0
""",
    ),
    KnownWrong(
        "gelu_keeps_nothing",
        fails=("activation_bytes/fused", "activation_bytes/explicit"),
        read="handbook/forward-pass.md#tensors-kept-by-other-layers",
        explanation="""The count is short by 4·C numbers per token, the size of GELU's input. GELU's derivative depends
        on its input, so GELU keeps that input; the matrix product after GELU keeps GELU's output. Both tensors have 4·C
        numbers per token. Count both.""",
        change="""
-    attention = (C + 3 * C + C) * number  # its input; q, k, v; the output, which is also the last product's input
+    attention = 5 * C * number
     scores = 4 * n_head if fused else n_head * seq_len * number
-    mlp = (C + 4 * C + 4 * C) * number  # its input; before GELU; after GELU
+    mlp = 5 * C * number
""",
    ),
    KnownWrong(
        "one_of_q_k_v",
        fails=("activation_bytes/fused", "activation_bytes/explicit"),
        read="handbook/forward-pass.md#tensors-kept-by-other-layers",
        explanation="""The count is short by 2·C numbers per token, as when q, k and v are counted as one tensor of C
        numbers. Each of the three has C numbers per token, and attention's backward pass reads all three.""",
        change="""
-    attention = (C + 3 * C + C) * number  # its input; q, k, v; the output, which is also the last product's input
+    attention = 3 * C * number
""",
    ),
    KnownWrong(
        "residuals_kept",
        fails=("activation_bytes/fused", "activation_bytes/explicit"),
        read="handbook/forward-pass.md#tensors-kept-by-other-layers",
        explanation="""The count is too large by 2·C numbers per token, as when the two additions to the residual stream
        are counted. The derivative of a sum is 1 for any inputs, so autograd keeps nothing for an addition.""",
        change="""
-    norms = 2 * (C + 2) * number  # the input, mean and 1/std, twice
-    attention = (C + 3 * C + C) * number  # its input; q, k, v; the output, which is also the last product's input
+    norms = 2 * (C + 2) * number + 2 * C * number
+    attention = 5 * C * number
""",
    ),
    KnownWrong(
        "square_in_spite_of_fusing",
        fails=("activation_bytes/fused",),
        read="handbook/forward-pass.md#memory-of-attention",
        explanation="""The probabilities [B, H, T, T] are counted although attention is fused. Fused attention computes
        them again in the backward pass, piece by piece. It keeps one fp32 number per token and head instead.""",
        change="""
-    attention = (C + 3 * C + C) * number  # its input; q, k, v; the output, which is also the last product's input
-    scores = 4 * n_head if fused else n_head * seq_len * number
-    mlp = (C + 4 * C + 4 * C) * number  # its input; before GELU; after GELU
+    attention = 5 * C * number
+    scores = n_head * seq_len * number
+    mlp = 9 * C * number
""",
    ),
    KnownWrong(
        "log_sum_exp_forgotten",
        fails=("activation_bytes/fused",),
        read="handbook/forward-pass.md#memory-of-attention",
        explanation="""Fused attention's log-sum-exp is missing: one fp32 number per token and head. The backward pass
        computes the probabilities again from it.""",
        change="""
-    scores = 4 * n_head if fused else n_head * seq_len * number
+    scores = 0 if fused else n_head * seq_len * number
""",
    ),
    KnownWrong(
        "statistics_forgotten",
        fails=("activation_bytes/fused", "activation_bytes/explicit"),
        read="handbook/forward-pass.md#tensors-kept-by-other-layers",
        explanation="""LayerNorm's mean and 1/std are missing: two numbers per token for each of the two norms. They are
        small, and published formulas leave them out; this count is exact to the byte.""",
        change="""
-    norms = 2 * (C + 2) * number  # the input, mean and 1/std, twice
-    attention = (C + 3 * C + C) * number  # its input; q, k, v; the output, which is also the last product's input
+    norms = 2 * C * number
+    attention = 5 * C * number
""",
    ),
    KnownWrong(
        "published_formula",
        fails=(
            "activation_bytes/fused",
            "activation_bytes/explicit",
        ),
        read="handbook/memory.md#a-published-formula-term-by-term",
        explanation="""The count is 34·B·T·C bytes, and 5·B·H·T² more without fused attention: the formula published
        for a GPT in fp16 with dropout. This GPT has no dropout masks, and a number may take 4 bytes.""",
        change="""
-    return tokens * (norms + attention + scores + mlp)
+    return tokens * (34 * C + (0 if fused else 5 * n_head * seq_len))
""",
    ),
    KnownWrong(
        "log_sum_exp_in_half",
        fails=("activation_bytes/half",),
        read="handbook/forward-pass.md#memory-of-attention",
        explanation="""The log-sum-exp is counted with 2 bytes per number. Fused attention keeps it in fp32 in every
        recipe, because bf16 would round it too coarsely: count 4 bytes even where other numbers take 2.""",
        change="""
-    attention = (C + 3 * C + C) * number  # its input; q, k, v; the output, which is also the last product's input
-    scores = 4 * n_head if fused else n_head * seq_len * number
-    mlp = (C + 4 * C + 4 * C) * number  # its input; before GELU; after GELU
+    attention = 5 * C * number
+    scores = number * n_head if fused else n_head * seq_len * number
+    mlp = 9 * C * number
""",
    ),
    KnownWrong(
        "statistics_in_fp32",
        fails=(
            "activation_bytes/half",
            "activation_bytes/explicit",
        ),
        read="handbook/forward-pass.md#tensors-kept-by-other-layers",
        explanation="""LayerNorm's mean and 1/std are counted with 4 bytes each in every dtype. In this GPT they have
        the dtype of the other activations: count `number` bytes each.""",
        change="""
-    norms = 2 * (C + 2) * number  # the input, mean and 1/std, twice
+    norms = 2 * (C * number + 2 * 4)
""",
    ),
    KnownWrong(
        "square_of_one_head",
        fails=("activation_bytes/explicit",),
        read="handbook/forward-pass.md#memory-of-attention",
        explanation="""The probabilities of one head are counted. Without fused attention, each head keeps its own [T,
        T] probabilities: n_head times seq_len numbers per token, not seq_len.""",
        change="""
-    attention = (C + 3 * C + C) * number  # its input; q, k, v; the output, which is also the last product's input
-    scores = 4 * n_head if fused else n_head * seq_len * number
-    mlp = (C + 4 * C + 4 * C) * number  # its input; before GELU; after GELU
+    attention = 5 * C * number
+    scores = 4 * n_head if fused else seq_len * number
+    mlp = 9 * C * number
""",
    ),
    KnownWrong(
        "scores_beside_probabilities",
        fails=("activation_bytes/explicit",),
        read="handbook/forward-pass.md#memory-of-attention",
        explanation="""Two [T, T] tensors are counted per head. The softmax's derivative is computed from the softmax's
        output, so autograd keeps the probabilities and not the scores. Count one.""",
        change="""
-    scores = 4 * n_head if fused else n_head * seq_len * number
+    scores = 4 * n_head if fused else 2 * n_head * seq_len * number
""",
    ),
    KnownWrong(
        "probabilities_always_in_fp32",
        fails=("activation_bytes/explicit",),
        read="handbook/forward-pass.md#memory-of-attention",
        explanation="""The attention probabilities are counted with 4 bytes each in every dtype. They have the dtype of
        the other activations: 2 bytes in bf16.""",
        change="""
-    scores = 4 * n_head if fused else n_head * seq_len * number
+    scores = 4 * n_head if fused else n_head * seq_len * 4
""",
    ),
    KnownWrong(
        "log_sum_exp_without_fusing",
        fails=("activation_bytes/explicit",),
        read="handbook/forward-pass.md#memory-of-attention",
        explanation="""One fp32 number per token and head is counted beside the probabilities. That number is fused
        attention's log-sum-exp. Without fused attention, autograd keeps the probabilities instead of it.""",
        change="""
-    scores = 4 * n_head if fused else n_head * seq_len * number
+    scores = 4 * n_head + (0 if fused else n_head * seq_len * number)
""",
    ),
    KnownWrong(
        "probabilities_always_in_half",
        fails=("activation_bytes/explicit",),
        read="handbook/forward-pass.md#memory-of-attention",
        explanation="""The attention probabilities are counted with 2 bytes each in every dtype. They have the dtype of
        the other activations: 4 bytes in fp32.""",
        change="""
-    scores = 4 * n_head if fused else n_head * seq_len * number
+    scores = 4 * n_head if fused else n_head * seq_len * 2
""",
    ),
    KnownWrong(
        "half_a_square",
        fails=("activation_bytes/explicit",),
        read="handbook/forward-pass.md#memory-of-attention",
        explanation="""Half of the attention probabilities are counted, as if the tensor left out the positions that the
        causal mask hides. The masked probabilities are 0, but they are in memory: the tensor has the shape [B, H, T,
        T].""",
        change="""
-    scores = 4 * n_head if fused else n_head * seq_len * number
+    scores = 4 * n_head if fused else n_head * (seq_len + 1) * number // 2
""",
    ),
    KnownWrong(
        "saved_tensors_are_freed",
        fails=("saved_bytes/chain",),
        read="handbook/forward-pass.md#a-linear-layer-keeps-its-input",
        explanation="""The count is too small in a deep model, as when only the addresses of saved tensors are kept. If
        neither pack nor the graph holds a tensor, it is freed during the forward pass, and a later tensor gets the same
        address and is taken for the same one. Keep a reference to each storage until you add up.""",
        change="""
-            kept[storage.data_ptr()] = storage  # holding it keeps its address from being used again
-        return tensor
+            kept[storage.data_ptr()] = storage.nbytes()
@@
-    return sum(storage.nbytes() for storage in kept.values())
+    return sum(kept.values())
""",
    ),
    KnownWrong(
        "seen_in_an_earlier_call",
        fails=("saved_bytes/chain",),
        read="handbook/forward-pass.md#a-linear-layer-keeps-its-input",
        explanation="""The count depends on earlier calls, as where a set of storages already seen, or a sum, is kept
        outside the function. Another call must count the same memory again, and nothing else. Create such variables
        inside the function.""",
        change="""
-        if storage.data_ptr() not in own:
+        if storage.data_ptr() not in own and storage.data_ptr() not in SEEN:
+            SEEN[storage.data_ptr()] = storage
""",
        definitions="SEEN = {}",
    ),
    KnownWrong(
        "every_save_counts",
        fails=("saved_bytes/chain", "saved_bytes/views"),
        read="handbook/forward-pass.md#a-linear-layer-keeps-its-input",
        explanation="""The bytes of all saved tensors are added up. Several operations may save the same memory: the
        output of one layer is the input of the next. Count each storage once.""",
        change="""
-    kept = {}
+    kept = []
@@
-        storage = tensor.untyped_storage()
-        if storage.data_ptr() not in own:
-            kept[storage.data_ptr()] = storage  # holding it keeps its address from being used again
+        if tensor.untyped_storage().data_ptr() not in own:
+            kept.append(tensor.untyped_storage())
@@
-    return sum(storage.nbytes() for storage in kept.values())
+    return sum(storage.nbytes() for storage in kept)
""",
    ),
    KnownWrong(
        "nothing_saved",
        fails=(
            "saved_bytes/chain",
            "saved_bytes/views",
            "saved_bytes/as-found",
            "saved_bytes/half",
            "saved_bytes/square",
            "saved_bytes/frozen",
            "saved_bytes/buffers",
            "saved_bytes/token-ids",
            "saved_bytes/whole-storage",
        ),
        read="handbook/forward-pass.md#evaluation-mode-and-no_grad",
        explanation="""Nothing is counted. Autograd saves nothing while gradients are off, and hooks see only tensors
        that are saved inside their context. Run the model inside that context, with gradients on.""",
        change="""
-        output = model(x)  # held, so that nothing is freed before it is counted
+        with torch.no_grad():
+            output = model(x)
""",
    ),
    KnownWrong(
        "numbers_for_bytes",
        fails=(
            "saved_bytes/chain",
            "saved_bytes/views",
            "saved_bytes/as-found",
            "saved_bytes/half",
            "saved_bytes/square",
            "saved_bytes/frozen",
            "saved_bytes/buffers",
            "saved_bytes/token-ids",
            "saved_bytes/whole-storage",
        ),
        read="handbook/forward-pass.md#a-linear-layer-keeps-its-input",
        explanation="""Elements are counted, not bytes. An element takes 4 bytes in fp32 and 2 in bf16. Multiply by
        element_size(), or read the storage's nbytes().""",
        change="""
-            kept[storage.data_ptr()] = storage  # holding it keeps its address from being used again
+            kept[storage.data_ptr()] = storage, tensor.element_size()
@@
-    return sum(storage.nbytes() for storage in kept.values())
+    return sum(storage.nbytes() // size for storage, size in kept.values())
""",
    ),
    KnownWrong(
        "weights_counted",
        fails=(
            "saved_bytes/chain",
            "saved_bytes/as-found",
            "saved_bytes/frozen",
            "saved_bytes/buffers",
            "saved_bytes/token-ids",
        ),
        read="handbook/forward-pass.md#a-linear-layer-keeps-its-input",
        explanation="""The model's weights are counted. Autograd saves them, because the backward pass reads them, but
        they are in memory without the batch too. Leave out storages that belong to parameters.""",
        change="""
-    own = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
+    own = {tensor.untyped_storage().data_ptr() for tensor in model.buffers()}
""",
    ),
    KnownWrong(
        "input_left_out",
        fails=(
            "saved_bytes/chain",
            "saved_bytes/views",
            "saved_bytes/as-found",
            "saved_bytes/half",
            "saved_bytes/square",
            "saved_bytes/buffers",
            "saved_bytes/token-ids",
            "saved_bytes/whole-storage",
        ),
        read="handbook/forward-pass.md#a-linear-layer-keeps-its-input",
        explanation="""The input `x` is not counted. The first layer saves `x` to compute its weight's gradient, so `x`
        cannot be freed before the backward pass. Count it like every other saved tensor.""",
        change="""
-    own = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
+    own = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers(), x)}
""",
    ),
    KnownWrong(
        "views_by_their_size",
        fails=("saved_bytes/views", "saved_bytes/whole-storage"),
        read="handbook/forward-pass.md#a-linear-layer-keeps-its-input",
        explanation="""Each saved tensor is counted with its own size. A view keeps its whole storage in memory, even
        if the view is a small part of it, and several views may share one storage. Count storages, each once and
        whole.""",
        change="""
-        storage = tensor.untyped_storage()
-        if storage.data_ptr() not in own:
-            kept[storage.data_ptr()] = storage  # holding it keeps its address from being used again
+        address = tensor.untyped_storage().data_ptr()
+        if address not in own:
+            kept[address] = tensor
@@
-    return sum(storage.nbytes() for storage in kept.values())
+    return sum(tensor.numel() * tensor.element_size() for tensor in kept.values())
""",
    ),
    KnownWrong(
        "run_in_eval_mode",
        fails=("saved_bytes/as-found",),
        read="handbook/forward-pass.md#tensors-kept-by-other-layers",
        explanation="""The model runs in evaluation mode although the caller had it in training mode. Dropout then saves
        no mask, so the count is too low. A model that is left in evaluation mode also trains on without dropout. Run
        the model in the mode it has.""",
        change="""
+    model.eval()
     own = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
""",
    ),
    KnownWrong(
        "run_in_training_mode",
        fails=("saved_bytes/as-found",),
        read="handbook/forward-pass.md#evaluation-mode-and-no_grad",
        explanation="""The model runs in training mode although the caller had it in evaluation mode. Dropout then saves
        a mask, so the count is too high. Run the model in the mode it has, and leave it in that mode.""",
        change="""
+    model.train()
     own = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
""",
    ),
    KnownWrong(
        "gradients_left_behind",
        fails=("saved_bytes/as-found",),
        read="handbook/backpropagation.md#gradients-add-up-in-pgrad",
        explanation="""The measurement changes the model's gradients, by a backward pass that the count does not need.
        The next training step would add its gradients to them. Count after the forward pass, and run no backward
        pass.""",
        change="""
-    del output
+    output.sum().backward()
""",
    ),
    KnownWrong(
        "gradients_cleared",
        fails=("saved_bytes/as-found",),
        read="handbook/backpropagation.md#gradients-add-up-in-pgrad",
        explanation="""The call clears the model's gradients. A run that accumulates gradients over several batches
        loses the gradients that it had so far. A forward pass makes no gradients, so there is nothing to clear.""",
        change="""
-    del output
+    model.zero_grad()
""",
    ),
    KnownWrong(
        "four_bytes_always",
        fails=("saved_bytes/half", "saved_bytes/token-ids"),
        read="handbook/forward-pass.md#a-linear-layer-keeps-its-input",
        explanation="""Every element is counted with 4 bytes. An element takes 2 bytes in bf16, and 8 in token ids. Use
        the tensor's element_size() or its storage's nbytes().""",
        change="""
-            kept[storage.data_ptr()] = storage  # holding it keeps its address from being used again
+            kept[storage.data_ptr()] = storage, tensor.element_size()
@@
-    return sum(storage.nbytes() for storage in kept.values())
+    return sum(4 * storage.nbytes() // size for storage, size in kept.values())
""",
    ),
    KnownWrong(
        "weights_by_shape",
        fails=("saved_bytes/square", "saved_bytes/buffers"),
        read="handbook/forward-pass.md#a-linear-layer-keeps-its-input",
        explanation="""Tensors with the shape of a weight are left out. An activation may have the same shape by chance.
        Recognize a weight by its memory: the address of its storage.""",
        change="""
-    own = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
+    shapes = {size for p in (*model.parameters(), *model.buffers()) for size in (p.shape, p.shape[::-1])}
@@
-        storage = tensor.untyped_storage()
-        if storage.data_ptr() not in own:
+        if tensor.shape not in shapes:
+            storage = tensor.untyped_storage()
""",
    ),
    KnownWrong(
        "x_asks_for_gradients",
        fails=("saved_bytes/frozen",),
        read="handbook/forward-pass.md#a-linear-layer-keeps-its-input",
        explanation="""The count is that of an input with requires_grad=True. Frozen layers must then compute a gradient
        for their input, and save more for it. Run the model on `x` as the caller gave it.""",
        change="""
-        output = model(x)  # held, so that nothing is freed before it is counted
+        output = model(x.detach().requires_grad_(x.is_floating_point()))
""",
    ),
    KnownWrong(
        "input_always_counted",
        fails=("saved_bytes/frozen",),
        read="handbook/forward-pass.md#a-linear-layer-keeps-its-input",
        explanation="""The input `x` is counted although autograd does not keep it. A frozen first layer computes no
        weight gradient, so it saves no input. Count `x` only if autograd saves it.""",
        change="""
-    kept = {}
+    kept = {x.untyped_storage().data_ptr(): x.untyped_storage()}
""",
    ),
    KnownWrong(
        "frozen_weights_counted",
        fails=("saved_bytes/frozen",),
        read="handbook/forward-pass.md#a-linear-layer-keeps-its-input",
        explanation="""Frozen weights are counted, as when only parameters with requires_grad=True are left out. A
        frozen layer saves its weight for the gradient of its input, as in LoRA. That weight is the model's own memory
        too. Leave out all of model.parameters().""",
        change="""
-    own = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
+    trainable = [parameter for parameter in model.parameters() if parameter.requires_grad]
+    own = {tensor.untyped_storage().data_ptr() for tensor in (*trainable, *model.buffers())}
""",
    ),
    KnownWrong(
        "addresses_of_tensors",
        fails=("saved_bytes/buffers",),
        read="handbook/forward-pass.md#a-linear-layer-keeps-its-input",
        explanation="""The model's own memory is counted where a parameter or buffer is a part of a larger storage, or
        where autograd saves a part of one. data_ptr() of a tensor is the address of its first number, and not of its
        storage. Compare untyped_storage().data_ptr() of both.""",
        change="""
-    own = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
+    own = {tensor.data_ptr() for tensor in (*model.parameters(), *model.buffers())}
""",
    ),
    KnownWrong(
        "buffers_counted",
        fails=("saved_bytes/buffers",),
        read="handbook/forward-pass.md#a-linear-layer-keeps-its-input",
        explanation="""The model's buffers are counted, such as masks or BatchNorm's running averages. Autograd may save
        them, but they are the model's own memory and do not grow with the batch. Leave them out, like parameters.""",
        change="""
-    own = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
+    own = {tensor.untyped_storage().data_ptr() for tensor in model.parameters()}
""",
    ),
    KnownWrong(
        "own_memory_from_the_state_dict",
        fails=("saved_bytes/buffers",),
        read="handbook/forward-pass.md#a-linear-layer-keeps-its-input",
        explanation="""A buffer with persistent=False is counted, such as a causal mask. state_dict() leaves out such
        buffers, but they are the model's own memory too. Take model.parameters() and model.buffers().""",
        change="""
-    own = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
+    own = {tensor.untyped_storage().data_ptr() for tensor in model.state_dict().values()}
""",
    ),
    KnownWrong(
        "token_ids_left_out",
        fails=("saved_bytes/token-ids",),
        read="handbook/forward-pass.md#tensors-kept-by-other-layers",
        explanation="""The token ids are not counted. An embedding saves them, 8 bytes each, because its backward pass
        adds each gradient to the row of its token. Count them although they need no gradient.""",
        change="""
-        if storage.data_ptr() not in own:
+        if storage.data_ptr() not in own and tensor.is_floating_point():
""",
    ),
    KnownWrong(
        "heads_as_wide_as_the_model",
        fails=("kv_cache_bytes/heads", "kv_cache_bytes/grouped"),
        read="handbook/memory.md#appendix-the-kv-cache",
        explanation="""Each head is counted as hidden_dim wide. The heads divide hidden_dim among themselves: one head
        is hidden_dim / n_head wide.""",
        change="""
-    head_dim = hidden_dim // n_head
+    head_dim = hidden_dim
""",
    ),
    KnownWrong(
        "keys_without_values",
        fails=("kv_cache_bytes/heads", "kv_cache_bytes/grouped"),
        read="handbook/memory.md#appendix-the-kv-cache",
        explanation="""Only the keys are counted, or only the values. The cache holds a key and a value for each token
        and head: twice the bytes.""",
        change="""
-    return 2 * n_layer * n_kv_head * head_dim * number * batch_size * tokens
+    return n_layer * n_kv_head * head_dim * number * batch_size * tokens
""",
    ),
    KnownWrong(
        "one_sequence",
        fails=("kv_cache_bytes/heads", "kv_cache_bytes/grouped"),
        read="handbook/memory.md#appendix-the-kv-cache",
        explanation="""The cache of one sequence is counted. Each sequence of the batch has its own keys and values:
        multiply by batch_size.""",
        change="""
-    return 2 * n_layer * n_kv_head * head_dim * number * batch_size * tokens
+    return 2 * n_layer * n_kv_head * head_dim * number * tokens
""",
    ),
    KnownWrong(
        "two_bytes_always",
        fails=("kv_cache_bytes/heads", "kv_cache_bytes/grouped"),
        read="handbook/memory.md#appendix-the-kv-cache",
        explanation="""Every number is counted with 2 bytes. It takes 4 bytes in an fp32 cache and 1 in an 8-bit cache:
        multiply by `number`.""",
        change="""
-    return 2 * n_layer * n_kv_head * head_dim * number * batch_size * tokens
+    return 2 * n_layer * n_kv_head * head_dim * 2 * batch_size * tokens
""",
    ),
    KnownWrong(
        "every_head_has_its_own",
        fails=("kv_cache_bytes/grouped",),
        read="handbook/memory.md#appendix-the-kv-cache",
        explanation="""Keys and values are counted for every query head. In grouped-query attention several query heads
        share one key and value head: multiply by n_kv_head, not n_head.""",
        change="""
-    return 2 * n_layer * n_kv_head * head_dim * number * batch_size * tokens
+    return 2 * n_layer * n_head * head_dim * number * batch_size * tokens
""",
    ),
    KnownWrong(
        "a_straight_line",
        fails=("largest_micro_batch/fits",),
        read="handbook/memory.md#kinds-of-memory-in-a-step",
        explanation="""The answer is off by a few sequences, as when every sequence is taken to add the same number of
        bytes. Allocators round, so the peak is not a straight line through two predictions. Call `peak` for sizes near
        the answer.""",
        definitions="""
def largest_micro_batch(peak, budget):
    first = peak(1)
    if first > budget:
        return 0
    each = peak(2) - first
    return 1 + (budget - first) // each
""",
    ),
    KnownWrong(
        "predictions_kept",
        fails=("largest_micro_batch/fits", "largest_micro_batch/exactly", "largest_micro_batch/nothing"),
        read="handbook/memory.md#kinds-of-memory-in-a-step",
        explanation="""Predictions of an earlier call are used again, as from a dictionary outside the function. Another
        call has another `peak`, for another model. Keep predictions in a variable of the function.""",
        definitions="""
KNOWN = {}


def largest_micro_batch(peak, budget):
    def fits(size):
        if size not in KNOWN:
            KNOWN[size] = peak(size)
        return KNOWN[size] <= budget

    if not fits(1):
        return 0
    low, high = 1, 2
    while fits(high):
        low, high = high, 2 * high
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle) else (low, middle)
    return low
""",
    ),
    KnownWrong(
        "first_that_does_not_fit",
        fails=("largest_micro_batch/fits", "largest_micro_batch/exactly", "largest_micro_batch/nothing"),
        read="handbook/memory.md#kinds-of-memory-in-a-step",
        explanation="""The returned size is the smallest that does not fit. The largest that fits is one less.""",
        definitions="""
def largest_micro_batch(peak, budget):
    high = 1
    while peak(high) <= budget:
        high *= 2
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        if peak(middle) <= budget:
            low = middle
        else:
            high = middle
    return high
""",
    ),
    KnownWrong(
        "powers_of_two_only",
        fails=("largest_micro_batch/fits", "largest_micro_batch/exactly"),
        read="handbook/memory.md#kinds-of-memory-in-a-step",
        explanation="""The answer is rounded down to a power of two. Up to half of the memory that the batch could use
        then stays empty. A micro-batch may have any size.""",
        definitions="""
def largest_micro_batch(peak, budget):
    batch_size = 1
    while peak(batch_size) <= budget:
        batch_size *= 2
    return batch_size // 2
""",
    ),
    KnownWrong(
        "budget_by_one_peak",
        fails=("largest_micro_batch/fits",),
        read="handbook/memory.md#kinds-of-memory-in-a-step",
        explanation="""The answer is the budget divided by the peak of one sequence. Part of that peak, such as weights
        and optimizer state, does not grow with the batch, so more sequences fit.""",
        definitions="""
def largest_micro_batch(peak, budget):
    return budget // peak(1)
""",
    ),
    KnownWrong(
        "full_is_too_full",
        fails=("largest_micro_batch/exactly",),
        read="handbook/memory.md#kinds-of-memory-in-a-step",
        explanation="""A batch whose peak is exactly the budget is rejected. A batch fits if its peak is at most the
        budget: compare with <=, not <.""",
        change="""
-    if peak(1) > budget:
+    if peak(1) >= budget:
@@
-    while peak(too_large) <= budget:
+    while peak(too_large) < budget:
@@
-        if peak(middle) <= budget:
+        if peak(middle) < budget:
""",
    ),
    KnownWrong(
        "at_least_one",
        fails=("largest_micro_batch/nothing",),
        read="handbook/memory.md#kinds-of-memory-in-a-step",
        explanation="""The answer is 1 although one sequence does not fit, as where the weights alone fill the device. A
        step with one sequence would run out of memory. Return 0.""",
        change="""
-    if peak(1) > budget:
-        return 0
""",
    ),
    KnownWrong(
        "a_limit_on_the_answer",
        fails=("largest_micro_batch/calls",),
        read="handbook/memory.md#kinds-of-memory-in-a-step",
        explanation="""The answer has an upper limit. A small model on a large device can exceed any fixed limit. Double
        the size until it does not fit: that size is the upper end of the search.""",
        definitions="""
def largest_micro_batch(peak, budget):
    low, high = 0, 1024
    while low < high:
        middle = (low + high + 1) // 2
        if peak(middle) <= budget:
            low = middle
        else:
            high = middle - 1
    return low
""",
    ),
    KnownWrong(
        "one_by_one",
        fails=("largest_micro_batch/calls",),
        read="handbook/memory.md#kinds-of-memory-in-a-step",
        explanation="""`peak` is called thousands of times, as when sizes are tried one after another. The answer is
        right, but each call may take a second. Double the size until it does not fit, then halve the range.""",
        definitions="""
def largest_micro_batch(peak, budget):
    batch_size = 0
    while peak(batch_size + 1) <= budget:
        batch_size += 1
    return batch_size
""",
    ),
)

HURRIED = {
    "parameter_count": {
        "as a float": """
-    return vocab_size * C + block_size * C + n_layer * block + C + output
+    return float(vocab_size * C + block_size * C + n_layer * block + C + output)
""",
        "norms have a bias": """
-    block = 3 * C * C + C * C + 2 * 4 * C * C + 2 * C
+    block = 3 * C * C + C * C + 2 * 4 * C * C + 4 * C
""",
        "tied is taken off": """
-    output = 0 if tied else vocab_size * C
+    output = -vocab_size * C if tied else vocab_size * C
""",
        "one norm too many in a block": """
-    return vocab_size * C + block_size * C + n_layer * block + C + output
+    return vocab_size * C + block_size * C + n_layer * (block + C) + output
""",
    },
    "activation_bytes": {
        "the hidden width is 4 times 64 heads": """
-    tokens, C = batch_size * seq_len, hidden_dim
+    tokens, C = batch_size * seq_len, 64 * n_head
""",
        "one statistic per token": """
-    scores = 4 * n_head if fused else n_head * seq_len * number
+    scores = 4 if fused else n_head * seq_len * number
""",
    },
    "saved_bytes": {
        "a copy of the input": """
-        output = model(x)  # held, so that nothing is freed before it is counted
+        output = model(x.clone())
""",
        "a sum that is never reset": """
-    return sum(storage.nbytes() for storage in kept.values())
+    torch.counted = getattr(torch, "counted", 0) + sum(storage.nbytes() for storage in kept.values())
+    return torch.counted
""",
        "each view is a storage": """
-            kept[storage.data_ptr()] = storage  # holding it keeps its address from being used again
+            kept[id(tensor)] = storage  # holding it keeps its address from being used again
""",
    },
    "kv_cache_bytes": {
        "a true division": """
-    head_dim = hidden_dim // n_head
+    head_dim = hidden_dim / n_head
""",
        "heads shared the wrong way": """
-    head_dim = hidden_dim // n_head
+    head_dim = hidden_dim // n_kv_head
""",
    },
    "largest_micro_batch": {
        "as a float": """
-    return fits
+    return float(fits)
""",
        "at most 2 to the 32": """
-    return fits
+    return min(fits, 2**32 - 1) if fits < 2**30 else 2**30
""",
        "stops two apart": """
-    while too_large - fits > 1:
+    while too_large - fits > 2:
""",
    },
}
