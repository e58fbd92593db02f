"""Known-wrong solutions of Lab 15, and hurried answers, as changes to exercises.py."""

from rankzero.exercises.checks.known_wrong import KnownWrong

SGD = "handbook/optimizers.md#sgd-one-rate-for-all-weights"
MOMENTUM = "handbook/optimizers.md#momentum-three-conventions"
ADAM = "handbook/optimizers.md#adam-two-averages-with-bias-correction"
FIRST_STEPS = "handbook/optimizers.md#without-the-correction-the-first-steps-are-too-long"
EPSILON = "handbook/optimizers.md#ε-and-the-dtype"
ADAMW = "handbook/optimizers.md#adamw-decoupled-weight-decay"
GROUPS = "handbook/optimizers.md#which-weights-decay"
NO_GRADIENT = "handbook/optimizers.md#no-gradient-a-gradient-of-zero-a-sparse-gradient"
STATE = "handbook/optimizers.md#memory-of-the-state"
CHECKPOINT = "handbook/optimizers.md#state-in-a-checkpoint"
MUON = "handbook/optimizers.md#newer-optimizers-lion-sophia-muon"
AVERAGE = "handbook/optimizers.md#an-average-of-the-weights"
CLIPPING = "handbook/gradient-mechanics.md#clipping-by-norm-and-by-value"
NONE_AND_ZERO = "handbook/gradient-mechanics.md#a-gradient-of-none-and-a-gradient-of-zero"
FINDER = "handbook/learning-rate-and-schedules.md#the-learning-rate-range-test"
MEDIAN = "handbook/search-and-tracking.md#when-a-trial-may-be-stopped"
BUDGET = "handbook/search-and-tracking.md#trials-that-compare"

