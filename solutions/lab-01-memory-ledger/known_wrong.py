"""Known-wrong solutions of Lab 01, and hurried answers, as changes to exercises.py."""

from rankzero.exercises.checks.known_wrong import KnownWrong

KNOWN_WRONG = (
    KnownWrong(
        "biases_counted",
        fails=("parameter_count/block",),
        read="handbook/memory.md#what-a-step-holds-and-when",
        explanation="""Biases are counted. GPT-2 had one for each matrix and each norm; this GPT, like most models
        since, has none, and a count from a paper's table may mean either.""",
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
        read="handbook/memory.md#what-a-step-holds-and-when",
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
        read="handbook/memory.md#what-a-step-holds-and-when",
        explanation="""Twelve times hidden_dim squared is the matrices of a block; each of its two norms has
        hidden_dim weights besides, and one more norm follows the last block.""",
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
        read="handbook/memory.md#what-a-step-holds-and-when",
        explanation="""The norm after the last block is missing: hidden_dim numbers, few beside millions, but a count
        that is nearly right cannot be checked.""",
        change="""
-    return vocab_size * C + block_size * C + n_layer * block + C + output
+    return vocab_size * C + block_size * C + n_layer * block + output
""",
    ),
    KnownWrong(
        "positions_forgotten",
        fails=("parameter_count/tied",),
        read="handbook/memory.md#what-a-step-holds-and-when",
        explanation="""The learned positions are missing: a second embedding, block_size rows of hidden_dim numbers.
        Models with rotary positions have none, this one has.""",
        change="""
-    return vocab_size * C + block_size * C + n_layer * block + C + output
+    return vocab_size * C + n_layer * block + C + output
""",
    ),
    KnownWrong(
        "tied_counted_twice",
        fails=("parameter_count/tied", "parameter_count/untied"),
        read="handbook/memory.md#what-a-step-holds-and-when",
        explanation="""The output layer is counted although it is the embedding's own matrix. Tied means one matrix
        with two uses: one set of bytes, one gradient.""",
        change="""
-    output = 0 if tied else vocab_size * C
+    output = vocab_size * C
""",
    ),
    KnownWrong(
        "tied_ignored",
        fails=("parameter_count/untied",),
        read="handbook/memory.md#what-a-step-holds-and-when",
        explanation="""The argument `tied` changes nothing. An output layer of its own is another matrix of
        vocab_size rows: for small models with large vocabularies it is most of the model.""",
        change="""
-    output = 0 if tied else vocab_size * C
+    output = 0
""",
    ),
    KnownWrong(
        "positions_with_vocabulary",
        fails=("parameter_count/untied",),
        read="handbook/memory.md#what-a-step-holds-and-when",
        explanation="""An untied output layer is counted with a row for each position. It makes logits of tokens, so it
        has a row for each token of the vocabulary; the positions are an embedding only.""",
        change="""
-    output = 0 if tied else vocab_size * C
+    output = 0 if tied else (vocab_size + block_size) * C
""",
    ),
    KnownWrong(
        "masters_in_fp32_too",
        fails=("state_bytes/fp32", "state_bytes/optimizers"),
        read="handbook/memory.md#bytes-per-parameter-8-12-16-18-20",
        explanation="""Master weights are added where the weights are fp32 already. A copy is needed only where the
        model computes with fewer bits than the optimizer.""",
        change="""
-        "fp32": (4, 4, 0, 4),
+        "fp32": (4, 4, 4, 4),
""",
    ),
    KnownWrong(
        "one_average",
        fails=("state_bytes/fp32", "state_bytes/mixed", "state_bytes/bf16"),
        read="handbook/memory.md#optimizer-state",
        explanation="""AdamW keeps two averages per parameter: of the gradient and of its square. One is what SGD
        with momentum keeps.""",
        change="""
-    averages = {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer]
+    averages = {"sgd": 0, "momentum": 1, "adamw": 1}[optimizer]
""",
    ),
    KnownWrong(
        "step_counts_forgotten",
        fails=("state_bytes/fp32", "state_bytes/mixed", "state_bytes/bf16"),
        read="handbook/memory.md#optimizer-state",
        explanation="""AdamW's step count is missing: one 4-byte number for each parameter tensor. A few hundred
        bytes, but a ledger that is right to the byte is a ledger in which a leak shows.""",
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
        a tensor without a gradient takes no step.""",
        change="""
-    steps = 4 * n_tensors if optimizer == "adamw" else 0
+    steps = 4 if optimizer == "adamw" else 0
""",
    ),
    KnownWrong(
        "step_count_per_parameter",
        fails=("state_bytes/fp32", "state_bytes/mixed", "state_bytes/bf16"),
        read="handbook/memory.md#optimizer-state",
        explanation="""A step count is counted for each parameter. AdamW keeps one for each parameter tensor, which
        serves all of the tensor's numbers.""",
        change="""
-    steps = 4 * n_tensors if optimizer == "adamw" else 0
+    steps = 4 * n_parameters if optimizer == "adamw" else 0
""",
    ),
    KnownWrong(
        "half_averages_in_mixed",
        fails=("state_bytes/mixed", "state_bytes/optimizers"),
        read="handbook/memory.md#bytes-per-parameter-8-12-16-18-20",
        explanation="""The averages are kept in bf16 beside fp32 master weights. The second one grows by a thousandth
        of a squared gradient a step, which 8 bits of precision lose: mixed recipes keep both in fp32.""",
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
        explanation="""The fp32 master weights are missing. Updates are often smaller than a bf16 weight can
        register, so mixed precision keeps an fp32 copy: 4 bytes per parameter more, not fewer.""",
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
        explanation="""The fp32 sum takes the place of the bf16 gradients. There are recipes like that (Megatron-
        LM's, 18 bytes per parameter); in this one backward still writes bf16 gradients, which are then added to the
        sum: 20.""",
        change="""
-        "mixed-fp32-accum": (2, 2 + 4, 4, 4),
+        "mixed-fp32-accum": (2, 4, 4, 4),
""",
    ),
    KnownWrong(
        "sum_in_the_optimizer_state",
        fails=("state_bytes/accumulation", "state_bytes/optimizers"),
        read="handbook/memory.md#bytes-per-parameter-8-12-16-18-20",
        explanation="""The fp32 sum of the gradients is counted as optimizer state. The total is right, but the sum is
        there for gradients, and belongs to them.""",
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
        explanation="""fp32 master weights, or averages in fp32, are counted for the pure bf16 recipe. It keeps
        everything in bf16 and has no master weights: that is how it gets down to 8 bytes per parameter.""",
        change="""
-        "bf16": (2, 2, 0, 2),
+        "bf16": (2, 2, 4, 4),
""",
    ),
    KnownWrong(
        "masters_for_bf16",
        fails=("state_bytes/bf16", "state_bytes/optimizers"),
        read="handbook/memory.md#bytes-per-parameter-8-12-16-18-20",
        explanation="""fp32 master weights are counted for the pure bf16 recipe. The optimizer updates its bf16 weights
        themselves: that is how it gets down to 8 bytes per parameter.""",
        change="""
-        "bf16": (2, 2, 0, 2),
+        "bf16": (2, 2, 4, 2),
""",
    ),
    KnownWrong(
        "fp32_averages_for_bf16",
        fails=("state_bytes/bf16", "state_bytes/optimizers"),
        read="handbook/memory.md#bytes-per-parameter-8-12-16-18-20",
        explanation="""Averages in fp32 are counted for the pure bf16 recipe. It keeps them in bf16, 2 bytes each: that
        is how it gets down to 8 bytes per parameter.""",
        change="""
-        "bf16": (2, 2, 0, 2),
+        "bf16": (2, 2, 0, 4),
""",
    ),
    KnownWrong(
        "momentum_like_adam",
        fails=("state_bytes/optimizers",),
        read="handbook/memory.md#optimizer-state",
        explanation="""SGD with momentum keeps one velocity per parameter, not two averages.""",
        change="""
-    averages = {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer]
+    averages = {"sgd": 0, "momentum": 2, "adamw": 2}[optimizer]
""",
    ),
    KnownWrong(
        "steps_for_momentum",
        fails=("state_bytes/optimizers",),
        read="handbook/memory.md#optimizer-state",
        explanation="""Step counts are counted for SGD with momentum. Only AdamW needs them, to correct its averages in
        the first steps.""",
        change="""
-    steps = 4 * n_tensors if optimizer == "adamw" else 0
+    steps = 4 * n_tensors if optimizer != "sgd" else 0
""",
    ),
    KnownWrong(
        "masters_for_adamw_alone",
        fails=("state_bytes/optimizers",),
        read="handbook/memory.md#bytes-per-parameter-8-12-16-18-20",
        explanation="""With SGD or momentum the fp32 master weights are missing. A recipe decides on them, not the
        optimizer: every optimizer of the mixed recipes updates an fp32 copy.""",
        change="""
-    averages = {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer]
+    averages = {"sgd": 0, "momentum": 1, "adamw": 2}[optimizer]
+    master = master if optimizer == "adamw" else 0
""",
    ),
    KnownWrong(
        "gelu_keeps_nothing",
        fails=("activation_bytes/fused", "activation_bytes/explicit"),
        read="handbook/forward-pass.md#what-other-layers-keep",
        explanation="""The count is short by 4·C numbers per token, as it is without the tensor that GELU reads.
        GELU's derivative differs at every input, so it keeps that input, four times as wide as the stream; the
        product after it keeps GELU's output as well. Only a ReLU would get by with one of the two.""",
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
        read="handbook/forward-pass.md#what-other-layers-keep",
        explanation="""The count is short by 2·C numbers per token, as when q, k and v are counted as one tensor. The
        product that makes them is three times as wide as its input, and attention's backward reads all three.""",
        change="""
-    attention = (C + 3 * C + C) * number  # its input; q, k, v; the output, which is also the last product's input
+    attention = 3 * C * number
""",
    ),
    KnownWrong(
        "residuals_kept",
        fails=("activation_bytes/fused", "activation_bytes/explicit"),
        read="handbook/forward-pass.md#what-other-layers-keep",
        explanation="""The count is too large by 2·C numbers per token, as when the two sums with the residual stream
        are counted. A sum's derivative is 1 whatever its inputs were, so autograd keeps nothing of it.""",
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
        read="handbook/forward-pass.md#attention-the-square-that-need-not-be-kept",
        explanation="""The square of attention's probabilities is counted although attention is fused. Fused
        attention computes it again in backward, piece by piece, and keeps one number per token and head.""",
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
        read="handbook/forward-pass.md#attention-the-square-that-need-not-be-kept",
        explanation="""Fused attention's log-sum-exp is missing: one fp32 number per token and head, from which backward
        computes the probabilities again.""",
        change="""
-    scores = 4 * n_head if fused else n_head * seq_len * number
+    scores = 0 if fused else n_head * seq_len * number
""",
    ),
    KnownWrong(
        "statistics_forgotten",
        fails=("activation_bytes/fused", "activation_bytes/explicit"),
        read="handbook/forward-pass.md#what-other-layers-keep",
        explanation="""LayerNorm's mean and 1/std are missing: two numbers per token for each of the two norms.
        Small, and exactly the remainder that published formulas leave.""",
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
        read="handbook/forward-pass.md#attention-the-square-that-need-not-be-kept",
        explanation="""The log-sum-exp is kept in fp32 whatever the recipe: it is a sum over a whole row, and bf16
        would lose most of it. With numbers of 2 bytes it still takes 4.""",
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
        read="handbook/forward-pass.md#what-other-layers-keep",
        explanation="""LayerNorm's mean and 1/std are counted with 4 bytes each whatever a number takes. In this GPT
        they have the dtype of the other activations.""",
        change="""
-    norms = 2 * (C + 2) * number  # the input, mean and 1/std, twice
+    norms = 2 * (C * number + 2 * 4)
""",
    ),
    KnownWrong(
        "square_of_one_head",
        fails=("activation_bytes/explicit",),
        read="handbook/forward-pass.md#attention-the-square-that-need-not-be-kept",
        explanation="""Without fusing, each head keeps its own square of probabilities: n_head times seq_len numbers
        per token, not seq_len.""",
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
        read="handbook/forward-pass.md#attention-the-square-that-need-not-be-kept",
        explanation="""Two squares are counted per head. The softmax's derivative is computed from its output, so
        autograd keeps the probabilities, and not the scores as well.""",
        change="""
-    scores = 4 * n_head if fused else n_head * seq_len * number
+    scores = 4 * n_head if fused else 2 * n_head * seq_len * number
""",
    ),
    KnownWrong(
        "probabilities_always_in_fp32",
        fails=("activation_bytes/explicit",),
        read="handbook/forward-pass.md#attention-the-square-that-need-not-be-kept",
        explanation="""The probabilities of attention are counted with 4 bytes each, whatever a number takes. They have
        the dtype of the other activations: 2 bytes in bf16.""",
        change="""
-    scores = 4 * n_head if fused else n_head * seq_len * number
+    scores = 4 * n_head if fused else n_head * seq_len * 4
""",
    ),
    KnownWrong(
        "log_sum_exp_without_fusing",
        fails=("activation_bytes/explicit",),
        read="handbook/forward-pass.md#attention-the-square-that-need-not-be-kept",
        explanation="""One fp32 number per token and head is counted beside the square. That is the log-sum-exp of fused
        attention; without fusing, the probabilities are kept instead of it.""",
        change="""
-    scores = 4 * n_head if fused else n_head * seq_len * number
+    scores = 4 * n_head + (0 if fused else n_head * seq_len * number)
""",
    ),
    KnownWrong(
        "probabilities_always_in_half",
        fails=("activation_bytes/explicit",),
        read="handbook/forward-pass.md#attention-the-square-that-need-not-be-kept",
        explanation="""The probabilities of attention are counted with 2 bytes each, whatever a number takes. They
        have the dtype of the other activations: 4 bytes in fp32.""",
        change="""
-    scores = 4 * n_head if fused else n_head * seq_len * number
+    scores = 4 * n_head if fused else n_head * seq_len * 2
""",
    ),
    KnownWrong(
        "half_a_square",
        fails=("activation_bytes/explicit",),
        read="handbook/forward-pass.md#attention-the-square-that-need-not-be-kept",
        explanation="""Half of the square of probabilities is counted, because a causal mask hides the other half.
        The masked probabilities are 0, but the tensor [B, H, T, T] holds them all the same.""",
        change="""
-    scores = 4 * n_head if fused else n_head * seq_len * number
+    scores = 4 * n_head if fused else n_head * (seq_len + 1) * number // 2
""",
    ),
    KnownWrong(
        "every_save_counts",
        fails=("saved_bytes/chain", "saved_bytes/views"),
        read="handbook/forward-pass.md#a-linear-layer-keeps-its-input",
        explanation="""Every save is added up, though several operations may keep the same memory: the output of one
        layer is the input of the next. Count each storage once.""",
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
        read="handbook/forward-pass.md#two-switches-that-look-like-one",
        explanation="""Nothing is counted. Autograd keeps nothing while gradients are off, and hooks count only what is
        saved while they are active: run the model inside their context, with gradients on.""",
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
        explanation="""Numbers are counted, not bytes. A number takes 4 bytes in fp32 and 2 in bf16: multiply by
        element_size(), or ask the storage for nbytes().""",
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
        fails=("saved_bytes/chain", "saved_bytes/as-found", "saved_bytes/token-ids"),
        read="handbook/forward-pass.md#a-linear-layer-keeps-its-input",
        explanation="""The model's weights are counted. Backward reads them too, so autograd keeps them, but they are
        there anyway: they are no cost of this batch.""",
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
        explanation="""The input `x` is not counted. A first layer keeps it for its weight's gradient: it can't be
        freed until backward, so it is a cost of the batch.""",
        change="""
-    own = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
+    own = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers(), x)}
""",
    ),
    KnownWrong(
        "views_by_their_size",
        fails=("saved_bytes/views", "saved_bytes/whole-storage"),
        read="handbook/forward-pass.md#a-linear-layer-keeps-its-input",
        explanation="""Each tensor is counted by its own size, once for each address. A view keeps all of the memory
        it looks at alive, however small a part it is; three views of one storage are one storage.""",
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
        read="handbook/forward-pass.md#what-other-layers-keep",
        explanation="""The model runs in evaluation mode, whatever mode it is in. Dropout then keeps no mask, so what
        is counted is not what training keeps; a model that is left in this mode goes on training without dropout.""",
        change="""
+    model.eval()
     own = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
""",
    ),
    KnownWrong(
        "run_in_training_mode",
        fails=("saved_bytes/as-found",),
        read="handbook/forward-pass.md#two-switches-that-look-like-one",
        explanation="""The model runs in training mode, whatever mode it is in. Dropout then keeps a mask that this
        model would not keep. Count for the mode that the caller chose, and leave the model in it.""",
        change="""
+    model.train()
     own = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
""",
    ),
    KnownWrong(
        "gradients_left_behind",
        fails=("saved_bytes/as-found",),
        read="handbook/backpropagation.md#pgrad-adds-it-does-not-replace",
        explanation="""The model has gradients after the measurement, from a backward pass that the count does not
        need. The next training step adds its own to them. What autograd keeps is known when the forward pass ends.""",
        change="""
-    del output
+    output.sum().backward()
""",
    ),
    KnownWrong(
        "four_bytes_always",
        fails=("saved_bytes/half", "saved_bytes/token-ids"),
        read="handbook/forward-pass.md#a-linear-layer-keeps-its-input",
        explanation="""Every number is taken to have 4 bytes. In bf16 it has 2: ask the tensor for element_size(), or
        its storage for nbytes().""",
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
        fails=("saved_bytes/square",),
        read="handbook/forward-pass.md#a-linear-layer-keeps-its-input",
        explanation="""Memory of the batch is left out that has a weight's shape. A batch may have that shape by
        chance: tell a weight from other tensors by its memory, by the address of the storage.""",
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
        explanation="""The count is that of an input that asks for a gradient. Layers that are frozen must then pass
        gradients on to it, and keep what that takes: measure the model as it is trained, not a neighbor of it.""",
        change="""
-        output = model(x)  # held, so that nothing is freed before it is counted
+        output = model(x.detach().requires_grad_(x.is_floating_point()))
""",
    ),
    KnownWrong(
        "buffers_counted",
        fails=("saved_bytes/buffers",),
        read="handbook/forward-pass.md#a-linear-layer-keeps-its-input",
        explanation="""The model's buffers are counted: masks, or BatchNorm's averages. Backward reads some of them,
        so autograd keeps them, but they are the model's own memory, which a larger batch does not change.""",
        change="""
-    own = {tensor.untyped_storage().data_ptr() for tensor in (*model.parameters(), *model.buffers())}
+    own = {tensor.untyped_storage().data_ptr() for tensor in model.parameters()}
""",
    ),
    KnownWrong(
        "token_ids_left_out",
        fails=("saved_bytes/token-ids",),
        read="handbook/forward-pass.md#what-other-layers-keep",
        explanation="""The token ids are not counted. An embedding keeps them, 8 bytes each, because its backward
        adds each gradient to the row of its token. They need no gradient themselves, but they are memory.""",
        change="""
-        if storage.data_ptr() not in own:
+        if storage.data_ptr() not in own and tensor.is_floating_point():
""",
    ),
    KnownWrong(
        "heads_as_wide_as_the_model",
        fails=("kv_cache_bytes/heads", "kv_cache_bytes/grouped"),
        read="handbook/memory.md#appendix-the-kv-cache",
        explanation="""A head is taken to be as wide as the model. It is hidden_dim / n_head wide: the heads share
        the width.""",
        change="""
-    head_dim = hidden_dim // n_head
+    head_dim = hidden_dim
""",
    ),
    KnownWrong(
        "keys_without_values",
        fails=("kv_cache_bytes/heads", "kv_cache_bytes/grouped"),
        read="handbook/memory.md#appendix-the-kv-cache",
        explanation="""Keys alone are counted. Attention reads a value for each key: twice the bytes.""",
        change="""
-    return 2 * n_layer * n_kv_head * head_dim * number * batch_size * tokens
+    return n_layer * n_kv_head * head_dim * number * batch_size * tokens
""",
    ),
    KnownWrong(
        "one_sequence",
        fails=("kv_cache_bytes/heads", "kv_cache_bytes/grouped"),
        read="handbook/memory.md#appendix-the-kv-cache",
        explanation="""The cache of one sequence is counted. Sequences share no keys: each of the batch has its own.""",
        change="""
-    return 2 * n_layer * n_kv_head * head_dim * number * batch_size * tokens
+    return 2 * n_layer * n_kv_head * head_dim * number * tokens
""",
    ),
    KnownWrong(
        "two_bytes_always",
        fails=("kv_cache_bytes/heads", "kv_cache_bytes/grouped"),
        read="handbook/memory.md#appendix-the-kv-cache",
        explanation="""Every number is taken to have 2 bytes. A cache in fp32 has 4, one of 8 bits has 1: multiply
        by `number`.""",
        change="""
-    return 2 * n_layer * n_kv_head * head_dim * number * batch_size * tokens
+    return 2 * n_layer * n_kv_head * head_dim * 2 * batch_size * tokens
""",
    ),
    KnownWrong(
        "every_head_has_its_own",
        fails=("kv_cache_bytes/grouped",),
        read="handbook/memory.md#appendix-the-kv-cache",
        explanation="""Every head of queries is given keys and values of its own. With grouped-query attention
        several share one: count n_kv_head.""",
        change="""
-    return 2 * n_layer * n_kv_head * head_dim * number * batch_size * tokens
+    return 2 * n_layer * n_head * head_dim * number * batch_size * tokens
""",
    ),
    KnownWrong(
        "a_straight_line",
        fails=("largest_micro_batch/fits",),
        read="handbook/memory.md#what-a-step-holds-and-when",
        explanation="""The answer is off by one or two near the budget, as it is when the peak is taken to grow by
        the same bytes with every sequence. Allocators round, so a line through two predictions misses: ask for the
        sizes around the answer.""",
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
        "first_that_does_not_fit",
        fails=("largest_micro_batch/fits", "largest_micro_batch/exactly", "largest_micro_batch/nothing"),
        read="handbook/memory.md#what-a-step-holds-and-when",
        explanation="""The first size that does not fit is returned. The answer is the one before.""",
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
        read="handbook/memory.md#what-a-step-holds-and-when",
        explanation="""The answer is rounded down to a power of two. Up to half of the memory then stays empty;
        powers of two are a habit, not a need.""",
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
        read="handbook/memory.md#what-a-step-holds-and-when",
        explanation="""The budget is divided by the peak of one sequence. A part of that peak, such as the weights and
        the optimizer's state, is there once however many sequences there are, so more of them fit.""",
        definitions="""
def largest_micro_batch(peak, budget):
    return budget // peak(1)
""",
    ),
    KnownWrong(
        "full_is_too_full",
        fails=("largest_micro_batch/exactly",),
        read="handbook/memory.md#what-a-step-holds-and-when",
        explanation="""A budget that is filled to the last byte is taken to be exceeded. Fits means at most the
        budget, not less.""",
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
        read="handbook/memory.md#what-a-step-holds-and-when",
        explanation="""One sequence is taken to fit always. Where the weights alone fill the device nothing fits, and
        1 is the answer that runs out of memory.""",
        change="""
-    if peak(1) > budget:
-        return 0
""",
    ),
    KnownWrong(
        "a_limit_on_the_answer",
        fails=("largest_micro_batch/calls",),
        read="handbook/memory.md#what-a-step-holds-and-when",
        explanation="""The answer has an upper limit that seems large enough. A small model on a large device exceeds
        it one day: let the doubling find the limit.""",
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
        read="handbook/memory.md#what-a-step-holds-and-when",
        explanation="""Thousands of predictions are asked for, as when sizes are tried one after another. That gives
        the right answer, after a prediction for each sequence of it: double until it does not fit, then halve the
        range.""",
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