KNOWN_WRONG = (
    # ------------------------------------------------------------------------------------------------------- sgd_step
    KnownWrong(
        "parameter_rebound",
        fails=("sgd_step/plain",),
        read=SGD,
        explanation="""The step makes a new tensor and leaves the caller's parameter as it is. `parameter = parameter -
        ...` gives a new tensor that name inside the function; the model still holds the old one.""",
        change="""
-    parameter.add_(g, alpha=-lr)
+    parameter = parameter - lr * g
""",
    ),
    KnownWrong(
        "uphill",
        fails=("sgd_step/plain",),
        read=SGD,
        explanation="""The parameter moves along the gradient, which raises the loss. It must move against the
        gradient.""",
        change="""
-    parameter.add_(g, alpha=-lr)
+    parameter.add_(g, alpha=lr)
""",
    ),
    KnownWrong(
        "decay_without_the_rate",
        fails=("sgd_step/decay", "sgd_step/momentum"),
        read=ADAMW,
        explanation="""The parameter is shrunk by weight_decay, without the learning rate. The decay is a part of the
        gradient, and like the gradient it is multiplied by the rate.""",
        change="""
-    g = gradient.add(parameter, alpha=weight_decay)
+    g = gradient + 0.0
+    parameter.mul_(1 - weight_decay)
""",
    ),
    KnownWrong(
        "decay_ignored",
        fails=("sgd_step/decay", "sgd_step/momentum"),
        read=ADAMW,
        explanation="""The weight decay has no effect. It adds weight_decay times the parameter to the gradient.""",
        change="""
-    g = gradient.add(parameter, alpha=weight_decay)
+    g = gradient + 0.0
""",
    ),
    KnownWrong(
        "decay_beside_the_buffer",
        fails=("sgd_step/momentum",),
        read=ADAMW,
        explanation="""The decay acts on the parameter alone and never enters the buffer. In torch's SGD the decay is a
        part of the gradient, so the buffer adds it up with momentum as well.""",
        change="""
-    g = gradient.add(parameter, alpha=weight_decay)
+    g = gradient + 0.0
+    parameter.mul_(1 - lr * weight_decay)
""",
    ),
    KnownWrong(
        "momentum_of_an_average",
        fails=("sgd_step/momentum",),
        read=MOMENTUM,
        explanation="""The buffer takes only 1 - momentum of each new gradient, as Adam's average does. torch's SGD
        adds the whole gradient, so that a constant gradient adds up to 1 / (1 - momentum) times itself.""",
        change="""
-            state["momentum_buffer"].mul_(momentum).add_(g, alpha=1 - dampening)
+            state["momentum_buffer"].mul_(momentum).add_(g, alpha=(1 - momentum) * (1 - dampening))
""",
    ),
    KnownWrong(
        "buffer_is_the_gradient",
        fails=("sgd_step/momentum",),
        read=STATE,
        explanation="""The buffer shares memory with the caller's gradient. The next backward pass overwrites the
        gradient, and with it the momentum. Store a copy.""",
        change="""
-    g = gradient.add(parameter, alpha=weight_decay)
+    g = gradient.add(parameter, alpha=weight_decay) if weight_decay else gradient
@@
-            state["momentum_buffer"] = g.clone()
+            state["momentum_buffer"] = g
""",
    ),
    KnownWrong(
        "buffer_replaced",
        fails=("sgd_step/momentum",),
        read=MOMENTUM,
        explanation="""The buffer holds the last gradient alone: what came before is forgotten in every step. It must
        keep momentum times its old content.""",
        change="""
-            state["momentum_buffer"].mul_(momentum).add_(g, alpha=1 - dampening)
+            state["momentum_buffer"].copy_(g).mul_(1 - dampening)
""",
    ),
    KnownWrong(
        "first_step_dampened",
        fails=("sgd_step/dampening",),
        read=MOMENTUM,
        explanation="""The first gradient is dampened too. torch's SGD stores the first gradient whole, and dampens
        only those that follow.""",
        change="""
-            state["momentum_buffer"] = g.clone()
+            state["momentum_buffer"] = (1 - dampening) * g
""",
    ),
    KnownWrong(
        "dampening_of_the_buffer",
        fails=("sgd_step/dampening",),
        read=MOMENTUM,
        explanation="""Dampening multiplies the old buffer as well as the new gradient. It multiplies the new gradient
        alone.""",
        change="""
-            state["momentum_buffer"].mul_(momentum).add_(g, alpha=1 - dampening)
+            state["momentum_buffer"].mul_(momentum).add_(g).mul_(1 - dampening)
""",
    ),
    KnownWrong(
        "look_ahead_by_the_old_buffer",
        fails=("sgd_step/nesterov",),
        read=MOMENTUM,
        explanation="""Nesterov's step uses the buffer from before this step. It adds momentum times the new buffer,
        which contains this step's gradient already.""",
        change="""
-        if "momentum_buffer" not in state:
+        old = state.get("momentum_buffer", torch.zeros_like(g)).clone()
+        if "momentum_buffer" not in state:
@@
-        g = g.add(buffer, alpha=momentum) if nesterov else buffer
+        g = g.add(old, alpha=momentum) if nesterov else buffer
""",
    ),
    KnownWrong(
        "look_ahead_on_the_wrong_gradient",
        fails=("sgd_step/nesterov",),
        read=MOMENTUM,
        explanation="""Nesterov's step adds the look-ahead to the gradient without its decay. The decay is a part of
        the gradient everywhere in the step.""",
        change="""
-        g = g.add(buffer, alpha=momentum) if nesterov else buffer
+        g = gradient.add(buffer, alpha=momentum) if nesterov else buffer
""",
    ),
    KnownWrong(
        "look_ahead_from_the_buffer",
        fails=("sgd_step/nesterov",),
        read=MOMENTUM,
        explanation="""Nesterov's step is the buffer plus momentum times the buffer. It is the gradient plus momentum
        times the buffer.""",
        change="""
-        g = g.add(buffer, alpha=momentum) if nesterov else buffer
+        g = buffer.add(buffer, alpha=momentum) if nesterov else buffer
""",
    ),
    KnownWrong(
        "rate_inside_the_buffer",
        fails=("sgd_step/state",),
        read=MOMENTUM,
        explanation="""The buffer holds gradients times the rate, which is the classical convention. torch's buffer
        holds gradients alone; the two differ as soon as a schedule changes the rate.""",
        change="""
-            state["momentum_buffer"] = g.clone()
+            state["momentum_buffer"] = lr * g
@@
-            state["momentum_buffer"].mul_(momentum).add_(g, alpha=1 - dampening)
+            state["momentum_buffer"].mul_(momentum).add_(g, alpha=lr * (1 - dampening))
@@
-        g = g.add(buffer, alpha=momentum) if nesterov else buffer
-    parameter.add_(g, alpha=-lr)
+        g = (lr * g).add(buffer, alpha=momentum) if nesterov else buffer
+        parameter.sub_(g)
+    else:
+        parameter.sub_(lr * g)
""",
    ),
    KnownWrong(
        "buffer_without_momentum",
        fails=("sgd_step/state",),
        read=STATE,
        explanation="""A buffer is stored although momentum is 0: 4 bytes per fp32 parameter that nothing uses.""",
        change="""
-    if momentum:
+    if momentum or True:
""",
    ),
    # ------------------------------------------------------------------------------------------------------ adam_step
    KnownWrong(
        "no_bias_correction",
        fails=("adam_step/first",),
        read=FIRST_STEPS,
        explanation="""The averages are used without bias correction. Both begin at 0, v more slowly than m with the
        usual betas, so the first steps have a wrong size: with the defaults they are 3 to 6 times too long.""",
        change="""
-    m_hat = m / (1 - betas[0] ** state["step"])
-    v_hat = v / (1 - betas[1] ** state["step"])
+    m_hat, v_hat = m, v
""",
    ),
    KnownWrong(
        "only_m_corrected",
        fails=("adam_step/first",),
        read=FIRST_STEPS,
        explanation="""Only m is corrected. v begins at 0 too, and needs its own correction with the second beta.""",
        change="""
-    v_hat = v / (1 - betas[1] ** state["step"])
+    v_hat = v
""",
    ),
    KnownWrong(
        "epsilon_under_the_root",
        fails=("adam_step/first",),
        read=EPSILON,
        explanation="""eps is added to v̂ under the root. Adam adds it to the root: under the root, the same number
        acts as its own square root does outside.""",
        change="""
-    parameter.sub_(lr * m_hat / (v_hat.sqrt() + eps))
+    parameter.sub_(lr * m_hat / (v_hat + eps).sqrt())
""",
    ),
    KnownWrong(
        "epsilon_before_the_correction",
        fails=("adam_step/first",),
        read=EPSILON,
        explanation="""eps is added to the root of the uncorrected v, as in the compact form of the paper. It then
        counts 1 / sqrt(1 - beta2 ** t) times as much: 32 times in the first step with the default beta2.""",
        change="""
-    parameter.sub_(lr * m_hat / (v_hat.sqrt() + eps))
+    parameter.sub_(lr * m_hat / ((v.sqrt() + eps) / (1 - betas[1] ** state["step"]) ** 0.5))
""",
    ),
    KnownWrong(
        "square_of_the_mean",
        fails=("adam_step/first",),
        read=ADAM,
        explanation="""v averages the square of m. It averages the square of the gradient, which noise raises even
        where the mean is 0.""",
        change="""
-    v = state["exp_avg_sq"].mul_(betas[1]).addcmul_(g, g, value=1 - betas[1])
+    v = state["exp_avg_sq"].mul_(betas[1]).addcmul_(m, m, value=1 - betas[1])
""",
    ),
    KnownWrong(
        "no_root",
        fails=("adam_step/first",),
        read=ADAM,
        explanation="""The step divides by v̂ without its root. The root gives the quotient no unit: the step does not
        depend on the scale of the loss.""",
        change="""
-    parameter.sub_(lr * m_hat / (v_hat.sqrt() + eps))
+    parameter.sub_(lr * m_hat / (v_hat + eps))
""",
    ),
    KnownWrong(
        "count_from_zero",
        fails=("adam_step/first",),
        read=FIRST_STEPS,
        explanation="""The first step has number 0, where the correction divides by 1 - beta ** 0 = 0, and the
        parameter becomes nan. Steps count from 1.""",
        change="""
-    m_hat = m / (1 - betas[0] ** state["step"])
-    v_hat = v / (1 - betas[1] ** state["step"])
+    m_hat = m / (1 - betas[0] ** (state["step"] - 1))
+    v_hat = v / (1 - betas[1] ** (state["step"] - 1))
""",
    ),
    KnownWrong(
        "betas_swapped",
        fails=("adam_step/later",),
        read=ADAM,
        explanation="""The betas are swapped: the first one belongs to m and the second one to v. The first step does
        not show it, because the correction cancels both.""",
        change="""
-    m = state["exp_avg"].mul_(betas[0]).add_(g, alpha=1 - betas[0])
-    v = state["exp_avg_sq"].mul_(betas[1]).addcmul_(g, g, value=1 - betas[1])
-    m_hat = m / (1 - betas[0] ** state["step"])
-    v_hat = v / (1 - betas[1] ** state["step"])
+    m = state["exp_avg"].mul_(betas[1]).add_(g, alpha=1 - betas[1])
+    v = state["exp_avg_sq"].mul_(betas[0]).addcmul_(g, g, value=1 - betas[0])
+    m_hat = m / (1 - betas[1] ** state["step"])
+    v_hat = v / (1 - betas[0] ** state["step"])
""",
    ),
    KnownWrong(
        "always_the_first_step",
        fails=("adam_step/later",),
        read=FIRST_STEPS,
        explanation="""Every step is corrected as if it were the first one: the count of steps does not rise. After
        many steps the correction must vanish.""",
        change="""
-    state["step"] += 1
+    state["step"] = 1
""",
    ),
    KnownWrong(
        "state_rebound",
        fails=("adam_step/later",),
        read=STATE,
        explanation="""Nothing is kept from step to step: the averages are stored in a new dict. `state = {...}` gives
        the name to a new dict inside the function; the caller's dict stays empty. Change the dict itself.""",
        change="""
-        state.update(step=0, exp_avg=torch.zeros_like(parameter), exp_avg_sq=torch.zeros_like(parameter))
+        state = dict(step=0, exp_avg=torch.zeros_like(parameter), exp_avg_sq=torch.zeros_like(parameter))
""",
    ),
    KnownWrong(
        "corrected_averages_stored",
        fails=("adam_step/later",),
        read=ADAM,
        explanation="""The corrected averages are stored, and the next step corrects them again. The state holds m and
        v as they are; the correction makes new tensors.""",
        change="""
-    m_hat = m / (1 - betas[0] ** state["step"])
-    v_hat = v / (1 - betas[1] ** state["step"])
+    m_hat = m.div_(1 - betas[0] ** state["step"])
+    v_hat = v.div_(1 - betas[1] ** state["step"])
""",
    ),
    KnownWrong(
        "decay_decoupled",
        fails=("adam_step/decay",),
        read=ADAMW,
        explanation="""The decay shrinks the parameter directly, which is AdamW's rule. In Adam the decay is a part of
        the gradient, and passes through m and v.""",
        change="""
-    g = gradient + weight_decay * parameter
+    g = gradient
+    parameter.mul_(1 - lr * weight_decay)
""",
    ),
    KnownWrong(
        "decay_in_m_only",
        fails=("adam_step/decay",),
        read=ADAMW,
        explanation="""The decay enters m but not v. In Adam the decay is a part of the gradient, whose square v
        averages as well.""",
        change="""
-    v = state["exp_avg_sq"].mul_(betas[1]).addcmul_(g, g, value=1 - betas[1])
+    v = state["exp_avg_sq"].mul_(betas[1]).addcmul_(gradient, gradient, value=1 - betas[1])
""",
    ),
    KnownWrong(
        "gradient_in_place",
        fails=("adam_step/decay",),
        read=ADAMW,
        explanation="""The decay is added to the caller's gradient in place. A second optimizer, or a log of gradients,
        then sees the decay in it.""",
        change="""
-    g = gradient + weight_decay * parameter
+    g = gradient.add_(weight_decay * parameter)
""",
    ),
    KnownWrong(
        "count_as_a_float",
        fails=("adam_step/state",),
        read=CHECKPOINT,
        explanation="""The count of steps is a float. The contract asks for a Python int, which counts exactly.""",
        change="""
-        state.update(step=0, exp_avg=torch.zeros_like(parameter), exp_avg_sq=torch.zeros_like(parameter))
+        state.update(step=0.0, exp_avg=torch.zeros_like(parameter), exp_avg_sq=torch.zeros_like(parameter))
""",
    ),
    KnownWrong(
        "names_of_the_paper",
        fails=("adam_step/state",),
        read=CHECKPOINT,
        explanation="""The averages are stored under other names than torch's, so a checkpoint of one optimizer does
        not fit the other. The names are "exp_avg" and "exp_avg_sq".""",
        change="""
-        state.update(step=0, exp_avg=torch.zeros_like(parameter), exp_avg_sq=torch.zeros_like(parameter))
+        state.update(step=0, m=torch.zeros_like(parameter), v=torch.zeros_like(parameter))
@@
-    m = state["exp_avg"].mul_(betas[0]).add_(g, alpha=1 - betas[0])
-    v = state["exp_avg_sq"].mul_(betas[1]).addcmul_(g, g, value=1 - betas[1])
+    m = state["m"].mul_(betas[0]).add_(g, alpha=1 - betas[0])
+    v = state["v"].mul_(betas[1]).addcmul_(g, g, value=1 - betas[1])
""",
    ),
    # ----------------------------------------------------------------------------------------------------- adamw_step
    KnownWrong(
        "defaults_used",
        fails=("adamw_step/none",),
        read=ADAM,
        explanation="""betas and eps have no effect: the step uses the default values of Adam. Pass the settings on.""",
        change="""
-    adam_step(parameter, gradient, state, lr=lr, betas=betas, eps=eps)
+    adam_step(parameter, gradient, state, lr=lr)
""",
    ),
    KnownWrong(
        "decay_inside_the_moments",
        fails=("adamw_step/decay", "adamw_step/state"),
        read=ADAMW,
        explanation="""The decay is added to the gradient and passes through m and v, where the division by √v̂ makes
        it different for each weight. AdamW shrinks every weight by the same factor.""",
        change="""
-    parameter.mul_(1 - lr * weight_decay)
-    adam_step(parameter, gradient, state, lr=lr, betas=betas, eps=eps)
+    adam_step(parameter, gradient, state, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
""",
    ),
    KnownWrong(
        "decay_twice",
        fails=("adamw_step/decay", "adamw_step/state"),
        read=ADAMW,
        explanation="""The decay acts twice: on the parameter, and in the gradient. AdamW has it on the parameter
        alone.""",
        change="""
-    adam_step(parameter, gradient, state, lr=lr, betas=betas, eps=eps)
+    adam_step(parameter, gradient, state, lr=lr, betas=betas, eps=eps, weight_decay=weight_decay)
""",
    ),
    KnownWrong(
        "decay_not_times_the_rate",
        fails=("adamw_step/decay", "adamw_step/state"),
        read=ADAMW,
        explanation="""The parameter shrinks by weight_decay, without the rate. In torch's AdamW the decay per step is
        the product of rate and weight_decay.""",
        change="""
-    parameter.mul_(1 - lr * weight_decay)
+    parameter.mul_(1 - weight_decay)
""",
    ),
    KnownWrong(
        "decay_after_the_step",
        fails=("adamw_step/decay", "adamw_step/state"),
        read=ADAMW,
        explanation="""The parameter shrinks after the step of Adam, so the step shrinks too. The decay comes first.""",
        change="""
-    parameter.mul_(1 - lr * weight_decay)
-    adam_step(parameter, gradient, state, lr=lr, betas=betas, eps=eps)
+    adam_step(parameter, gradient, state, lr=lr, betas=betas, eps=eps)
+    parameter.mul_(1 - lr * weight_decay)
""",
    ),
    KnownWrong(
        "weights_grow",
        fails=("adamw_step/decay", "adamw_step/state"),
        read=ADAMW,
        explanation="""The decay makes the weights grow: its sign is reversed.""",
        change="""
-    parameter.mul_(1 - lr * weight_decay)
+    parameter.mul_(1 + lr * weight_decay)
""",
    ),
    KnownWrong(
        "no_decay_without_gradient",
        fails=("adamw_step/decay",),
        read=NO_GRADIENT,
        explanation="""A gradient of zeros stops the decay. AdamW decays a parameter in every step in which it has a
        gradient, zeros included; only a gradient of None stops it.""",
        change="""
-    parameter.mul_(1 - lr * weight_decay)
+    parameter.mul_(1 - lr * weight_decay * bool(gradient.any()))
""",
    ),
    # ------------------------------------------------------------------------------------------------- optimizer_step
    KnownWrong(
        "params_popped",
        fails=("optimizer_step/calls",),
        read=GROUPS,
        explanation="""The groups lose their list of parameters in the first step, so the second step finds none.
        dict.pop changes the caller's group; read the list and leave it there.""",
        change="""
-            settings = {name: value for name, value in group.items() if name != "params"}
-            for parameter in group["params"]:
+            parameters, settings = group.pop("params"), group
+            for parameter in parameters:
""",
    ),
    KnownWrong(
        "truth_of_a_gradient",
        fails=("optimizer_step/calls",),
        read=NO_GRADIENT,
        explanation="""The gradient itself stands in an `if`, and a tensor of several numbers has no truth value. The
        question is whether it is None.""",
        change="""
-                if parameter.grad is not None:
+                if parameter.grad:
""",
    ),
    KnownWrong(
        "one_group_only",
        fails=("optimizer_step/calls",),
        read=GROUPS,
        explanation="""Only the first group takes a step. Every group does.""",
        change="""
-        for group in groups:
+        for group in groups[:1]:
""",
    ),
    KnownWrong(
        "gradients_taken_away",
        fails=("optimizer_step/calls",),
        read=GROUPS,
        explanation="""The gradients are set to None after the step. They belong to the caller, who may log them or add
        to them; `zero_grad` clears them.""",
        change="""
                     rule(parameter, parameter.grad, states.setdefault(parameter, {}), **settings)
+                    parameter.grad = None
""",
    ),
    KnownWrong(
        "single_numbers_left_out",
        fails=("optimizer_step/calls",),
        read=GROUPS,
        explanation="""A parameter without dimensions, a single number, gets no step. A learned temperature or a scale
        is such a parameter: what counts is whether it has a gradient.""",
        change="""
-                if parameter.grad is not None:
+                if parameter.grad is not None and parameter.ndim:
""",
    ),
    KnownWrong(
        "settings_of_the_first_group",
        fails=("optimizer_step/settings",),
        read=GROUPS,
        explanation="""All parameters get the settings of the first group. Groups exist so that settings differ: norms
        without decay, layers with rates of their own.""",
        change="""
-            settings = {name: value for name, value in group.items() if name != "params"}
+            settings = {name: value for name, value in groups[0].items() if name != "params"}
""",
    ),
    KnownWrong(
        "settings_of_all_groups",
        fails=("optimizer_step/settings",),
        read=GROUPS,
        explanation="""A setting of one group goes on into the groups after it. A group's own entries are all of its
        settings.""",
        change="""
-        for group in groups:
-            settings = {name: value for name, value in group.items() if name != "params"}
+        settings = {}
+        for group in groups:
+            settings.update({name: value for name, value in group.items() if name != "params"})
""",
    ),
    KnownWrong(
        "parameters_among_the_settings",
        fails=("optimizer_step/settings",),
        read=GROUPS,
        explanation="""The list of parameters is passed on as a setting. "params" is the group's list; all other
        entries are settings.""",
        change="""
-            settings = {name: value for name, value in group.items() if name != "params"}
+            settings = dict(group)
""",
    ),
    KnownWrong(
        "none_as_zeros",
        fails=("optimizer_step/none",),
        read=NO_GRADIENT,
        explanation="""A gradient of None is treated as zeros: momentum then moves the parameter, and AdamW decays it.
        A parameter without a gradient is left out.""",
        change="""
-                if parameter.grad is not None:
-                    rule(parameter, parameter.grad, states.setdefault(parameter, {}), **settings)
+                gradient = torch.zeros_like(parameter) if parameter.grad is None else parameter.grad
+                rule(parameter, gradient, states.setdefault(parameter, {}), **settings)
""",
    ),
    KnownWrong(
        "zeros_as_none",
        fails=("optimizer_step/none",),
        read=NO_GRADIENT,
        explanation="""A gradient of zeros is treated as none: the averages do not fade in that step, and AdamW does
        not decay the parameter. Only None is left out.""",
        change="""
-                if parameter.grad is not None:
+                if parameter.grad is not None and parameter.grad.any():
""",
    ),
    KnownWrong(
        "frozen_left_out",
        fails=("optimizer_step/none",),
        read=NO_GRADIENT,
        explanation="""A parameter that has a gradient gets no step if its requires_grad is False. Only a gradient of
        None leaves a parameter out; torch's optimizers do not look at requires_grad.""",
        change="""
-                if parameter.grad is not None:
+                if parameter.grad is not None and parameter.requires_grad:
""",
    ),
    KnownWrong(
        "state_before_the_gradient",
        fails=("optimizer_step/none",),
        read=NO_GRADIENT,
        explanation="""A parameter without a gradient gets a state. A frozen layer would then take memory for averages
        that nothing uses.""",
        change="""
-                if parameter.grad is not None:
-                    rule(parameter, parameter.grad, states.setdefault(parameter, {}), **settings)
+                state = states.setdefault(parameter, {})
+                if parameter.grad is not None:
+                    rule(parameter, parameter.grad, state, **settings)
""",
    ),
    KnownWrong(
        "state_of_the_group",
        fails=("optimizer_step/none", "optimizer_step/state"),
        read=CHECKPOINT,
        explanation="""All parameters of a group share a state. Each parameter has averages and a count of its own.""",
        change="""
-        for group in groups:
+        for number, group in enumerate(groups):
@@
-                    rule(parameter, parameter.grad, states.setdefault(parameter, {}), **settings)
+                    rule(parameter, parameter.grad, states.setdefault(number, {}), **settings)  # type: ignore
""",
    ),
    KnownWrong(
        "state_by_position",
        fails=("optimizer_step/none", "optimizer_step/state"),
        read=CHECKPOINT,
        explanation="""The state belongs to a position within the group, so the first parameters of all groups share
        one. It belongs to the parameter itself.""",
        change="""
-            for parameter in group["params"]:
+            for place, parameter in enumerate(group["params"]):
@@
-                    rule(parameter, parameter.grad, states.setdefault(parameter, {}), **settings)
+                    rule(parameter, parameter.grad, states.setdefault(place, {}), **settings)  # type: ignore
""",
    ),
    KnownWrong(
        "state_not_stored",
        fails=("optimizer_step/none", "optimizer_step/state"),
        read=STATE,
        explanation="""A new state is never stored in `states`, so every step is a first step. dict.get returns a
        default and does not keep it.""",
        change="""
-                    rule(parameter, parameter.grad, states.setdefault(parameter, {}), **settings)
+                    rule(parameter, parameter.grad, states.get(parameter, {}), **settings)
""",
    ),
    KnownWrong(
        "state_fresh_in_every_step",
        fails=("optimizer_step/none", "optimizer_step/state"),
        read=STATE,
        explanation="""Every step begins with an empty state, and throws the averages of earlier steps away.""",
        change="""
-                    rule(parameter, parameter.grad, states.setdefault(parameter, {}), **settings)
+                    states[parameter] = {}
+                    rule(parameter, parameter.grad, states[parameter], **settings)
""",
    ),
    KnownWrong(
        "autograd_stays_on",
        fails=("optimizer_step/autograd",),
        read=SGD,
        explanation="""The rule runs with autograd on. A change of a leaf in place is then an error, and other changes
        build a graph over all steps.""",
        change="""
-    with torch.no_grad():
+    if True:
""",
    ),
    KnownWrong(
        "autograd_switched_by_hand",
        fails=("optimizer_step/autograd",),
        read=SGD,
        explanation="""Autograd is not as before after the call: it is switched on whatever it was, or stays off after
        an error in the rule. `with torch.no_grad():` puts it back in every case.""",
        change="""
-    with torch.no_grad():
+    torch.set_grad_enabled(False)
+    if True:
@@
                     rule(parameter, parameter.grad, states.setdefault(parameter, {}), **settings)
+    torch.set_grad_enabled(True)
""",
    ),
    KnownWrong(
        "inference_mode",
        fails=("optimizer_step/autograd",),
        read=SGD,
        explanation="""The rule runs in inference mode. Tensors that it makes there, such as the averages in the state,
        are inference tensors, which autograd refuses and which nothing outside inference mode may change in place.""",
        change="""
-    with torch.no_grad():
+    with torch.inference_mode():
""",
    ),
    # -------------------------------------------------------------------------------------------------- newton_schulz
    KnownWrong(
        "not_normalized",
        fails=("newton_schulz/square",),
        read=MUON,
        explanation="""The iteration starts at the matrix itself. It converges only if no singular value is above about
        1.26, so the matrix is first divided by its norm.""",
        change="""
-    x = x / x.norm().clamp(min=1e-7)
+    x = x.clone()
""",
    ),
    KnownWrong(
        "spectral_norm",
        fails=("newton_schulz/square",),
        read=MUON,
        explanation="""The matrix is divided by its largest singular value, which takes a decomposition to compute. The
        Frobenius norm is at least as large, and is one sum of squares.""",
        change="""
-    x = x / x.norm().clamp(min=1e-7)
+    x = x / torch.linalg.matrix_norm(x, 2).clamp(min=1e-7)
""",
    ),
    KnownWrong(
        "epsilon_added_to_the_norm",
        fails=("newton_schulz/square",),
        read=MUON,
        explanation="""1e-7 is added to the norm. It is a lower limit of the norm: a matrix whose norm is above it is
        divided by the norm alone.""",
        change="""
-    x = x / x.norm().clamp(min=1e-7)
+    x = x / (x.norm() + 1e-7)
""",
    ),
    KnownWrong(
        "cubic_iteration",
        fails=("newton_schulz/square",),
        read=MUON,
        explanation="""The classical iteration, 1.5 X - 0.5 X Xᵀ X, takes the place of the quintic one. It converges to
        exactly 1, but small singular values grow by a factor of only 1.5 per step, instead of 3.4.""",
        change="""
-    a, b, c = 3.4445, -4.7750, 2.0315
+    a, b, c = 1.5, -0.5, 0.0
""",
    ),
    KnownWrong(
        "gram_not_squared",
        fails=("newton_schulz/square",),
        read=MUON,
        explanation="""The last term has A instead of A², so a singular value s gets no fifth power. The polynomial is
        a s + b s³ + c s⁵.""",
        change="""
-        x = a * x + (b * gram + c * gram @ gram) @ x
+        x = a * x + (b * gram + c * gram) @ x
""",
    ),
    KnownWrong(
        "squared_number_by_number",
        fails=("newton_schulz/square",),
        read=MUON,
        explanation="""A is squared number by number: `**` and `*` are no matrix products. A² is A @ A, which keeps the
        singular vectors.""",
        change="""
-        x = a * x + (b * gram + c * gram @ gram) @ x
+        x = a * x + (b * gram + c * gram**2) @ x
""",
    ),
    KnownWrong(
        "normalized_in_every_step",
        fails=("newton_schulz/square",),
        read=MUON,
        explanation="""The matrix is divided by its norm in every step. The norm of a matrix whose singular values are
        all 1 is the root of their number, so the division undoes the iteration.""",
        change="""
-    x = x / x.norm().clamp(min=1e-7)
-    for _ in range(steps):
+    for _ in range(steps):
+        x = x / x.norm().clamp(min=1e-7)
""",
    ),
    KnownWrong(
        "rounded_to_bfloat16",
        fails=("newton_schulz/square",),
        read=MUON,
        explanation="""The products are rounded to bfloat16, as torch.optim.Muon rounds them for speed. The contract
        here is the dtype of the matrix.""",
        change="""
-    x = x / x.norm().clamp(min=1e-7)
+    x = (x / x.norm().clamp(min=1e-7)).bfloat16()
@@
-    return x.T if tall else x
+    return (x.T if tall else x).to(matrix.dtype)
""",
    ),
    KnownWrong(
        "five_steps_always",
        fails=("newton_schulz/steps",),
        read=MUON,
        explanation="""The number of steps is always 5, whatever `steps` says.""",
        change="""
-    for _ in range(steps):
+    for _ in range(5):
""",
    ),
    KnownWrong(
        "not_transposed_back",
        fails=("newton_schulz/rectangular",),
        read=MUON,
        explanation="""The result of a tall matrix is still transposed. It must have the shape of the matrix that came
        in.""",
        change="""
-    return x.T if tall else x
+    return x
""",
    ),
    KnownWrong(
        "square_matrices_only",
        fails=("newton_schulz/rectangular",),
        read=MUON,
        explanation="""A is X X, which exists for square matrices only and squares no singular value. A is X Xᵀ.""",
        change="""
-        gram = x @ x.T
+        gram = x @ x.T if x.shape[0] == x.shape[1] else x @ x
""",
    ),
    KnownWrong(
        "large_side",
        fails=("newton_schulz/small-side",),
        read=MUON,
        explanation="""A tall matrix is not transposed, so A has its larger side: the result is the same, and takes
        many times the operations. A [4096, 1024] matrix takes ten times as many.""",
        change="""
-    tall = matrix.shape[0] > matrix.shape[1]
+    tall = False
""",
    ),
    KnownWrong(
        "wide_transposed",
        fails=("newton_schulz/small-side",),
        read=MUON,
        explanation="""The wide matrix is transposed, and not the tall one, so that A always has the larger side. The
        result is right, and the products are as large as they can be.""",
        change="""
-    tall = matrix.shape[0] > matrix.shape[1]
+    tall = matrix.shape[0] < matrix.shape[1]
""",
    ),
    KnownWrong(
        "zero_divided_by_zero",
        fails=("newton_schulz/zero",),
        read=MUON,
        explanation="""A matrix of zeros becomes nan, because its norm is 0. A layer that no example used has such a
        gradient.""",
        change="""
-    x = x / x.norm().clamp(min=1e-7)
+    x = x / x.norm()
""",
    ),
    KnownWrong(
        "divided_in_place",
        fails=("newton_schulz/kept",),
        read=MUON,
        explanation="""The caller's matrix is divided in place. In Muon the matrix is the momentum buffer, which must
        keep its size for the next step.""",
        change="""
-    x = x / x.norm().clamp(min=1e-7)
+    x = x.div_(x.norm().clamp(min=1e-7))
""",
    ),
    # ------------------------------------------------------------------------------------------------------ muon_step
    KnownWrong(
        "only_normalized",
        fails=("muon_step/first", "muon_step/momentum"),
        read=MUON,
        explanation="""The direction is divided by its norm, and not orthogonalized. Then the large singular values
        still decide the step; Muon makes all of them nearly equal.""",
        change="""
-    update = newton_schulz(gradient.lerp(buffer, momentum) if nesterov else buffer, steps)
+    update = gradient.lerp(buffer, momentum) if nesterov else buffer
+    update = update / update.norm().clamp(min=1e-7)
""",
    ),
    KnownWrong(
        "orthogonalized_before_averaging",
        fails=("muon_step/first", "muon_step/momentum"),
        read=MUON,
        explanation="""Each gradient is orthogonalized before the buffer averages it. An average of orthogonal matrices
        is not orthogonal: average first.""",
        change="""
-    buffer.lerp_(gradient, 1 - momentum)
-    update = newton_schulz(gradient.lerp(buffer, momentum) if nesterov else buffer, steps)
+    gradient = newton_schulz(gradient, steps)
+    buffer.lerp_(gradient, 1 - momentum)
+    update = gradient.lerp(buffer, momentum) if nesterov else buffer
""",
    ),
    KnownWrong(
        "scaled_as_adamw",
        fails=("muon_step/first", "muon_step/momentum"),
        read=MUON,
        explanation="""The step is scaled by 0.2 sqrt(max(n, m)), which gives it the size of AdamW's steps. That is
        torch's option match_rms_adamw; the contract, and torch's default, is sqrt(max(1, n / m)).""",
        change="""
-    parameter.sub_(lr * math.sqrt(max(1, parameter.shape[0] / parameter.shape[1])) * update)
+    parameter.sub_(lr * 0.2 * math.sqrt(max(parameter.shape)) * update)
""",
    ),
    KnownWrong(
        "steps_not_passed_on",
        fails=("muon_step/first", "muon_step/momentum"),
        read=MUON,
        explanation="""newton_schulz takes its default of 5 steps, whatever `steps` says.""",
        change="""
-    update = newton_schulz(gradient.lerp(buffer, momentum) if nesterov else buffer, steps)
+    update = newton_schulz(gradient.lerp(buffer, momentum) if nesterov else buffer)
""",
    ),
    KnownWrong(
        "buffer_begins_at_the_gradient",
        fails=("muon_step/momentum",),
        read=MOMENTUM,
        explanation="""The buffer begins at the first gradient, as that of SGD does. Here it begins at 0. The first
        step is the same, because its size does not matter; later the first gradient counts too much.""",
        change="""
-    buffer = state.setdefault("momentum_buffer", torch.zeros_like(parameter))
+    buffer = state.setdefault("momentum_buffer", gradient.clone())
""",
    ),
    KnownWrong(
        "shares_swapped",
        fails=("muon_step/momentum",),
        read=MOMENTUM,
        explanation="""The buffer keeps 1 - momentum of itself and takes momentum of the gradient: the two shares are
        swapped.""",
        change="""
-    buffer.lerp_(gradient, 1 - momentum)
+    buffer.lerp_(gradient, momentum)
""",
    ),
    KnownWrong(
        "look_ahead_from_the_old_average",
        fails=("muon_step/nesterov",),
        read=MOMENTUM,
        explanation="""Nesterov's direction averages the gradient with the buffer from before this step. It takes the
        new buffer.""",
        change="""
-    buffer.lerp_(gradient, 1 - momentum)
+    old = buffer.clone()
+    buffer.lerp_(gradient, 1 - momentum)
@@
-    update = newton_schulz(gradient.lerp(buffer, momentum) if nesterov else buffer, steps)
+    update = newton_schulz(gradient.lerp(old, momentum) if nesterov else buffer, steps)
""",
    ),
    KnownWrong(
        "look_ahead_as_in_sgd",
        fails=("muon_step/nesterov",),
        read=MOMENTUM,
        explanation="""Nesterov's direction is the whole gradient plus momentum times the buffer, as in SGD. This
        buffer is an average, so the gradient takes the share 1 - momentum.""",
        change="""
-    update = newton_schulz(gradient.lerp(buffer, momentum) if nesterov else buffer, steps)
+    update = newton_schulz(gradient + momentum * buffer if nesterov else buffer, steps)
""",
    ),
    KnownWrong(
        "not_scaled_by_shape",
        fails=("muon_step/scaling",),
        read=MUON,
        explanation="""The step of a tall matrix is not scaled. Its factor is sqrt(n / m), rows over columns.""",
        change="""
-    parameter.sub_(lr * math.sqrt(max(1, parameter.shape[0] / parameter.shape[1])) * update)
+    parameter.sub_(lr * update)
""",
    ),
    KnownWrong(
        "columns_over_rows",
        fails=("muon_step/scaling",),
        read=MUON,
        explanation="""The step is scaled by columns over rows. torch's weights have a row per output: the factor is
        rows over columns.""",
        change="""
-    parameter.sub_(lr * math.sqrt(max(1, parameter.shape[0] / parameter.shape[1])) * update)
+    parameter.sub_(lr * math.sqrt(max(1, parameter.shape[1] / parameter.shape[0])) * update)
""",
    ),
    KnownWrong(
        "wide_shrunk",
        fails=("muon_step/scaling",),
        read=MUON,
        explanation="""The step of a wide matrix is shrunk by sqrt(n / m). The factor is at least 1.""",
        change="""
-    parameter.sub_(lr * math.sqrt(max(1, parameter.shape[0] / parameter.shape[1])) * update)
+    parameter.sub_(lr * math.sqrt(parameter.shape[0] / parameter.shape[1]) * update)
""",
    ),
    KnownWrong(
        "decay_by_the_scaled_rate",
        fails=("muon_step/decay",),
        read=MUON,
        explanation="""The decay uses the rate after scaling, so that tall matrices shrink faster. The scaling is for
        the update alone.""",
        change="""
-    parameter.mul_(1 - lr * weight_decay)
-    parameter.sub_(lr * math.sqrt(max(1, parameter.shape[0] / parameter.shape[1])) * update)
+    lr = lr * math.sqrt(max(1, parameter.shape[0] / parameter.shape[1]))
+    parameter.mul_(1 - lr * weight_decay)
+    parameter.sub_(lr * update)
""",
    ),
    KnownWrong(
        "decay_orthogonalized",
        fails=("muon_step/decay",),
        read=ADAMW,
        explanation="""The decay is added to the gradient, and orthogonalized with it. It is decoupled, as in AdamW.""",
        change="""
-    buffer.lerp_(gradient, 1 - momentum)
+    gradient = gradient + weight_decay * parameter
+    buffer.lerp_(gradient, 1 - momentum)
@@
-    parameter.mul_(1 - lr * weight_decay)
""",
    ),
    KnownWrong(
        "gradients_summed",
        fails=("muon_step/state",),
        read=MOMENTUM,
        explanation="""The buffer adds whole gradients up, as that of SGD does. The steps are the same, because
        newton_schulz takes no notice of a factor, but the buffer is 1 / (1 - momentum) times torch's.""",
        change="""
-    buffer.lerp_(gradient, 1 - momentum)
-    update = newton_schulz(gradient.lerp(buffer, momentum) if nesterov else buffer, steps)
+    buffer.mul_(momentum).add_(gradient)
+    update = newton_schulz(gradient + momentum * buffer if nesterov else buffer, steps)
""",
    ),
    # ------------------------------------------------------------------------------------------------ muon_parameters
    KnownWrong(
        "every_matrix",
        fails=("muon_parameters/hidden",),
        read=MUON,
        explanation="""Muon gets embeddings and the head. Their rows belong to single tokens, and AdamW trains them
        better.""",
        change="""
-    excluded = set(head.parameters())
-    for module in model.modules():
-        if isinstance(module, nn.Embedding):
-            excluded.update(module.parameters())
+    excluded: set[nn.Parameter] = set()
""",
    ),
    KnownWrong(
        "head_forgotten",
        fails=("muon_parameters/hidden",),
        read=MUON,
        explanation="""Muon gets the head, which is no hidden layer: its rows belong to single tokens.""",
        change="""
-    excluded = set(head.parameters())
+    excluded: set[nn.Parameter] = set()
""",
    ),
    KnownWrong(
        "embeddings_forgotten",
        fails=("muon_parameters/hidden",),
        read=MUON,
        explanation="""Muon gets the embeddings, whose rows belong to single tokens: most rows have a gradient of
        zeros.""",
        change="""
-        if isinstance(module, nn.Embedding):
-            excluded.update(module.parameters())
+        pass
""",
    ),
    KnownWrong(
        "outermost_layers_only",
        fails=("muon_parameters/hidden",),
        read=MUON,
        explanation="""Embeddings are found only among the outermost layers: model.children() does not go deeper.
        model.modules() does.""",
        change="""
-    for module in model.modules():
+    for module in model.children():
""",
    ),
    KnownWrong(
        "sets_of_parameters",
        fails=("muon_parameters/hidden",),
        read=CHECKPOINT,
        explanation="""The parameters come back as sets, which have no order. An optimizer's checkpoint knows its
        parameters by their order: return lists.""",
        change="""
-    return matrices, [parameter for parameter in trained if parameter.ndim != 2 or parameter in excluded]
+    return set(matrices), set(trained) - set(matrices)  # type: ignore
""",
    ),
    KnownWrong(
        "convolutions_too",
        fails=("muon_parameters/dimensions",),
        read=MUON,
        explanation="""Muon gets parameters of more than two dimensions, which are no matrices: newton_schulz cannot
        multiply them as such.""",
        change="""
-    matrices = [parameter for parameter in trained if parameter.ndim == 2 and parameter not in excluded]
-    return matrices, [parameter for parameter in trained if parameter.ndim != 2 or parameter in excluded]
+    matrices = [parameter for parameter in trained if parameter.ndim >= 2 and parameter not in excluded]
+    return matrices, [parameter for parameter in trained if parameter.ndim < 2 or parameter in excluded]
""",
    ),
    KnownWrong(
        "linear_layers_only",
        fails=("muon_parameters/dimensions",),
        read=MUON,
        explanation="""Only the weights of nn.Linear go to Muon. A matrix of another layer, such as an attention layer
        with its own parameters, is a hidden matrix as well.""",
        change="""
-    excluded = set(head.parameters())
+    excluded = set(head.parameters()) | set(model.parameters())
+    for module in model.modules():
+        if isinstance(module, nn.Linear):
+            excluded -= {module.weight} - set(head.parameters())
""",
    ),
    KnownWrong(
        "subclasses_missed",
        fails=("muon_parameters/names",),
        read=MUON,
        explanation="""An embedding whose class is derived from nn.Embedding is taken for a hidden matrix. isinstance
        is true for derived classes too; a comparison of types is not.""",
        change="""
-        if isinstance(module, nn.Embedding):
+        if type(module) is nn.Embedding:
""",
    ),
    KnownWrong(
        "by_name",
        fails=("muon_parameters/names",),
        read=GROUPS,
        explanation="""A layer's name decides: layers called head or embedding are left to AdamW, whatever they are.
        Names are a habit of one model; the class and the given head decide.""",
        change="""
-    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
+    for name, parameter in model.named_parameters():
+        if "head" in name or "embed" in name:
+            excluded.add(parameter)
+    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
""",
    ),
    KnownWrong(
        "weight_of_the_head",
        fails=("muon_parameters/names",),
        read=MUON,
        explanation="""The head is taken for a single layer with a `weight`. It may be a block of layers: all of
        head.parameters() belong to it.""",
        change="""
-    excluded = set(head.parameters())
+    excluded = {head.weight}
""",
    ),
    KnownWrong(
        "shared_twice",
        fails=("muon_parameters/shared",),
        read=MUON,
        explanation="""A parameter that two layers share is listed twice, and would take two steps per update.
        model.parameters() yields it once; a loop over the layers does not.""",
        change="""
-    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
+    layers = model.modules()
+    trained = [p for layer in layers for p in layer.parameters(recurse=False) if p.requires_grad]
""",
    ),
    KnownWrong(
        "shared_with_an_embedding",
        fails=("muon_parameters/shared",),
        read=MUON,
        explanation="""A matrix that a hidden layer shares with an embedding goes to Muon. The last layer that owns it
        decides here; it is for Muon only if none of its layers is an embedding or the head.""",
        change="""
-            excluded.update(module.parameters())
+            excluded.update(module.parameters())
+    for module in model.modules():
+        if isinstance(module, nn.Linear) and module is not head and not isinstance(head, nn.Sequential):
+            excluded.discard(module.weight)
""",
    ),
    KnownWrong(
        "frozen_too",
        fails=("muon_parameters/frozen",),
        read=NO_GRADIENT,
        explanation="""Frozen parameters are listed. They have no gradient, and belong to no optimizer.""",
        change="""
-    trained = [parameter for parameter in model.parameters() if parameter.requires_grad]
+    trained = list(model.parameters())
""",
    ),
    KnownWrong(
        "frozen_at_adamw",
        fails=("muon_parameters/frozen",),
        read=NO_GRADIENT,
        explanation="""Frozen matrices are left out at Muon, and all other frozen parameters go to AdamW. A frozen
        parameter is in neither list.""",
        change="""
-    return matrices, [parameter for parameter in trained if parameter.ndim != 2 or parameter in excluded]
+    return matrices, [p for p in model.parameters() if p.ndim != 2 or p in excluded]
""",
    ),
    # ------------------------------------------------------------------------------------------------- update_average
    KnownWrong(
        "average_shares_swapped",
        fails=("update_average/weights",),
        read=AVERAGE,
        explanation="""The average keeps 1 - d of itself and takes d of the model: with the usual d it is nearly the
        model's last weights. The two shares are swapped.""",
        change="""
-            mean.lerp_(parameter.to(mean.dtype), 1 - kept)
+            mean.lerp_(parameter.to(mean.dtype), kept)
""",
    ),
    KnownWrong(
        "larger_of_the_two",
        fails=("update_average/weights",),
        read=AVERAGE,
        explanation="""The larger of the two shares is taken. The warm-up's share rises toward 1, so in the end the
        average hardly moves; `decay` is its upper limit.""",
        change="""
-    kept = min(decay, (1 + step) / (10 + step))
+    share = (1 + step) / (10 + step)
+    kept = share if share > decay else decay
""",
    ),
    KnownWrong(
        "frozen_not_averaged",
        fails=("update_average/weights",),
        read=AVERAGE,
        explanation="""Frozen weights are left out of the average. A layer may be frozen for a part of the training;
        every parameter is averaged.""",
        change="""
-            mean.lerp_(parameter.to(mean.dtype), 1 - kept)
+            if parameter.requires_grad:
+                mean.lerp_(parameter.to(mean.dtype), 1 - kept)
""",
    ),
    KnownWrong(
        "average_with_autograd",
        fails=("update_average/weights", "update_average/buffers"),
        read=AVERAGE,
        explanation="""The average is changed with autograd on, which refuses to change a leaf in place. Use
        torch.no_grad().""",
        change="""
-    with torch.no_grad():
+    if True:
""",
    ),
    KnownWrong(
        "no_warm_up",
        fails=("update_average/warm-up",),
        read=AVERAGE,
        explanation="""The full decay holds from the first update. With 0.999 the random weights of the start then
        still make up more than a third of the average after 1,000 updates.""",
        change="""
-    kept = min(decay, (1 + step) / (10 + step))
+    kept = decay
""",
    ),
    KnownWrong(
        "warm_up_from_one",
        fails=("update_average/warm-up",),
        read=AVERAGE,
        explanation="""The warm-up counts from 1. `step` is 0 in the first update, where the share is 1 / 10.""",
        change="""
-    kept = min(decay, (1 + step) / (10 + step))
+    kept = min(decay, (2 + step) / (11 + step))
""",
    ),
    KnownWrong(
        "bias_correction_for_warm_up",
        fails=("update_average/warm-up",),
        read=AVERAGE,
        explanation="""The first update keeps nothing of the average: a share of step / (10 + step). The contract's
        share begins at 0.1.""",
        change="""
-    kept = min(decay, (1 + step) / (10 + step))
+    kept = min(decay, step / (10 + step))
""",
    ),
    KnownWrong(
        "buffers_averaged",
        fails=("update_average/buffers",),
        read=AVERAGE,
        explanation="""Buffers are averaged like weights. A count becomes a fraction, cut off to an integer, and a
        running statistic is averaged twice. Copy them.""",
        change="""
-            copied.copy_(buffer)
+            copied.copy_(kept * copied + (1 - kept) * buffer)
""",
    ),
    KnownWrong(
        "buffers_forgotten",
        fails=("update_average/buffers",),
        read=AVERAGE,
        explanation="""Buffers of the average stay as they were at the start. A BatchNorm of the averaged model then
        normalizes by statistics of the untrained model.""",
        change="""
-        for copied, buffer in zip(average.buffers(), model.buffers(), strict=True):
-            copied.copy_(buffer)
""",
    ),
    KnownWrong(
        "float_buffers_only",
        fails=("update_average/buffers",),
        read=AVERAGE,
        explanation="""Only buffers of floats are copied. Counts and masks are buffers too.""",
        change="""
-            copied.copy_(buffer)
+            if buffer.is_floating_point():
+                copied.copy_(buffer)
""",
    ),
    KnownWrong(
        "by_state_dict",
        fails=("update_average/buffers", "update_average/shared"),
        read=AVERAGE,
        explanation="""The average runs over state_dict(), which lists a shared weight under each of its names, so it
        is updated twice, and leaves out buffers that are not saved. Use parameters() and buffers().""",
        change="""
-        for mean, parameter in zip(average.parameters(), model.parameters(), strict=True):
-            mean.lerp_(parameter.to(mean.dtype), 1 - kept)
-        for copied, buffer in zip(average.buffers(), model.buffers(), strict=True):
-            copied.copy_(buffer)
+        weights, current = {name for name, _ in average.named_parameters(remove_duplicate=False)}, model.state_dict()
+        for name, value in average.state_dict().items():
+            if name in weights:
+                value.lerp_(current[name].to(value.dtype), 1 - kept)
+            else:
+                value.copy_(current[name])
""",
    ),
    KnownWrong(
        "shared_updated_twice",
        fails=("update_average/shared",),
        read=AVERAGE,
        explanation="""A weight that two layers share is updated once per layer, so its average keeps d² of itself. It
        is one weight.""",
        change="""
-        for mean, parameter in zip(average.parameters(), model.parameters(), strict=True):
+        own = [p for _, p in average.named_parameters(remove_duplicate=False)]
+        for mean, (_, parameter) in zip(own, model.named_parameters(remove_duplicate=False), strict=True):
""",
    ),
    KnownWrong(
        "one_dtype_assumed",
        fails=("update_average/dtypes",),
        read=AVERAGE,
        explanation="""The update assumes that model and average have one dtype, and raises an error where the model is
        in bfloat16. Convert the model's weights to the dtype of the average.""",
        change="""
-            mean.lerp_(parameter.to(mean.dtype), 1 - kept)
+            mean.lerp_(parameter, 1 - kept)
""",
    ),
    KnownWrong(
        "averaged_in_bfloat16",
        fails=("update_average/dtypes",),
        read=AVERAGE,
        explanation="""The average is rounded to the model's bfloat16 in every update. Its 8 bits do not hold a change
        of a thousandth: the average stands still.""",
        change="""
-            mean.lerp_(parameter.to(mean.dtype), 1 - kept)
+            mean.copy_(mean.to(parameter.dtype).lerp_(parameter, 1 - kept))
""",
    ),
    KnownWrong(
        "share_rounded_to_16_bits",
        fails=("update_average/dtypes",),
        read=AVERAGE,
        explanation="""The model's share is computed in bfloat16, and rounded to 8 digits before it enters the average.
        Convert the parameter to the average's dtype first.""",
        change="""
-            mean.lerp_(parameter.to(mean.dtype), 1 - kept)
+            mean.copy_(kept * mean + (1 - kept) * parameter)
""",
    ),
    KnownWrong(
        "difference_in_16_bits",
        fails=("update_average/dtypes",),
        read=AVERAGE,
        explanation="""The difference of model and average is computed in bfloat16. The average is rounded for it, and
        what is smaller than a digit of bfloat16 is lost.""",
        change="""
-            mean.lerp_(parameter.to(mean.dtype), 1 - kept)
+            mean.add_(parameter - mean.to(parameter.dtype), alpha=1 - kept)
""",
    ),
    KnownWrong(
        "buffers_shared",
        fails=("update_average/dtypes", "update_average/apart"),
        read=AVERAGE,
        explanation="""The average takes the model's own buffers, and shares them from then on: the next training step
        changes both, and the average takes on the model's dtype. Copy their numbers.""",
        change="""
-        for copied, buffer in zip(average.buffers(), model.buffers(), strict=True):
-            copied.copy_(buffer)
+        for own, other in zip(average.modules(), model.modules(), strict=True):
+            own._buffers.update(other._buffers)
""",
    ),
    KnownWrong(
        "model_averaged_too",
        fails=("update_average/apart",),
        read=AVERAGE,
        explanation="""The model takes on the averaged weights, so training goes on from them. The average is read by
        validation alone; training keeps its own weights.""",
        change="""
-            mean.lerp_(parameter.to(mean.dtype), 1 - kept)
+            mean.lerp_(parameter.to(mean.dtype), 1 - kept)
+            if parameter.requires_grad and parameter.ndim == 1:
+                parameter.copy_(mean)
""",
    ),
    # ------------------------------------------------------------------------------------------------ clip_adaptively
    KnownWrong(
        "whole_matrix",
        fails=("clip_adaptively/rows",),
        read=CLIPPING,
        explanation="""A matrix is clipped as a whole. Its units are its rows, each compared with its own weights: one
        large row must not shrink the others.""",
        change="""
-        units = 1 if parameter.ndim < 2 else len(parameter)
+        units = 1
""",
    ),
    KnownWrong(
        "columns",
        fails=("clip_adaptively/rows",),
        read=CLIPPING,
        explanation="""Columns are clipped. A row of a torch weight holds what computes one output; a column belongs to
        one input.""",
        definitions="""
def clip_adaptively(parameters: Iterable[nn.Parameter], clipping: float = 0.01, eps: float = 1e-3) -> int:
    clipped = 0
    for parameter in parameters:
        if parameter.grad is None:
            continue
        axes = 0 if parameter.ndim else ()
        limit = clipping * parameter.detach().norm(dim=axes, keepdim=True).clamp(min=eps)
        norm = parameter.grad.norm(dim=axes, keepdim=True)
        parameter.grad.mul_(torch.where(norm > limit, limit / norm, 1.0).to(parameter.grad.dtype))
        clipped += int((norm > limit).sum())
    return clipped
""",
    ),
    KnownWrong(
        "all_scaled",
        fails=("clip_adaptively/rows", "clip_adaptively/vectors"),
        read=CLIPPING,
        explanation="""Gradients below the limit are enlarged to it. Clipping only shortens.""",
        change="""
-        factor = torch.where(norm > limit, limit / norm, 1.0).to(gradient.dtype)
+        factor = torch.where(norm > 0, limit / norm, 1.0).to(gradient.dtype)
""",
    ),
    KnownWrong(
        "fixed_limit",
        fails=("clip_adaptively/rows", "clip_adaptively/vectors"),
        read=CLIPPING,
        explanation="""The limit is the same for all units, whatever the norm of their weights. Adaptive clipping
        allows a large weight a large gradient.""",
        change="""
-        limit = clipping * weight.norm(dim=1).clamp(min=eps)
+        limit = clipping * torch.ones_like(weight.norm(dim=1))
""",
    ),
    KnownWrong(
        "number_by_number",
        fails=("clip_adaptively/rows", "clip_adaptively/vectors"),
        read=CLIPPING,
        explanation="""Every number is limited by itself, which changes the direction of the gradient. A unit's
        gradient is multiplied by one factor.""",
        change="""
-        parameter.grad.detach().mul_(factor.view(-1, *[1] * (parameter.ndim - 1)) if parameter.ndim else factor[0])
+        gradient.clamp_(-limit[:, None], limit[:, None])
""",
    ),
    KnownWrong(
        "second_axis_of_a_convolution",
        fails=("clip_adaptively/convolutions",),
        read=CLIPPING,
        explanation="""The norm of a convolution's weight runs over its second axis alone. One output depends on all
        axes but the first.""",
        definitions="""
def clip_adaptively(parameters: Iterable[nn.Parameter], clipping: float = 0.01, eps: float = 1e-3) -> int:
    clipped = 0
    for parameter in parameters:
        if parameter.grad is None:
            continue
        axes = 1 if parameter.ndim > 1 else None
        limit = clipping * parameter.detach().norm(dim=axes, keepdim=axes == 1).clamp(min=eps)
        norm = parameter.grad.norm(dim=axes, keepdim=axes == 1)
        parameter.grad.mul_(torch.where(norm > limit, limit / norm, 1.0).to(parameter.grad.dtype))
        clipped += int((norm > limit).sum())
    return clipped
""",
    ),
    KnownWrong(
        "units_of_a_vector",
        fails=("clip_adaptively/vectors",),
        read=CLIPPING,
        explanation="""Every number of a vector is a unit of its own. A bias or a norm's weight is one unit.""",
        change="""
-        units = 1 if parameter.ndim < 2 else len(parameter)
+        units = 1 if parameter.ndim < 1 else len(parameter)
""",
    ),
    KnownWrong(
        "no_lower_limit",
        fails=("clip_adaptively/near-zero",),
        read=CLIPPING,
        explanation="""The norm of the weights has no lower limit, so weights that begin at 0 never move: every
        gradient of theirs is clipped to 0.""",
        change="""
-        limit = clipping * weight.norm(dim=1).clamp(min=eps)
+        limit = clipping * weight.norm(dim=1)
""",
    ),
    KnownWrong(
        "lower_limit_of_the_gradient",
        fails=("clip_adaptively/near-zero",),
        read=CLIPPING,
        explanation="""eps is the lower limit of the gradient's norm. It belongs to the weights, so that weights near 0
        can move.""",
        change="""
-        limit = clipping * weight.norm(dim=1).clamp(min=eps)
-        norm = gradient.norm(dim=1)
+        limit = clipping * weight.norm(dim=1)
+        norm = gradient.norm(dim=1).clamp(min=eps)
""",
    ),
    KnownWrong(
        "weights_of_zero_left_out",
        fails=("clip_adaptively/near-zero",),
        read=CLIPPING,
        explanation="""Units whose weights are zero are not clipped at all. Their limit is clipping times eps.""",
        change="""
-        limit = clipping * weight.norm(dim=1).clamp(min=eps)
+        limit = clipping * weight.norm(dim=1).clamp(min=eps)
+        limit = torch.where(weight.norm(dim=1) > 0, limit, torch.inf)
""",
    ),
    KnownWrong(
        "zero_over_zero",
        fails=("clip_adaptively/none",),
        read=CLIPPING,
        explanation="""A gradient of zeros becomes nan where the limit is 0 as well: the quotient 0 / 0 is computed and
        used. Divide only where the norm is above the limit.""",
        change="""
-        factor = torch.where(norm > limit, limit / norm, 1.0).to(gradient.dtype)
+        factor = (limit / norm).clamp(max=1.0).to(gradient.dtype)
""",
    ),
    KnownWrong(
        "none_not_left_out",
        fails=("clip_adaptively/none",),
        read=NONE_AND_ZERO,
        explanation="""A parameter without a gradient raises an error. A frozen or unused layer has none: leave it
        out.""",
        change="""
-        if parameter.grad is None:
-            continue
""",
    ),
    KnownWrong(
        "tensors_counted",
        fails=("clip_adaptively/count",),
        read=CLIPPING,
        explanation="""Parameters are counted, not units: a matrix with three clipped rows counts once.""",
        change="""
-        clipped += int((norm > limit).sum())
+        clipped += int((norm > limit).any())
""",
    ),
    KnownWrong(
        "count_as_a_tensor",
        fails=("clip_adaptively/count",),
        read=CLIPPING,
        explanation="""The number of clipped units comes back as a tensor. The contract asks for a Python int.""",
        change="""
-        clipped += int((norm > limit).sum())
+        clipped += (norm > limit).sum()  # type: ignore
""",
    ),
    KnownWrong(
        "new_gradient",
        fails=("clip_adaptively/in-place",),
        read=CLIPPING,
        explanation="""`grad` becomes another tensor. Code that holds the old one, such as a bucket of DDP whose views
        the gradients are, no longer sees it: multiply in place.""",
        change="""
-        parameter.grad.detach().mul_(factor.view(-1, *[1] * (parameter.ndim - 1)) if parameter.ndim else factor[0])
+        factors = factor.view(-1, *[1] * (parameter.ndim - 1)) if parameter.ndim else factor[0]
+        parameter.grad = parameter.grad * factors
""",
    ),
    # ----------------------------------------------------------------------------------------------------- range_test
    KnownWrong(
        "first_group_only",
        fails=("range_test/losses",),
        read=FINDER,
        explanation="""Only the first group gets the rate. The others train at the rate that they had.""",
        change="""
-            for entry in optimizer.param_groups:
+            for entry in optimizer.param_groups[:1]:
""",
    ),
    KnownWrong(
        "rate_set_too_late",
        fails=("range_test/losses",),
        read=FINDER,
        explanation="""The rate is set after the step, so each step runs at the rate of the step before.""",
        change="""
-            for entry in optimizer.param_groups:
-                entry["lr"] = rate
-            losses.append(float(train_step()))
+            losses.append(float(train_step()))
+            for entry in optimizer.param_groups:
+                entry["lr"] = rate
""",
    ),
    KnownWrong(
        "optimizer_defaults",
        fails=("range_test/losses",),
        read=FINDER,
        explanation="""The rate is set in optimizer.defaults, which only new groups read. The rate of a group is its
        own entry "lr".""",
        change="""
-            for entry in optimizer.param_groups:
-                entry["lr"] = rate
+            optimizer.defaults["lr"] = rate
""",
    ),
    KnownWrong(
        "above_the_first_loss",
        fails=("range_test/stop",),
        read=FINDER,
        explanation="""The loss is compared with the first one. The lowest loss so far counts: a test whose loss has
        fallen far would otherwise go on long after it diverged.""",
        change="""
-            if not losses[-1] <= stop * min(losses) or math.isinf(losses[-1]):
+            if not losses[-1] <= stop * losses[0] or math.isinf(losses[-1]):
""",
    ),
    KnownWrong(
        "above_the_loss_before",
        fails=("range_test/stop",),
        read=FINDER,
        explanation="""The loss is compared with that of the step before. A loss that rises slowly then never ends the
        test: compare it with the lowest so far.""",
        change="""
-            if not losses[-1] <= stop * min(losses) or math.isinf(losses[-1]):
+            if not losses[-1] <= stop * losses[-2:][0] or math.isinf(losses[-1]):
""",
    ),
    KnownWrong(
        "last_loss_dropped",
        fails=("range_test/stop", "range_test/not-finite"),
        read=FINDER,
        explanation="""The loss that ends the test is not in the list. It belongs to a step that was taken, and shows
        where the test ended.""",
        change="""
-            losses.append(float(train_step()))
-            if not losses[-1] <= stop * min(losses) or math.isinf(losses[-1]):
-                break
+            loss = float(train_step())
+            if not loss <= stop * min([*losses, loss]) or math.isinf(loss):
+                break
+            losses.append(loss)
""",
    ),
    KnownWrong(
        "never_stops",
        fails=("range_test/stop", "range_test/not-finite"),
        read=FINDER,
        explanation="""The test never ends early: it goes on with weights that have diverged.""",
        change="""
-            if not losses[-1] <= stop * min(losses) or math.isinf(losses[-1]):
-                break
""",
    ),
    KnownWrong(
        "nan_goes_on",
        fails=("range_test/not-finite",),
        read=FINDER,
        explanation="""A loss that is not finite does not end the test. Comparisons with nan are false, and infinity is
        not above itself: ask for what must hold, and for math.isfinite.""",
        change="""
-            if not losses[-1] <= stop * min(losses) or math.isinf(losses[-1]):
+            if losses[-1] > stop * min(losses):
""",
    ),
    KnownWrong(
        "state_dict_without_a_copy",
        fails=("range_test/model", "range_test/optimizer"),
        read=CHECKPOINT,
        explanation="""The weights stay as the test left them. state_dict() holds the model's own tensors, which the
        steps change in place; a copy keeps the old numbers.""",
        change="""
-    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
+    before = (model.state_dict(), optimizer.state_dict())
""",
    ),
    KnownWrong(
        "shallow_copy",
        fails=("range_test/model",),
        read=CHECKPOINT,
        explanation="""The model's weights stay as the test left them. A shallow copy of a dict holds the same tensors;
        copy.deepcopy copies them.""",
        change="""
-    before = copy.deepcopy((model.state_dict(), optimizer.state_dict()))
+    before = (copy.copy(model.state_dict()), copy.deepcopy(optimizer.state_dict()))
""",
    ),
    KnownWrong(
        "buffers_not_restored",
        fails=("range_test/model",),
        read=CHECKPOINT,
        explanation="""Parameters are put back, and buffers are not. The running statistics of a BatchNorm then hold
        nan or the activations of a diverged model.""",
        change="""
-        model.load_state_dict(before[0])
+        names = {name for name, _ in model.named_parameters()}
+        model.load_state_dict({name: value for name, value in before[0].items() if name in names}, strict=False)
""",
    ),
    KnownWrong(
        "model_replaced",
        fails=("range_test/model", "range_test/optimizer"),
        read=CHECKPOINT,
        explanation="""The weights are put back as new tensors. The optimizer still holds the old ones, and trains
        tensors that the model no longer has.""",
        change="""
-        model.load_state_dict(before[0])
+        for module in model.modules():
+            for name, parameter in module._parameters.items():
+                module._parameters[name] = nn.Parameter(parameter.detach().clone())
+        model.load_state_dict(before[0])
""",
    ),
    KnownWrong(
        "modes_not_restored",
        fails=("range_test/model",),
        read=FINDER,
        explanation="""The model is in another mode than before the test: a step trains in train mode. A model that was
        evaluated before then uses Dropout, or BatchNorm's statistics of each batch.""",
        change="""
-        for layer, training in modes:
-            layer.training = training
""",
    ),
    KnownWrong(
        "one_mode_for_all_layers",
        fails=("range_test/model",),
        read=FINDER,
        explanation="""All layers get the mode of the whole model. A layer may have a mode of its own, such as a frozen
        BatchNorm in eval mode within a model in train mode; model.train(mode) sets all layers.""",
        change="""
-        for layer, training in modes:
-            layer.training = training
+        model.train(modes[0][1])
""",
    ),
    KnownWrong(
        "optimizer_not_restored",
        fails=("range_test/optimizer",),
        read=CHECKPOINT,
        explanation="""The optimizer keeps the averages and rates of the test. Training then begins with gradients of a
        diverged model in its averages.""",
        change="""
-        optimizer.load_state_dict(before[1])
""",
    ),
    KnownWrong(
        "state_cleared",
        fails=("range_test/optimizer",),
        read=CHECKPOINT,
        explanation="""The optimizer's state is emptied. It had averages before the test, and must have them again.""",
        change="""
-        optimizer.load_state_dict(before[1])
+        optimizer.load_state_dict(before[1])
+        optimizer.state.clear()
""",
    ),
    KnownWrong(
        "not_after_an_error",
        fails=("range_test/error",),
        read=CHECKPOINT,
        explanation="""After an error in the training step nothing is put back. An interrupted test, by Ctrl-C too,
        must not ruin the model: use try and finally.""",
        change="""
-    try:
-        for rate in rates:
+    if True:
+        for rate in rates:
@@
-    finally:
-        model.load_state_dict(before[0])
-        optimizer.load_state_dict(before[1])
-        for layer, training in modes:
-            layer.training = training
+    model.load_state_dict(before[0])
+    optimizer.load_state_dict(before[1])
+    for layer, training in modes:
+        layer.training = training
""",
    ),
    KnownWrong(
        "error_swallowed",
        fails=("range_test/error",),
        read=FINDER,
        explanation="""An error in the training step is swallowed, and the caller takes a broken test for a short
        one.""",
        change="""
-    finally:
-        model.load_state_dict(before[0])
-        optimizer.load_state_dict(before[1])
-        for layer, training in modes:
-            layer.training = training
+    except Exception:
+        pass
+    model.load_state_dict(before[0])
+    optimizer.load_state_dict(before[1])
+    for layer, training in modes:
+        layer.training = training
""",
    ),
    # ------------------------------------------------------------------------------------------------- suggested_rate
    KnownWrong(
        "lowest_loss",
        fails=("suggested_rate/steepest",),
        read=FINDER,
        explanation="""The rate of the lowest loss is returned. There the curve is about to rise: the rate is at the
        edge of divergence.""",
        change="""
-    best = min(trends, key=trends.__getitem__, default=None)
+    best = min(trends, key=lambda rate: smooth[rates.index(rate)], default=None)
""",
    ),
    KnownWrong(
        "tenth_of_the_lowest",
        fails=("suggested_rate/steepest",),
        read=FINDER,
        explanation="""A tenth of the rate with the lowest loss is returned, which is another rule of thumb. The
        contract asks for the steepest fall, at one of the given rates.""",
        change="""
-    best = min(trends, key=trends.__getitem__, default=None)
-    return best if best is not None and trends[best] < 0 else None
+    best = min(trends, key=lambda rate: smooth[rates.index(rate)], default=None)
+    return best / 10 if best is not None and min(trends.values()) < 0 else None
""",
    ),
    KnownWrong(
        "trend_per_rate",
        fails=("suggested_rate/steepest",),
        read=FINDER,
        explanation="""The trend is taken per unit of the rate, not per factor. At small rates the denominators are
        tiny, so noise there looks like the steepest fall.""",
        change="""
-        rates[k]: (smooth[k + 1] - smooth[k - 1]) / math.log(rates[k + 1] / rates[k - 1])
+        rates[k]: (smooth[k + 1] - smooth[k - 1]) / (rates[k + 1] - rates[k - 1])
""",
    ),
    KnownWrong(
        "forward_difference",
        fails=("suggested_rate/steepest",),
        read=FINDER,
        explanation="""The trend runs from a step to the next one, so the fall is found one step early, and noise of
        single losses counts twice as much. The contract's trend runs from the step before to the step after.""",
        change="""
-        rates[k]: (smooth[k + 1] - smooth[k - 1]) / math.log(rates[k + 1] / rates[k - 1])
+        rates[k]: (smooth[k + 1] - smooth[k]) / math.log(rates[k + 1] / rates[k])
""",
    ),
    KnownWrong(
        "steepest_either_way",
        fails=("suggested_rate/steepest",),
        read=FINDER,
        explanation="""The steepest change of the loss is found, rise or fall. The steepest rise is where the run
        diverges.""",
        change="""
-    best = min(trends, key=trends.__getitem__, default=None)
-    return best if best is not None and trends[best] < 0 else None
+    best = max(trends, key=lambda rate: abs(trends[rate]), default=None)
+    return best if best is not None and min(trends.values()) < 0 else None
""",
    ),
    KnownWrong(
        "smoothing_swapped",
        fails=("suggested_rate/steepest",),
        read=FINDER,
        explanation="""The running mean keeps 1 - smoothing of itself: smoothing 0 then smooths everything away, and
        0.9 hardly smooths. The two shares are swapped.""",
        change="""
-        mean = smoothing * mean + (1 - smoothing) * loss
+        mean = (1 - smoothing) * mean + smoothing * loss
""",
    ),
    KnownWrong(
        "trend_per_step",
        fails=("suggested_rate/factors",),
        read=FINDER,
        explanation="""The trend is taken per step, as if every step raised the rate by the same factor. Divide by the
        logarithm of the rates' quotient.""",
        change="""
-        rates[k]: (smooth[k + 1] - smooth[k - 1]) / math.log(rates[k + 1] / rates[k - 1])
+        rates[k]: smooth[k + 1] - smooth[k - 1]
""",
    ),
    KnownWrong(
        "not_smoothed",
        fails=("suggested_rate/smoothing",),
        read=FINDER,
        explanation="""The losses are not smoothed. On a noisy curve the steepest fall between neighbors is noise.""",
        change="""
-        smooth.append(mean / (1 - smoothing**k))
+        smooth.append(loss)
""",
    ),
    KnownWrong(
        "smoothing_not_corrected",
        fails=("suggested_rate/smoothing",),
        read=FIRST_STEPS,
        explanation="""The running mean begins at 0 and is not corrected, so the curve seems to rise through its first
        steps. Adam's m needs the same division.""",
        change="""
-        smooth.append(mean / (1 - smoothing**k))
+        smooth.append(mean)
""",
    ),
    KnownWrong(
        "smoothing_from_the_first_loss",
        fails=("suggested_rate/smoothing",),
        read=FIRST_STEPS,
        explanation="""The running mean begins at the first loss, whose noise then stays in the curve for many steps.
        The contract begins at 0 and divides by 1 - smoothing ** k.""",
        change="""
-        mean = smoothing * mean + (1 - smoothing) * loss
-        smooth.append(mean / (1 - smoothing**k))
+        mean = smoothing * mean + (1 - smoothing) * loss if k > 1 else loss
+        smooth.append(mean)
""",
    ),
    KnownWrong(
        "nan_left_out_alone",
        fails=("suggested_rate/end",),
        read=FINDER,
        explanation="""Only the losses that are not finite are left out, and those after them count. A run that has
        once diverged says nothing about the rates that follow.""",
        change="""
-    for k, loss in enumerate(losses, start=1):
-        if not math.isfinite(loss):
-            break
+    for k, loss in enumerate([loss for loss in losses if math.isfinite(loss)], start=1):
""",
    ),
    KnownWrong(
        "rates_all_used",
        fails=("suggested_rate/end", "suggested_rate/none"),
        read=FINDER,
        explanation="""The number of rates decides how many losses there are. A range test may end early: there are
        trends only where there are losses.""",
        change="""
-        for k in range(1, len(smooth) - 1)
+        for k in range(1, len(rates) - 1)
""",
    ),
    KnownWrong(
        "always_a_rate",
        fails=("suggested_rate/none",),
        read=FINDER,
        explanation="""A rate is suggested although the loss falls nowhere: the least steep rise. The contract asks for
        None, which tells the caller that the test found nothing.""",
        change="""
-    return best if best is not None and trends[best] < 0 else None
+    return best
""",
    ),
    KnownWrong(
        "error_for_few_losses",
        fails=("suggested_rate/none",),
        read=FINDER,
        explanation="""With fewer than three losses there is no trend, and an error ends the program. The contract asks
        for None.""",
        change="""
-    best = min(trends, key=trends.__getitem__, default=None)
+    best = min(trends, key=trends.__getitem__)
""",
    ),
    # --------------------------------------------------------------------------------------------------- should_prune
    KnownWrong(
        "mean_for_median",
        fails=("should_prune/median",),
        read=MEDIAN,
        explanation="""The trial is compared with the mean. One diverged trial raises the mean so far that nothing is
        pruned any more; the median does not move.""",
        change="""
-    return bool(others) and min(own) > statistics.median(others)
+    return bool(others) and min(own) > statistics.mean(others)
""",
    ),
    KnownWrong(
        "better_half_pruned",
        fails=("should_prune/median",),
        read=MEDIAN,
        explanation="""The better half is pruned: the comparison is reversed.""",
        change="""
-    return bool(others) and min(own) > statistics.median(others)
+    return bool(others) and min(own) < statistics.median(others)
""",
    ),
    KnownWrong(
        "training_loss",
        fails=("should_prune/median",),
        read=MEDIAN,
        explanation="""Trials are judged by their training values. A trial that learns its training data by heart then
        survives; the search is for the best validation value.""",
        change="""
-    complete = [other["validation"] for other in trials if other["state"] == "complete"]
+    complete = [other["training"] for other in trials if other["state"] == "complete"]
@@
-    own = [sign * value for value in trial["validation"].values() if not math.isnan(value)]
+    own = [sign * value for value in trial["training"].values() if not math.isnan(value)]
""",
    ),
    KnownWrong(
        "upper_median",
        fails=("should_prune/median",),
        read=MEDIAN,
        explanation="""With an even number of values, the upper of the middle two is taken for the median. It is the
        mean of both.""",
        change="""
-    return bool(others) and min(own) > statistics.median(others)
+    return bool(others) and min(own) > sorted(others)[len(others) // 2]
""",
    ),
    KnownWrong(
        "as_good_as_the_median",
        fails=("should_prune/median",),
        read=MEDIAN,
        explanation="""A trial whose best value equals the median is pruned. Only a worse one is.""",
        change="""
-    return bool(others) and min(own) > statistics.median(others)
+    return bool(others) and min(own) >= statistics.median(others)
""",
    ),
    KnownWrong(
        "worse_than_the_best",
        fails=("should_prune/median",),
        read=MEDIAN,
        explanation="""A trial is pruned as soon as it is worse than the best complete one. Most good trials are, at
        some step; the median rule ends the worse half.""",
        change="""
-    return bool(others) and min(own) > statistics.median(others)
+    return bool(others) and min(own) > min(others)
""",
    ),
    KnownWrong(
        "compared_with_itself",
        fails=("should_prune/median",),
        read=MEDIAN,
        explanation="""The running trial's own value is among the values of the median. The trial is compared with
        complete trials; its own bad value moves the median toward it.""",
        change="""
-    others = [sign * values[step] for values in complete if step in values and not math.isnan(values[step])]
+    compared = [*complete, trial["validation"]] if complete else []
+    others = [sign * values[step] for values in compared if step in values and not math.isnan(values[step])]
""",
    ),
    KnownWrong(
        "last_value",
        fails=("should_prune/best", "should_prune/direction"),
        read=MEDIAN,
        explanation="""The trial is judged by its last value. One noisy evaluation then ends a good trial; the rule
        takes the best value so far.""",
        change="""
-    return bool(others) and min(own) > statistics.median(others)
+    return bool(others) and sign * trial["validation"][step] > statistics.median(others)
""",
    ),
    KnownWrong(
        "last_written",
        fails=("should_prune/best",),
        read=MEDIAN,
        explanation="""The last step is taken to be the one that was written last. A dict keeps the order of writing;
        the last step is the largest one.""",
        change="""
-    step = max(trial["validation"])
+    step = list(trial["validation"])[-1]
""",
    ),
    KnownWrong(
        "best_of_others",
        fails=("should_prune/step",),
        read=MEDIAN,
        explanation="""The trial is compared with the best values of complete trials, which they reached later. At an
        early step every trial is worse than that: values of the same step must be compared.""",
        change="""
-    others = [sign * values[step] for values in complete if step in values and not math.isnan(values[step])]
+    kept = [[sign * v for k, v in values.items() if not math.isnan(v)] for values in complete if step in values]
+    others = [min(values) for values in kept if values]
""",
    ),
    KnownWrong(
        "final_values",
        fails=("should_prune/step",),
        read=MEDIAN,
        explanation="""The trial is compared with the final values of complete trials, at the end of their training.
        Values of the same step must be compared.""",
        change="""
-    others = [sign * values[step] for values in complete if step in values and not math.isnan(values[step])]
+    last = [values[max(values)] for values in complete if step in values]
+    others = [sign * value for value in last if not math.isnan(value)]
""",
    ),
    KnownWrong(
        "never_reached",
        fails=("should_prune/step",),
        read=MEDIAN,
        explanation="""Trials that never reached the step take part with their last value, from an earlier step. They
        have no value there.""",
        change="""
-    others = [sign * values[step] for values in complete if step in values and not math.isnan(values[step])]
+    nearest = [values.get(step, values[max(values)]) for values in complete]
+    others = [sign * value for value in nearest if not math.isnan(value)]
""",
    ),
    KnownWrong(
        "a_list_for_false",
        fails=("should_prune/step", "should_prune/nan"),
        read=MEDIAN,
        explanation="""Where nothing can be compared, the function returns an empty list: `and` returns its first
        operand if that is empty. The contract asks for a bool.""",
        change="""
-    return bool(others) and min(own) > statistics.median(others)
+    return others and min(own) > statistics.median(others)  # type: ignore
""",
    ),
    KnownWrong(
        "all_trials_counted",
        fails=("should_prune/start",),
        read=MEDIAN,
        explanation="""Trials of every state count toward `startup_trials`. Only complete trials can be compared with,
        so only they count.""",
        change="""
-    if len(complete) < max(1, startup_trials) or not trial["validation"]:
+    if len(trials) < max(1, startup_trials) or not complete or not trial["validation"]:
""",
    ),
    KnownWrong(
        "one_trial_more",
        fails=("should_prune/start",),
        read=MEDIAN,
        explanation="""One complete trial more than `startup_trials` is asked for: with exactly that many the rule
        begins.""",
        change="""
-    if len(complete) < max(1, startup_trials) or not trial["validation"]:
+    if len(complete) <= max(0, startup_trials) or not trial["validation"]:
""",
    ),
    KnownWrong(
        "one_step_more",
        fails=("should_prune/start",),
        read=MEDIAN,
        explanation="""A trial whose last step is exactly `warmup_steps` is spared. The warm-up ends there: only steps
        below it are spared.""",
        change="""
-    if step < warmup_steps:
+    if warmup_steps and step <= warmup_steps:
""",
    ),
    KnownWrong(
        "reports_counted",
        fails=("should_prune/start",),
        read=MEDIAN,
        explanation="""The number of reports is compared with `warmup_steps`. Steps are tokens or updates; reports come
        once in many of them.""",
        change="""
-    if step < warmup_steps:
+    if len(trial["validation"]) < warmup_steps:
""",
    ),
    KnownWrong(
        "start_counted_at_the_step",
        fails=("should_prune/start",),
        read=MEDIAN,
        explanation="""Only complete trials with a value at the last step count toward `startup_trials`. All complete
        trials count; those without a value at the step take no part in the median alone.""",
        change="""
-    if len(complete) < max(1, startup_trials) or not trial["validation"]:
+    if not trial["validation"]:
@@
     step = max(trial["validation"])
-    if step < warmup_steps:
+    if step < warmup_steps or sum(step in values for values in complete) < max(1, startup_trials):
""",
    ),
    KnownWrong(
        "pruned_trials_counted",
        fails=("should_prune/start", "should_prune/state"),
        read=MEDIAN,
        explanation="""Pruned trials are compared with, and count as complete. They are the worse half by construction,
        so the median gets worse with every one of them.""",
        change="""
-    complete = [other["validation"] for other in trials if other["state"] == "complete"]
+    complete = [other["validation"] for other in trials if other["state"] in ("complete", "pruned")]
""",
    ),
    KnownWrong(
        "all_trials_compared",
        fails=("should_prune/state",),
        read=MEDIAN,
        explanation="""The median runs over all other trials, complete or not. Only complete trials take part: a trial
        that runs, was pruned or failed is no measure of a good one.""",
        change="""
-    others = [sign * values[step] for values in complete if step in values and not math.isnan(values[step])]
+    curves = [other["validation"] for other in trials if other is not trial]
+    others = [sign * values[step] for values in curves if not math.isnan(values.get(step, math.nan))]
""",
    ),
    KnownWrong(
        "direction_ignored",
        fails=("should_prune/direction",),
        read=MEDIAN,
        explanation="""`direction` has no effect: a larger value always counts as worse. For an accuracy the better
        half would be pruned.""",
        change="""
-    sign = 1 if direction == "minimize" else -1
+    sign = 1
""",
    ),
    KnownWrong(
        "smallest_as_the_best",
        fails=("should_prune/direction",),
        read=MEDIAN,
        explanation="""The smallest value counts as a trial's best, whatever the direction. Of values to be maximized
        the largest one is the best.""",
        change="""
-    return bool(others) and min(own) > statistics.median(others)
+    return bool(others) and (min(own) if sign == 1 else max(own)) > statistics.median(others)
""",
    ),
    KnownWrong(
        "only_nan_goes_on",
        fails=("should_prune/nan",),
        read=MEDIAN,
        explanation="""A trial that has reported NaN alone goes on to the end of its budget. It has diverged, and will
        not recover.""",
        change="""
-    if not own:
-        return True
+    if not own:
+        return False
""",
    ),
    KnownWrong(
        "nan_pruned_at_once",
        fails=("should_prune/nan",),
        read=MEDIAN,
        explanation="""One NaN ends a trial, although it has better values. NaN is no value; the best of the others
        counts.""",
        change="""
-    if not own:
+    if len(own) < len(trial["validation"]):
""",
    ),
    KnownWrong(
        "nan_as_the_worst",
        fails=("should_prune/nan",),
        read=MEDIAN,
        explanation="""NaN of other trials counts as infinitely bad in the median, so that a few diverged trials spare
        all others. NaN is no value.""",
        change="""
-    others = [sign * values[step] for values in complete if step in values and not math.isnan(values[step])]
+    others = [sign * values[step] for values in complete if step in values]
+    others = [math.inf if math.isnan(value) else value for value in others]
""",
    ),
    KnownWrong(
        "infinite_values_of_others_left_out",
        fails=("should_prune/nan",),
        read=MEDIAN,
        explanation="""Infinite values of other trials are left out of the median. Only NaN is no value: a trial that
        reported infinity was worse than every finite one, and counts.""",
        change="""
-    others = [sign * values[step] for values in complete if step in values and not math.isnan(values[step])]
+    others = [sign * values[step] for values in complete if math.isfinite(values.get(step, math.nan))]
""",
    ),
    KnownWrong(
        "infinite_values_of_the_trial_left_out",
        fails=("should_prune/nan",),
        read=MEDIAN,
        explanation="""Infinite values of the trial are left out as if they were NaN. Infinity is a value, the best one
        or the worst one by the direction.""",
        change="""
-    own = [sign * value for value in trial["validation"].values() if not math.isnan(value)]
+    own = [sign * value for value in trial["validation"].values() if math.isfinite(value)]
""",
    ),
    KnownWrong(
        "last_step_with_a_number",
        fails=("should_prune/nan",),
        read=MEDIAN,
        explanation="""The trial is compared at its last step with a number. A last value of NaN has a step too, the
        largest that the trial has reported: the others' values at that step count.""",
        change="""
-    step = max(trial["validation"])
+    step = max([at for at, value in trial["validation"].items() if not math.isnan(value)] or trial["validation"])
""",
    ),
    # --------------------------------------------------------------------------------------------- best_configuration
    KnownWrong(
        "luckiest_trial",
        fails=("best_configuration/mean",),
        read=BUDGET,
        explanation="""The parameters of the best single trial are chosen. The best of many trials is lucky as well as
        good; the mean over the seeds shows how good the parameters are.""",
        change="""
-    best = min(complete, key=lambda key: sign * statistics.mean(complete[key]))
+    best = min(complete, key=lambda key: min(sign * value for value in complete[key]))
""",
    ),
    KnownWrong(
        "last_value_of_each",
        fails=("best_configuration/mean",),
        read=BUDGET,
        explanation="""Every trial is judged by its last value, whatever its length. A longer trial has a lower loss
        because it is longer: compare values at `budget`.""",
        change="""
-        value = trial["validation"].get(budget, math.nan)
+        value = trial["validation"][max(trial["validation"])]
""",
    ),
    KnownWrong(
        "best_value_of_each",
        fails=("best_configuration/mean",),
        read=BUDGET,
        explanation="""Every trial is judged by the best value of its curve, which may belong to another budget.
        Compare values at `budget`.""",
        change="""
-        value = trial["validation"].get(budget, math.nan)
+        value = (min if direction == "minimize" else max)(trial["validation"].values())
""",
    ),
    KnownWrong(
        "order_of_entries",
        fails=("best_configuration/mean",),
        read=BUDGET,
        explanation="""Equal parameters count as different if their entries stand in another order. Two dicts are equal
        whatever their order; their items as a tuple are not.""",
        change="""
-            values.setdefault(frozenset(trial["parameters"].items()), {})[trial["seed"]] = value
+            values.setdefault(tuple(trial["parameters"].items()), {})[trial["seed"]] = value
""",
    ),
    KnownWrong(
        "seed_not_a_part",
        fails=("best_configuration/mean",),
        read=BUDGET,
        explanation="""The seed is not a part of a trial's record: of all trials with the same parameters, one value is
        left, that of the last one.""",
        change="""
-            values.setdefault(frozenset(trial["parameters"].items()), {})[trial["seed"]] = value
+            values[frozenset(trial["parameters"].items())] = dict.fromkeys(seeds, value)
""",
    ),
    KnownWrong(
        "median_of_seeds",
        fails=("best_configuration/mean",),
        read=BUDGET,
        explanation="""The median over the seeds is taken. The contract asks for the mean, beside which the standard
        deviation is the spread.""",
        change="""
-    best = min(complete, key=lambda key: sign * statistics.mean(complete[key]))
+    best = min(complete, key=lambda key: sign * statistics.median(complete[key]))
@@
-    return {"parameters": dict(best), "mean": statistics.mean(complete[best]), "spread": spread}
+    return {"parameters": dict(best), "mean": statistics.median(complete[best]), "spread": spread}
""",
    ),
    KnownWrong(
        "parameters_of_zero_dropped",
        fails=("best_configuration/mean",),
        read=BUDGET,
        explanation="""A parameter whose value is 0 is left out, as if it were not set. A weight decay of 0.0 is a value
        like any other.""",
        change="""
-            values.setdefault(frozenset(trial["parameters"].items()), {})[trial["seed"]] = value
+            key = frozenset((name, number) for name, number in trial["parameters"].items() if number)
+            values.setdefault(key, {})[trial["seed"]] = value
""",
    ),
    KnownWrong(
        "divided_by_the_number",
        fails=("best_configuration/spread",),
        read=BUDGET,
        explanation="""The spread is the standard deviation of the values themselves, divided by their number. They are
        a sample: divide by one less, which for three seeds makes it 22 % larger.""",
        change="""
-    spread = statistics.stdev(complete[best]) if len(complete[best]) > 1 else 0.0
+    spread = statistics.pstdev(complete[best])
""",
    ),
    KnownWrong(
        "range_as_the_spread",
        fails=("best_configuration/spread",),
        read=BUDGET,
        explanation="""The spread is the difference of the largest and the smallest value, which grows with the number
        of seeds. The contract asks for the sample standard deviation.""",
        change="""
-    spread = statistics.stdev(complete[best]) if len(complete[best]) > 1 else 0.0
+    spread = max(complete[best]) - min(complete[best])
""",
    ),
    KnownWrong(
        "error_of_the_mean",
        fails=("best_configuration/spread",),
        read=BUDGET,
        explanation="""The standard error of the mean comes back as the spread. It tells how well the mean is known;
        the spread tells how far single runs lie apart.""",
        change="""
-    spread = statistics.stdev(complete[best]) if len(complete[best]) > 1 else 0.0
+    spread = statistics.stdev(complete[best]) / len(seeds) ** 0.5 if len(complete[best]) > 1 else 0.0
""",
    ),
    KnownWrong(
        "fewer_seeds_allowed",
        fails=("best_configuration/seeds",),
        read=BUDGET,
        explanation="""Parameters take part with the seeds that they have. A mean over fewer seeds is luckier: compare
        only parameters that have a value for each seed.""",
        change="""
-    complete = {key: list(by_seed.values()) for key, by_seed in values.items() if len(by_seed) == len(set(seeds))}
+    complete = {key: list(by_seed.values()) for key, by_seed in values.items()}
""",
    ),
    KnownWrong(
        "other_seeds_counted",
        fails=("best_configuration/seeds",),
        read=BUDGET,
        explanation="""Trials of seeds that are not in `seeds` count. Then each mean runs over other seeds, and the
        comparison is not fair.""",
        change="""
-        if trial["state"] == "complete" and trial["seed"] in seeds and math.isfinite(value):
+        if trial["state"] == "complete" and math.isfinite(value):
@@
-    complete = {key: list(by_seed.values()) for key, by_seed in values.items() if len(by_seed) == len(set(seeds))}
+    complete = {key: list(by_seed.values()) for key, by_seed in values.items() if len(by_seed) >= len(set(seeds))}
""",
    ),
    KnownWrong(
        "texts_of_the_parameters",
        fails=("best_configuration/seeds",),
        read=BUDGET,
        explanation="""Equal parameters count as different if their texts differ: 16 and 16.0 are equal numbers, and a
        dict with one equals a dict with the other.""",
        change="""
-    values: dict[Any, dict[int, float]] = {}
+    import json
+
+    values: dict[Any, dict[int, float]] = {}
@@
-            values.setdefault(frozenset(trial["parameters"].items()), {})[trial["seed"]] = value
+            values.setdefault(json.dumps(trial["parameters"], sort_keys=True), {})[trial["seed"]] = value
@@
-    return {"parameters": dict(best), "mean": statistics.mean(complete[best]), "spread": spread}
+    return {"parameters": json.loads(best), "mean": statistics.mean(complete[best]), "spread": spread}
""",
    ),
    KnownWrong(
        "up_to_the_budget",
        fails=("best_configuration/budget",),
        read=BUDGET,
        explanation="""A trial that ended before the budget is judged by its last value before it. It has no value at
        the budget, and cannot be compared.""",
        change="""
-        value = trial["validation"].get(budget, math.nan)
+        reached = [step for step in trial["validation"] if step <= budget]
+        value = trial["validation"][max(reached)] if reached else math.nan
""",
    ),
    KnownWrong(
        "from_the_budget_on",
        fails=("best_configuration/budget",),
        read=BUDGET,
        explanation="""A trial without a value at the budget is judged by a later one. It has trained for longer.""",
        change="""
-        value = trial["validation"].get(budget, math.nan)
+        reached = [step for step in trial["validation"] if step >= budget]
+        value = trial["validation"][min(reached)] if reached else math.nan
""",
    ),
    KnownWrong(
        "every_state",
        fails=("best_configuration/state", "best_configuration/again", "best_configuration/nan"),
        read=BUDGET,
        explanation="""Trials count whatever their state. One that failed, was pruned or still runs has no final
        value.""",
        change="""
-        if trial["state"] == "complete" and trial["seed"] in seeds and math.isfinite(value):
+        if trial["seed"] in seeds and math.isfinite(value):
""",
    ),
    KnownWrong(
        "pruned_trials_too",
        fails=("best_configuration/state",),
        read=BUDGET,
        explanation="""Pruned trials count. A pruned trial was ended on purpose, at a value that it could have
        improved; the contract counts complete trials alone.""",
        change="""
-        if trial["state"] == "complete" and trial["seed"] in seeds and math.isfinite(value):
+        if trial["state"] in ("complete", "pruned") and trial["seed"] in seeds and math.isfinite(value):
""",
    ),
    KnownWrong(
        "counted_twice",
        fails=("best_configuration/again",),
        read=BUDGET,
        explanation="""A seed that was run twice counts twice: in the mean, and as if it were another seed. A run that
        was started again replaces the earlier one.""",
        change="""
-            values.setdefault(frozenset(trial["parameters"].items()), {})[trial["seed"]] = value
+            by_seed = values.setdefault(frozenset(trial["parameters"].items()), {})
+            by_seed[len(by_seed)] = value
@@
-    complete = {key: list(by_seed.values()) for key, by_seed in values.items() if len(by_seed) == len(set(seeds))}
+    complete = {key: list(by_seed.values()) for key, by_seed in values.items() if len(by_seed) >= len(set(seeds))}
""",
    ),
    KnownWrong(
        "first_run_kept",
        fails=("best_configuration/again",),
        read=BUDGET,
        explanation="""Of two runs of one seed the earlier one counts. The later one replaces it.""",
        change="""
-            values.setdefault(frozenset(trial["parameters"].items()), {})[trial["seed"]] = value
+            values.setdefault(frozenset(trial["parameters"].items()), {}).setdefault(trial["seed"], value)
""",
    ),
    KnownWrong(
        "order_of_the_list",
        fails=("best_configuration/again",),
        read=BUDGET,
        explanation="""The trial that stands last in the list replaces the others. The list is in any order; the
        highest number is the latest trial.""",
        change="""
-    for trial in sorted(trials, key=lambda trial: trial["number"]):
+    for trial in trials:
""",
    ),
    KnownWrong(
        "always_the_smallest",
        fails=("best_configuration/direction",),
        read=BUDGET,
        explanation="""The smallest mean is chosen, whatever the direction says.""",
        change="""
-    sign = 1 if direction == "minimize" else -1
+    sign = 1
""",
    ),
    KnownWrong(
        "infinity_is_a_value",
        fails=("best_configuration/nan",),
        read=BUDGET,
        explanation="""An infinite value counts: only NaN is left out. A diverged run may report either.""",
        change="""
-        if trial["state"] == "complete" and trial["seed"] in seeds and math.isfinite(value):
+        if trial["state"] == "complete" and trial["seed"] in seeds and not math.isnan(value):
""",
    ),
    KnownWrong(
        "loss_of_zero_dropped",
        fails=("best_configuration/nan",),
        read=BUDGET,
        explanation="""A value of 0.0 is left out, as if the trial had none. 0.0 is false in an `if` and before an `or`;
        ask whether the step is there, or whether the value is finite.""",
        change="""
-        value = trial["validation"].get(budget, math.nan)
+        value = trial["validation"].get(budget) or math.nan
""",
    ),
    KnownWrong(
        "error_for_none",
        fails=("best_configuration/nan",),
        read=BUDGET,
        explanation="""Where no parameters take part, an error ends the program. The contract asks for None.""",
        change="""
-    if not complete:
-        return None
""",
    ),
)

HURRIED = {
    "sgd_step": {
        "plain SGD only": """
-    if momentum:
+    if False:
""",
        "momentum without a buffer": """
-    parameter.add_(g, alpha=-lr)
+    parameter.add_(g, alpha=-lr * (1 + momentum))
@@
-    if momentum:
+    if False:
""",
        "decay of the whole parameter": """
-    g = gradient.add(parameter, alpha=weight_decay)
+    g = gradient.add(parameter)
""",
    },
    "adam_step": {
        "the sign of the gradient": """
-    parameter.sub_(lr * m_hat / (v_hat.sqrt() + eps))
+    parameter.sub_(lr * m_hat.sign())
""",
        "one beta for both": """
-    v = state["exp_avg_sq"].mul_(betas[1]).addcmul_(g, g, value=1 - betas[1])
+    v = state["exp_avg_sq"].mul_(betas[0]).addcmul_(g, g, value=1 - betas[0])
""",
    },
    "adamw_step": {
        "no decay at all": """
-    parameter.mul_(1 - lr * weight_decay)
""",
        "decay of a hundredth": """
-    parameter.mul_(1 - lr * weight_decay)
+    parameter.mul_(0.99)
""",
    },
    "optimizer_step": {
        "no gradient asked for": """
-                if parameter.grad is not None:
-                    rule(parameter, parameter.grad, states.setdefault(parameter, {}), **settings)
+                rule(parameter, parameter.grad, states.setdefault(parameter, {}), **settings)
""",
        "an empty state for each call": """
-                    rule(parameter, parameter.grad, states.setdefault(parameter, {}), **settings)
+                    rule(parameter, parameter.grad, {}, **settings)
""",
        "no settings": """
-                    rule(parameter, parameter.grad, states.setdefault(parameter, {}), **settings)
+                    rule(parameter, parameter.grad, states.setdefault(parameter, {}))
""",
    },
    "newton_schulz": {
        "normalized alone": """
-    for _ in range(steps):
+    for _ in range(0):
""",
        "by the singular value decomposition": """
-    return x.T if tall else x
+    u, _, vh = torch.linalg.svd(matrix, full_matrices=False)
+    return u @ vh
""",
        "the sign of each number": """
-    return x.T if tall else x
+    return matrix.sign()
""",
    },
    "muon_step": {
        "SGD with a scaled gradient": """
-    update = newton_schulz(gradient.lerp(buffer, momentum) if nesterov else buffer, steps)
+    update = gradient / gradient.norm()
""",
        "no momentum": """
-    update = newton_schulz(gradient.lerp(buffer, momentum) if nesterov else buffer, steps)
+    update = newton_schulz(gradient, steps)
""",
    },
    "muon_parameters": {
        "all to Muon": """
-    matrices = [parameter for parameter in trained if parameter.ndim == 2 and parameter not in excluded]
+    matrices = trained
""",
        "all to AdamW": """
-    matrices = [parameter for parameter in trained if parameter.ndim == 2 and parameter not in excluded]
+    matrices = []
""",
    },
    "update_average": {
        "a copy of the model": """
-            mean.lerp_(parameter.to(mean.dtype), 1 - kept)
+            mean.copy_(parameter)
""",
        "half of each": """
-            mean.lerp_(parameter.to(mean.dtype), 1 - kept)
+            mean.lerp_(parameter.to(mean.dtype), 0.5)
""",
    },
    "clip_adaptively": {
        "torch's clipping by norm": """
-        parameter.grad.detach().mul_(factor.view(-1, *[1] * (parameter.ndim - 1)) if parameter.ndim else factor[0])
+        nn.utils.clip_grad_norm_([parameter], clipping)
""",
        "no clipping": """
-        parameter.grad.detach().mul_(factor.view(-1, *[1] * (parameter.ndim - 1)) if parameter.ndim else factor[0])
""",
    },
    "range_test": {
        "nothing put back": """
-        model.load_state_dict(before[0])
-        optimizer.load_state_dict(before[1])
-        for layer, training in modes:
-            layer.training = training
+        pass
""",
        "a learner's list of rates": """
-    return losses
+    return list(rates)
""",
    },
    "suggested_rate": {
        "the largest rate": """
-    return best if best is not None and trends[best] < 0 else None
+    return rates[-1]
""",
        "the rate in the middle": """
-    return best if best is not None and trends[best] < 0 else None
+    return rates[len(losses) // 2]
""",
    },
    "should_prune": {
        "never": """
-    return bool(others) and min(own) > statistics.median(others)
+    return False
""",
        "always after the start": """
-    return bool(others) and min(own) > statistics.median(others)
+    return True
""",
    },
    "best_configuration": {
        "the first trial": """
-    best = min(complete, key=lambda key: sign * statistics.mean(complete[key]))
+    best = next(iter(complete))
""",
        "the mean alone": """
-    return {"parameters": dict(best), "mean": statistics.mean(complete[best]), "spread": spread}
+    return statistics.mean(complete[best])
""",
    },
}
