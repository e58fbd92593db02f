"""Known-wrong solutions of Lab 14, and hurried answers, as changes to exercises.py."""

from rankzero.exercises.checks.known_wrong import KnownWrong

KNOWN_WRONG = (
    KnownWrong(
        "sum_to_one_operand",
        fails=("arithmetic/add",),
        read="handbook/backpropagation.md#gradients-add-where-paths-meet",
        explanation="""One operand of the sum gets the gradient, the other gets 0. A sum changes as fast with each of
        its operands: both get the whole gradient.""",
        change="""
-    return Value(a.data + b.data, (a, b), lambda g: (g, g), "add")
+    return Value(a.data + b.data, (a, b), lambda g: (g, 0 * g), "add")
""",
    ),
    KnownWrong(
        "sum_by_the_rule_of_products",
        fails=("arithmetic/add",),
        read="handbook/backpropagation.md#derivatives-multiply-along-a-path",
        explanation="""The gradient of a sum is multiplied by an operand. The derivative of a + b with respect to either
        is 1: the gradient passes through unchanged.""",
        change="""
-    return Value(a.data + b.data, (a, b), lambda g: (g, g), "add")
+    return Value(a.data + b.data, (a, b), lambda g: (g * b.data, g * a.data), "add")
""",
    ),
    KnownWrong(
        "sum_halved",
        fails=("arithmetic/add",),
        read="handbook/backpropagation.md#gradients-add-where-paths-meet",
        explanation="""Each operand of the sum gets half of the gradient, as if the operands had to share it. The
        derivative of a + b with respect to each operand is 1, and both get all of it.""",
        change="""
-    return Value(a.data + b.data, (a, b), lambda g: (g, g), "add")
+    return Value(a.data + b.data, (a, b), lambda g: (g / 2, g / 2), "add")
""",
    ),
    KnownWrong(
        "vjp_returns_nothing",
        fails=("arithmetic/add",),
        read="handbook/backpropagation.md#gradients-add-up-in-pgrad",
        explanation="""vjp adds to the operands' grad itself, as micrograd's functions do, and returns nothing. Here it
        returns the gradients, one per parent, and `backward` adds them up.""",
        change="""
-    return Value(a.data + b.data, (a, b), lambda g: (g, g), "add")
+    def vjp(g: Array) -> Any:
+        a.grad = a.grad + unbroadcast(g, a.data.shape)
+        b.grad = b.grad + unbroadcast(g, b.data.shape)
+
+    return Value(a.data + b.data, (a, b), vjp, "add")
""",
    ),
    KnownWrong(
        "own_factor",
        fails=("arithmetic/multiply",),
        read="handbook/backpropagation.md#derivatives-multiply-along-a-path",
        explanation="""The gradient of each operand of the product has that operand as its factor. The derivative of a *
        b with respect to a is b: the factor is the other operand.""",
        change="""
-    return Value(a.data * b.data, (a, b), lambda g: (g * b.data, g * a.data), "multiply")
+    return Value(a.data * b.data, (a, b), lambda g: (g * a.data, g * b.data), "multiply")
""",
    ),
    KnownWrong(
        "product_without_g",
        fails=("arithmetic/multiply",),
        read="handbook/backpropagation.md#derivatives-multiply-along-a-path",
        explanation="""vjp of the product returns the local derivative and leaves the incoming gradient out. The chain
        rule multiplies the two; they agree only where that gradient is 1, as at the root.""",
        change="""
-    return Value(a.data * b.data, (a, b), lambda g: (g * b.data, g * a.data), "multiply")
+    return Value(a.data * b.data, (a, b), lambda g: (b.data + 0 * g, a.data + 0 * g), "multiply")
""",
    ),
    KnownWrong(
        "product_in_place",
        fails=("arithmetic/multiply",),
        read="handbook/backpropagation.md#lifetime-of-the-graph",
        explanation="""The product is computed into an operand's own array, so backward multiplies by the product
        instead of by the operand.""",
        change="""
-    return Value(a.data * b.data, (a, b), lambda g: (g * b.data, g * a.data), "multiply")
+    a.data *= b.data
+    return Value(a.data, (a, b), lambda g: (g * b.data, g * a.data), "multiply")
""",
    ),
    KnownWrong(
        "power_without_comma",
        fails=("arithmetic/power",),
        read="handbook/backpropagation.md#derivatives-multiply-along-a-path",
        explanation="""vjp returns the array itself. A tuple of one item needs a comma: (x,).""",
        change="""
-    return Value(a.data**exponent, (a,), lambda g: (g * derivative,), f"power {exponent}")
+    return Value(a.data**exponent, (a,), lambda g: g * derivative, f"power {exponent}")  # type: ignore[arg-type]
""",
    ),
    KnownWrong(
        "power_without_exponent",
        fails=("arithmetic/power",),
        read="handbook/backpropagation.md#derivatives-multiply-along-a-path",
        explanation="""The factor `exponent` is missing from the derivative of the power, which is exponent * a **
        (exponent - 1).""",
        change="""
-    derivative = 0.0 if exponent == 0 else exponent * a.data ** (exponent - 1)
+    derivative = 0.0 if exponent == 0 else a.data ** (exponent - 1)
""",
    ),
    KnownWrong(
        "power_with_old_exponent",
        fails=("arithmetic/power",),
        read="handbook/backpropagation.md#derivatives-multiply-along-a-path",
        explanation="""The exponent is not lowered by 1 in the derivative of the power, which is exponent * a **
        (exponent - 1).""",
        change="""
-    derivative = 0.0 if exponent == 0 else exponent * a.data ** (exponent - 1)
+    derivative = 0.0 if exponent == 0 else exponent * a.data**exponent
""",
    ),
    KnownWrong(
        "power_without_g",
        fails=("arithmetic/power",),
        read="handbook/backpropagation.md#derivatives-multiply-along-a-path",
        explanation="""vjp of the power returns the local derivative and leaves the incoming gradient out. The chain
        rule multiplies the two.""",
        change="""
-    return Value(a.data**exponent, (a,), lambda g: (g * derivative,), f"power {exponent}")
+    return Value(a.data**exponent, (a,), lambda g: (derivative + 0 * g,), f"power {exponent}")
""",
    ),
    KnownWrong(
        "power_by_logarithm",
        fails=("arithmetic/power",),
        read="handbook/backpropagation.md#derivatives-multiply-along-a-path",
        explanation="""The power is nan for negative numbers, as it is if computed by exp and log. (-2) ** 3 is -8:
        NumPy's ** computes it.""",
        change="""
-    return Value(a.data**exponent, (a,), lambda g: (g * derivative,), f"power {exponent}")
+    data = np.exp(exponent * np.log(a.data))
+    return Value(data, (a,), lambda g: (g * derivative,), f"power {exponent}")
""",
    ),
    KnownWrong(
        "power_of_ints_only",
        fails=("arithmetic/power",),
        read="handbook/backpropagation.md#derivatives-multiply-along-a-path",
        explanation="""A fractional exponent loses its fraction. `exponent` may be a float, such as 0.5 for a root.""",
        change="""
-    derivative = 0.0 if exponent == 0 else exponent * a.data ** (exponent - 1)
+    exponent = int(exponent)
+    derivative = 0.0 if exponent == 0 else exponent * a.data ** (exponent - 1)
""",
    ),
    KnownWrong(
        "power_by_quotient",
        fails=("arithmetic/power-at-0",),
        read="handbook/backpropagation.md#derivatives-multiply-along-a-path",
        explanation="""The derivative of the power is nan at 0, as it is if computed by dividing the power by a: 0 / 0.
        a ** (exponent - 1) is right at 0 too.""",
        change="""
-    derivative = 0.0 if exponent == 0 else exponent * a.data ** (exponent - 1)
-    return Value(a.data**exponent, (a,), lambda g: (g * derivative,), f"power {exponent}")
+    data = a.data**exponent
+    return Value(data, (a,), lambda g: (g * exponent * data / a.data,), f"power {exponent}")
""",
    ),
    KnownWrong(
        "power_with_exponent_0",
        fails=("arithmetic/power-at-0",),
        read="handbook/backpropagation.md#derivatives-multiply-along-a-path",
        explanation="""The derivative of a ** 0 is nan at a = 0, where the general formula multiplies 0 by 0 ** -1,
        which is infinite. a ** 0 is the constant 1, and its derivative is 0 everywhere.""",
        change="""
-    derivative = 0.0 if exponent == 0 else exponent * a.data ** (exponent - 1)
+    derivative = exponent * a.data ** (exponent - 1.0)
""",
    ),
    KnownWrong(
        "power_flat_at_0",
        fails=("arithmetic/power-at-0",),
        read="handbook/backpropagation.md#derivatives-multiply-along-a-path",
        explanation="""The derivative of a power is taken to be 0 wherever a is 0. With exponent 1 it is 1 there, as
        everywhere else.""",
        change="""
-    derivative = 0.0 if exponent == 0 else exponent * a.data ** (exponent - 1)
+    derivative = np.where(a.data == 0, 0.0, exponent * np.where(a.data == 0, 1.0, a.data) ** (exponent - 1))
""",
    ),
    KnownWrong(
        "sum_in_place",
        fails=("arithmetic/broadcast", "arithmetic/kept"),
        read="handbook/backpropagation.md#lifetime-of-the-graph",
        explanation="""The sum is computed into an operand's own array. Other operations may need that array in
        backward, and the operand may be a weight: an operation makes a new array.""",
        change="""
-    return Value(a.data + b.data, (a, b), lambda g: (g, g), "add")
+    a.data += b.data
+    return Value(a.data, (a, b), lambda g: (g, g), "add")
""",
    ),
    KnownWrong(
        "vjp_adds_to_grad",
        fails=("arithmetic/kept",),
        read="handbook/backpropagation.md#gradients-add-up-in-pgrad",
        explanation="""vjp adds to the operands' grad itself, and returns the gradients too. A caller that adds up what
        vjp returns then counts each gradient twice.""",
        change="""
-    return Value(a.data + b.data, (a, b), lambda g: (g, g), "add")
+    def vjp(g: Array) -> tuple[Array, Array]:
+        a.grad = a.grad + unbroadcast(g, a.data.shape)
+        b.grad = b.grad + unbroadcast(g, b.data.shape)
+        return g, g
+
+    return Value(a.data + b.data, (a, b), vjp, "add")
""",
    ),
    KnownWrong(
        "product_parents_swapped",
        fails=("arithmetic/kept",),
        read="handbook/backpropagation.md#derivatives-multiply-along-a-path",
        explanation="""The product lists its parents in another order than its vjp returns their gradients. Backward
        pairs them by place, so each operand gets the gradient of the other.""",
        change="""
-    return Value(a.data * b.data, (a, b), lambda g: (g * b.data, g * a.data), "multiply")
+    return Value(a.data * b.data, (b, a), lambda g: (g * b.data, g * a.data), "multiply")
""",
    ),
    KnownWrong(
        "power_in_float64",
        fails=("arithmetic/kept",),
        read="handbook/backpropagation.md#check-a-gradient-with-finite-differences",
        explanation="""The power of float32 numbers comes back in float64. The result and its gradient have the
        operand's dtype.""",
        change="""
-    return Value(a.data**exponent, (a,), lambda g: (g * derivative,), f"power {exponent}")
+    return Value(a.data.astype(np.float64) ** exponent, (a,), lambda g: (g * derivative,), f"power {exponent}")
""",
    ),
    KnownWrong(
        "g_in_place",
        fails=("arithmetic/kept",),
        read="handbook/backpropagation.md#lifetime-of-the-graph",
        explanation="""vjp multiplies the array that it is given in place. The same array may be another parent's
        gradient too.""",
        change="""
-    return Value(a.data**exponent, (a,), lambda g: (g * derivative,), f"power {exponent}")
+    def vjp(g: Array) -> tuple[Array]:
+        g *= derivative
+        return (g,)
+
+    return Value(a.data**exponent, (a,), vjp, f"power {exponent}")
""",
    ),
    KnownWrong(
        "exp_without_comma",
        fails=("nonlinear/exp",),
        read="handbook/backpropagation.md#derivatives-multiply-along-a-path",
        explanation="""vjp returns the array itself. A tuple of one item needs a comma: (x,).""",
        change="""
-    return Value(data, (a,), lambda g: (g * data,), "exp")
+    return Value(data, (a,), lambda g: g * data, "exp")  # type: ignore[arg-type]
""",
    ),
    KnownWrong(
        "exp_times_operand",
        fails=("nonlinear/exp",),
        read="handbook/backpropagation.md#derivatives-multiply-along-a-path",
        explanation="""The gradient of exp is multiplied by the operand. The derivative of exp is exp itself: multiply
        by the result.""",
        change="""
-    return Value(data, (a,), lambda g: (g * data,), "exp")
+    return Value(data, (a,), lambda g: (g * a.data,), "exp")
""",
    ),
    KnownWrong(
        "exp_like_a_power",
        fails=("nonlinear/exp",),
        read="handbook/backpropagation.md#derivatives-multiply-along-a-path",
        explanation="""exp is differentiated as a power, a * exp(a - 1). In a power the base varies; here the exponent
        varies, and the derivative is exp(a).""",
        change="""
-    return Value(data, (a,), lambda g: (g * data,), "exp")
+    return Value(data, (a,), lambda g: (g * a.data * np.exp(a.data - 1),), "exp")
""",
    ),
    KnownWrong(
        "exp_without_g",
        fails=("nonlinear/exp",),
        read="handbook/backpropagation.md#derivatives-multiply-along-a-path",
        explanation="""vjp of exp returns the local derivative and leaves the incoming gradient out. The chain rule
        multiplies the two.""",
        change="""
-    return Value(data, (a,), lambda g: (g * data,), "exp")
+    return Value(data, (a,), lambda g: (data + 0 * g,), "exp")
""",
    ),
    KnownWrong(
        "tanh_from_input",
        fails=("nonlinear/tanh",),
        read="handbook/backpropagation.md#derivatives-multiply-along-a-path",
        explanation="""The derivative of tanh is computed from the operand, 1 - a ** 2. It is 1 - tanh(a) ** 2: the
        square of the result.""",
        change="""
-    return Value(data, (a,), lambda g: (g * (1 - data**2),), "tanh")
+    return Value(data, (a,), lambda g: (g * (1 - a.data**2),), "tanh")
""",
    ),
    KnownWrong(
        "tanh_unsquared",
        fails=("nonlinear/tanh",),
        read="handbook/backpropagation.md#derivatives-multiply-along-a-path",
        explanation="""The derivative of tanh is computed as 1 - tanh(a), without the square.""",
        change="""
-    return Value(data, (a,), lambda g: (g * (1 - data**2),), "tanh")
+    return Value(data, (a,), lambda g: (g * (1 - data),), "tanh")
""",
    ),
    KnownWrong(
        "tanh_like_a_sigmoid",
        fails=("nonlinear/tanh",),
        read="handbook/backpropagation.md#derivatives-multiply-along-a-path",
        explanation="""The derivative of tanh is computed by the rule of the sigmoid, y * (1 - y). For tanh it is 1 - y
        ** 2.""",
        change="""
-    return Value(data, (a,), lambda g: (g * (1 - data**2),), "tanh")
+    return Value(data, (a,), lambda g: (g * data * (1 - data),), "tanh")
""",
    ),
    KnownWrong(
        "tanh_by_exp",
        fails=("nonlinear/tanh",),
        read="handbook/loss-functions.md#log-softmax-instead-of-softmax-and-log",
        explanation="""tanh of a large number is nan, as a quotient of two infinite exponentials is. np.tanh is right
        for all numbers.""",
        change="""
-    data = np.tanh(a.data)
+    data = (np.exp(2 * a.data) - 1) / (np.exp(2 * a.data) + 1)
""",
    ),
    KnownWrong(
        "relu_passes_everything",
        fails=("nonlinear/relu",),
        read="handbook/backpropagation.md#derivatives-multiply-along-a-path",
        explanation="""The gradient passes relu unchanged, also where the operand is negative. There the result is 0
        whatever the operand is, and the gradient is 0.""",
        change="""
-    return Value(np.maximum(a.data, 0), (a,), lambda g: (g * (a.data > 0),), "relu")
+    return Value(np.maximum(a.data, 0), (a,), lambda g: (g,), "relu")
""",
    ),
    KnownWrong(
        "relu_by_sign_of_g",
        fails=("nonlinear/relu",),
        read="handbook/backpropagation.md#derivatives-multiply-along-a-path",
        explanation="""relu lets positive gradients through and stops negative ones. The sign of the operand decides,
        not the sign of the gradient.""",
        change="""
-    return Value(np.maximum(a.data, 0), (a,), lambda g: (g * (a.data > 0),), "relu")
+    return Value(np.maximum(a.data, 0), (a,), lambda g: (g * (g > 0),), "relu")
""",
    ),
    KnownWrong(
        "relu_absolute",
        fails=("nonlinear/relu",),
        read="handbook/backpropagation.md#derivatives-multiply-along-a-path",
        explanation="""For a negative operand the result is the operand with its sign reversed. relu returns 0 there,
        and its gradient is 0 too.""",
        change="""
-    return Value(np.maximum(a.data, 0), (a,), lambda g: (g * (a.data > 0),), "relu")
+    return Value(np.abs(a.data), (a,), lambda g: (g * np.sign(a.data),), "relu")
""",
    ),
    KnownWrong(
        "relu_of_one_number",
        fails=("nonlinear/relu",),
        read="handbook/backpropagation.md#derivatives-multiply-along-a-path",
        explanation="""The whole array gets one decision, by `if`, which has no answer for an array of several numbers.
        np.maximum decides for each number.""",
        change="""
-    return Value(np.maximum(a.data, 0), (a,), lambda g: (g * (a.data > 0),), "relu")
+    if a.data > 0:
+        return Value(a.data, (a,), lambda g: (g,), "relu")
+    return Value(0 * a.data, (a,), lambda g: (0 * g,), "relu")
""",
    ),
    KnownWrong(
        "relu_one_at_0",
        fails=("nonlinear/relu-at-0",),
        read="handbook/backpropagation.md#derivatives-multiply-along-a-path",
        explanation="""At 0 relu passes the gradient on. relu has no derivative there; torch's rule, and this lab's, is
        0.""",
        change="""
-    return Value(np.maximum(a.data, 0), (a,), lambda g: (g * (a.data > 0),), "relu")
+    return Value(np.maximum(a.data, 0), (a,), lambda g: (g * (a.data >= 0),), "relu")
""",
    ),
    KnownWrong(
        "relu_half_at_0",
        fails=("nonlinear/relu-at-0",),
        read="handbook/backpropagation.md#derivatives-multiply-along-a-path",
        explanation="""At 0 relu passes half of the gradient on, the mean of both sides. torch's rule, and this lab's,
        is 0.""",
        change="""
-    return Value(np.maximum(a.data, 0), (a,), lambda g: (g * (a.data > 0),), "relu")
+    return Value(np.maximum(a.data, 0), (a,), lambda g: (g * np.heaviside(a.data, 0.5),), "relu")
""",
    ),
    KnownWrong(
        "tanh_in_float64",
        fails=("nonlinear/kept",),
        read="handbook/backpropagation.md#check-a-gradient-with-finite-differences",
        explanation="""A result of float32 numbers comes back in float64. The result and its gradient have the operand's
        dtype.""",
        change="""
-    data = np.tanh(a.data)
+    data = np.tanh(a.data.astype(np.float64))
""",
    ),
    KnownWrong(
        "result_reused_in_vjp",
        fails=("nonlinear/kept",),
        read="handbook/backpropagation.md#lifetime-of-the-graph",
        explanation="""vjp multiplies the result's own array in place. The result is then another number, and a second
        backward pass gets another gradient.""",
        change="""
-    data = np.exp(a.data)
+    data = np.asarray(np.exp(a.data))
@@
-    return Value(data, (a,), lambda g: (g * data,), "exp")
+    return Value(data, (a,), lambda g: (np.multiply(g, data, out=data),), "exp")
""",
    ),
    KnownWrong(
        "root_first",
        fails=("topological_order/tree",),
        read="handbook/backpropagation.md#one-backward-pass-gives-every-gradient",
        explanation="""The list begins with the root and goes on to its parents. That is the order in which backward
        works; the task asks for the order of the computation, parents first.""",
        change="""
-    return order
+    return order[::-1]
""",
    ),
    KnownWrong(
        "root_missing",
        fails=("topological_order/tree", "topological_order/one"),
        read="handbook/backpropagation.md#one-backward-pass-gives-every-gradient",
        explanation="""The root itself is not in the list. Backward begins with it.""",
        change="""
-    return order
+    return order[:-1]
""",
    ),
    KnownWrong(
        "inputs_missing",
        fails=("topological_order/tree", "topological_order/one"),
        read="handbook/backpropagation.md#one-backward-pass-gives-every-gradient",
        explanation="""Nodes without parents, the inputs, are not in the list. They are what gradients are computed
        for.""",
        change="""
-    return order
+    return [node for node in order if node.parents]
""",
    ),
    KnownWrong(
        "an_iterator",
        fails=("topological_order/tree", "topological_order/one"),
        read="handbook/backpropagation.md#one-backward-pass-gives-every-gradient",
        explanation="""The function returns an iterator, which can be read once. The task asks for a list.""",
        change="""
-    return order
+    return iter(order)
""",
    ),
    KnownWrong(
        "breadth_first",
        fails=("topological_order/graph",),
        read="handbook/backpropagation.md#one-backward-pass-gives-every-gradient",
        explanation="""Nodes are listed by their smallest distance from the root. A node that is used near the root and
        far from it then comes after a node that was computed from it.""",
        change="""
-    order, seen = [], {root}
-    stack = [(root, iter(root.parents))]
-    while stack:
-        node, parents = stack[-1]
-        parent = next((parent for parent in parents if parent not in seen), None)
-        if parent is None:
-            order.append(node)
-            stack.pop()
-        else:
-            seen.add(parent)
-            stack.append((parent, iter(parent.parents)))
-    return order
+    order, seen, queue = [], {root}, [root]
+    for node in queue:
+        for parent in node.parents:
+            if parent not in seen:
+                seen.add(parent)
+                queue.append(parent)
+    return queue[::-1]
""",
    ),
    KnownWrong(
        "depth_first_preorder",
        fails=("topological_order/graph", "topological_order/linear"),
        read="handbook/backpropagation.md#one-backward-pass-gives-every-gradient",
        explanation="""Nodes are listed when they are first visited, and the list is reversed. A node can then come
        before one of its parents. A node belongs into the list after all of its parents.""",
        change="""
-    order, seen = [], {root}
-    stack = [(root, iter(root.parents))]
-    while stack:
-        node, parents = stack[-1]
-        parent = next((parent for parent in parents if parent not in seen), None)
-        if parent is None:
-            order.append(node)
-            stack.pop()
-        else:
-            seen.add(parent)
-            stack.append((parent, iter(parent.parents)))
-    return order
+    order, seen, stack = [], set(), [root]
+    while stack:
+        node = stack.pop()
+        if node not in seen:
+            seen.add(node)
+            order.append(node)
+            stack.extend(node.parents)
+    return order[::-1]
""",
    ),
    KnownWrong(
        "listed_per_use",
        fails=("topological_order/graph", "topological_order/linear"),
        read="handbook/backpropagation.md#one-backward-pass-gives-every-gradient",
        explanation="""A node is listed once for each path that leads to it. Backward must meet it once, and the number
        of paths doubles with every fork.""",
        change="""
-    order, seen = [], {root}
-    stack = [(root, iter(root.parents))]
-    while stack:
-        node, parents = stack[-1]
-        parent = next((parent for parent in parents if parent not in seen), None)
-        if parent is None:
-            order.append(node)
-            stack.pop()
-        else:
-            seen.add(parent)
-            stack.append((parent, iter(parent.parents)))
-    return order
+    order, stack = [], [(root, iter(root.parents))]
+    while stack:
+        parent = next(stack[-1][1], None)
+        if parent is None:
+            order.append(stack.pop()[0])
+        else:
+            stack.append((parent, iter(parent.parents)))
+    return order
""",
    ),
    KnownWrong(
        "by_recursion",
        fails=("topological_order/deep",),
        read="handbook/backpropagation.md#one-backward-pass-gives-every-gradient",
        explanation="""The function calls itself for the parents of a node. Python allows about a thousand calls within
        calls, and a graph may be deeper.""",
        change="""
-    order, seen = [], {root}
-    stack = [(root, iter(root.parents))]
-    while stack:
-        node, parents = stack[-1]
-        parent = next((parent for parent in parents if parent not in seen), None)
-        if parent is None:
-            order.append(node)
-            stack.pop()
-        else:
-            seen.add(parent)
-            stack.append((parent, iter(parent.parents)))
-    return order
+    order, seen = [], set()
+
+    def visit(node: Any) -> None:
+        if node not in seen:
+            seen.add(node)
+            for parent in node.parents:
+                visit(parent)
+            order.append(node)
+
+    visit(root)
+    return order
""",
    ),
    KnownWrong(
        "seen_in_a_list",
        fails=("topological_order/linear",),
        read="handbook/backpropagation.md#one-backward-pass-gives-every-gradient",
        explanation="""Visited nodes are kept in a list, and looking for a node in a list compares it with all of them:
        the work grows with the square of the number of nodes. A set finds it at once.""",
        change="""
-    order, seen = [], {root}
+    order, seen = [], [root]
@@
-            seen.add(parent)
+            seen.append(parent)
""",
    ),
    KnownWrong(
        "only_axes_of_one",
        fails=("broadcasting/front", "broadcasting/nothing"),
        read="handbook/backpropagation.md#gradients-add-where-paths-meet",
        explanation="""A gradient with new axes in front is not summed over them. Broadcasting repeats an array along
        new axes as it does along axes of size 1.""",
        change="""
-    new = gradient.ndim - len(shape)
-    repeated = [new + axis for axis, size in enumerate(shape) if size == 1]
-    return gradient.sum(axis=(*range(new), *repeated), keepdims=True).reshape(shape)
+    if gradient.ndim > len(shape):
+        gradient = gradient[(0,) * (gradient.ndim - len(shape))]
+    repeated = tuple(axis for axis, size in enumerate(shape) if size == 1)
+    return gradient.sum(axis=repeated, keepdims=True)
""",
    ),
    KnownWrong(
        "new_axes_at_the_end",
        fails=("broadcasting/front", "broadcasting/nothing"),
        read="handbook/backpropagation.md#gradients-add-where-paths-meet",
        explanation="""The last axes are summed, as if broadcasting added axes at the end. It adds them in front: [3]
        becomes [1, 3].""",
        change="""
-    new = gradient.ndim - len(shape)
-    repeated = [new + axis for axis, size in enumerate(shape) if size == 1]
-    return gradient.sum(axis=(*range(new), *repeated), keepdims=True).reshape(shape)
+    new = gradient.ndim - len(shape)
+    total = gradient.sum(axis=tuple(range(len(shape), gradient.ndim)))
+    repeated = tuple(axis for axis, size in enumerate(shape) if size == 1)
+    total = total.sum(axis=repeated, keepdims=True)
+    return np.resize(total, shape) if new else total
""",
    ),
    KnownWrong(
        "mean_over_repetitions",
        fails=("broadcasting/front", "broadcasting/ones", "broadcasting/nothing"),
        read="handbook/backpropagation.md#gradients-add-where-paths-meet",
        explanation="""The mean of the gradients of all repetitions is taken instead of their sum. Each repetition moves
        the loss by itself, so the shares add up.""",
        change="""
-    return gradient.sum(axis=(*range(new), *repeated), keepdims=True).reshape(shape)
+    return gradient.mean(axis=(*range(new), *repeated), keepdims=True).reshape(shape)
""",
    ),
    KnownWrong(
        "one_repetition",
        fails=("broadcasting/front", "broadcasting/ones", "broadcasting/nothing"),
        read="handbook/backpropagation.md#gradients-add-where-paths-meet",
        explanation="""The gradient of one repetition is taken. The number was used once for each repetition: its
        gradient is the sum over all of them.""",
        change="""
-    new = gradient.ndim - len(shape)
-    repeated = [new + axis for axis, size in enumerate(shape) if size == 1]
-    return gradient.sum(axis=(*range(new), *repeated), keepdims=True).reshape(shape)
+    new = gradient.ndim - len(shape)
+    return gradient[(0,) * new][tuple(slice(size) for size in shape)]
""",
    ),
    KnownWrong(
        "only_new_axes",
        fails=("broadcasting/ones", "broadcasting/nothing"),
        read="handbook/backpropagation.md#gradients-add-where-paths-meet",
        explanation="""A gradient is not summed over the axes of size 1, and keeps the size to which they were
        repeated.""",
        change="""
-    repeated = [new + axis for axis, size in enumerate(shape) if size == 1]
-    return gradient.sum(axis=(*range(new), *repeated), keepdims=True).reshape(shape)
+    return gradient.sum(axis=tuple(range(new)))
""",
    ),
    KnownWrong(
        "axes_squeezed",
        fails=("broadcasting/ones", "broadcasting/nothing"),
        read="handbook/backpropagation.md#gradients-add-where-paths-meet",
        explanation="""Axes of size 1 are summed away instead of kept with size 1. The gradient must have exactly the
        shape of its array.""",
        change="""
-    return gradient.sum(axis=(*range(new), *repeated), keepdims=True).reshape(shape)
+    return gradient.sum(axis=(*range(new), *repeated))
""",
    ),
    KnownWrong(
        "one_kind_at_a_time",
        fails=("broadcasting/both",),
        read="handbook/backpropagation.md#gradients-add-where-paths-meet",
        explanation="""A gradient that was broadcast along new axes and along axes of size 1 is summed over the new axes
        only. Both kinds can occur at once.""",
        change="""
-    new = gradient.ndim - len(shape)
-    repeated = [new + axis for axis, size in enumerate(shape) if size == 1]
-    return gradient.sum(axis=(*range(new), *repeated), keepdims=True).reshape(shape)
+    new = gradient.ndim - len(shape)
+    if new:
+        return np.broadcast_to(gradient.sum(axis=tuple(range(new))), np.broadcast_shapes(gradient.shape[new:], shape))
+    repeated = tuple(axis for axis, size in enumerate(shape) if size == 1)
+    return gradient.sum(axis=repeated, keepdims=True)
""",
    ),
    KnownWrong(
        "summed_in_float64",
        fails=("broadcasting/nothing",),
        read="handbook/backpropagation.md#check-a-gradient-with-finite-differences",
        explanation="""A float32 gradient comes back in float64. Its dtype stays.""",
        change="""
-    return gradient.sum(axis=(*range(new), *repeated), keepdims=True).reshape(shape)
+    return gradient.sum(axis=(*range(new), *repeated), keepdims=True, dtype=np.float64).reshape(shape)
""",
    ),
    KnownWrong(
        "sum_without_keepdims",
        fails=("broadcasting/sum",),
        read="handbook/backpropagation.md#gradients-add-where-paths-meet",
        explanation="""`keepdims` has no effect: the axes that were summed are gone.""",
        change="""
-    data = a.data.sum(axis=axis, keepdims=keepdims)
+    data = a.data.sum(axis=axis)
@@
-    return Value(data, (a,), lambda g: (np.broadcast_to(g.reshape(kept), a.data.shape),), "sum")
+    return Value(data, (a,), lambda g: (np.broadcast_to(g.reshape(kept), a.data.shape),), "sum ")
""",
    ),
    KnownWrong(
        "sum_over_everything",
        fails=("broadcasting/sum",),
        read="handbook/backpropagation.md#gradients-add-where-paths-meet",
        explanation="""`axis` has no effect: the sum goes over all axes.""",
        change="""
-    data = a.data.sum(axis=axis, keepdims=keepdims)
+    data = a.data.sum(keepdims=keepdims)
""",
    ),
    KnownWrong(
        "sum_is_a_mean",
        fails=("broadcasting/sum",),
        read="handbook/backpropagation.md#gradients-add-where-paths-meet",
        explanation="""The gradient of a sum is divided by the number of its terms, as that of a mean is. Every term of
        a sum gets the whole gradient.""",
        change="""
-    return Value(data, (a,), lambda g: (np.broadcast_to(g.reshape(kept), a.data.shape),), "sum")
+    count = a.data.size / data.size
+    return Value(data, (a,), lambda g: (np.broadcast_to(g.reshape(kept), a.data.shape) / count,), "sum")
""",
    ),
    KnownWrong(
        "sum_broadcast_from_the_right",
        fails=("broadcasting/sum",),
        read="handbook/backpropagation.md#gradients-add-where-paths-meet",
        explanation="""The gradient of a sum is broadcast as it is, so its axes meet the last axes of the operand. The
        axes that were summed must be put back, with size 1, before it is broadcast.""",
        change="""
-    return Value(data, (a,), lambda g: (np.broadcast_to(g.reshape(kept), a.data.shape),), "sum")
+    return Value(data, (a,), lambda g: (np.resize(g, a.data.shape),), "sum")
""",
    ),
    KnownWrong(
        "starts_with_the_data",
        fails=("backward/chain",),
        read="handbook/backpropagation.md#derivatives-multiply-along-a-path",
        explanation="""Backward starts with the root's data as its gradient. It starts with 1, the derivative of the
        root with respect to itself.""",
        change="""
-    gradients: dict[Value, Array] = {root: np.ones_like(root.data)}
+    gradients: dict[Value, Array] = {root: root.data}
""",
    ),
    KnownWrong(
        "inputs_only",
        fails=("backward/chain",),
        read="handbook/backpropagation.md#gradients-add-up-in-pgrad",
        explanation="""Only inputs get a grad; that of intermediate values stays 0. Here every value keeps its gradient,
        unlike in torch.""",
        change="""
-        value.grad = value.grad + gradient
-        if value.vjp is None:
-            continue
+        if value.vjp is None:
+            value.grad = value.grad + gradient
+            continue
""",
    ),
    KnownWrong(
        "root_left_out",
        fails=("backward/chain",),
        read="handbook/backpropagation.md#derivatives-multiply-along-a-path",
        explanation="""The root's own grad stays 0. Its derivative with respect to itself is 1.""",
        change="""
-        value.grad = value.grad + gradient
+        value.grad = value.grad + (gradient if value is not root else 0 * gradient)
""",
    ),
    KnownWrong(
        "descent_not_gradient",
        fails=("backward/chain",),
        read="handbook/backpropagation.md#derivatives-multiply-along-a-path",
        explanation="""The gradients have the opposite sign. The minus belongs into the update of the weights.""",
        change="""
-        value.grad = value.grad + gradient
+        value.grad = value.grad - gradient
""",
    ),
    KnownWrong(
        "last_share_wins",
        fails=(
            "backward/reuse",
            "backward/broadcast",
            "backward/dtype",
            "backward/again",
            "backward/kept",
            "backward/expression",
        ),
        read="handbook/backpropagation.md#gradients-add-where-paths-meet",
        explanation="""A value that is used several times gets the share of one use. The shares of all uses are
        added.""",
        change="""
-            gradients[parent] = gradients[parent] + share if parent in gradients else share
+            gradients[parent] = share
""",
    ),
    KnownWrong(
        "shares_averaged",
        fails=(
            "backward/reuse",
            "backward/broadcast",
            "backward/dtype",
            "backward/again",
            "backward/kept",
            "backward/expression",
        ),
        read="handbook/backpropagation.md#gradients-add-where-paths-meet",
        explanation="""The shares of several uses are averaged. Each use changes the loss independently of the others,
        so the shares are added.""",
        change="""
-            gradients[parent] = gradients[parent] + share if parent in gradients else share
+            gradients[parent] = (gradients[parent] + share) / 2 if parent in gradients else share
""",
    ),
    KnownWrong(
        "parents_in_a_set",
        fails=("backward/reuse", "backward/dtype", "backward/expression"),
        read="handbook/backpropagation.md#gradients-add-where-paths-meet",
        explanation="""A value that is a parent twice, as in a + a, gets the share of one of the two places. vjp returns
        one share per place, and all of them count.""",
        change="""
-        for parent, share in zip(value.parents, value.vjp(gradient), strict=True):
+        for parent, share in dict(zip(value.parents, value.vjp(gradient), strict=True)).items():
""",
    ),
    KnownWrong(
        "one_visit_per_path",
        fails=("backward/order", "backward/deep"),
        read="handbook/backpropagation.md#one-backward-pass-gives-every-gradient",
        explanation="""vjp of a value is called for each path that leads to it, with that path's share, instead of once
        with the sum. The gradients are right, but every fork doubles the work, and the calls nest as deep as the
        graph.""",
        change="""
-    gradients: dict[Value, Array] = {root: np.ones_like(root.data)}
-    for value in reversed(topological_order(root)):
-        gradient = gradients.pop(value)
-        value.grad = value.grad + gradient
-        if value.vjp is None:
-            continue
-        for parent, share in zip(value.parents, value.vjp(gradient), strict=True):
-            share = unbroadcast(share, parent.data.shape).astype(parent.data.dtype)
-            gradients[parent] = gradients[parent] + share if parent in gradients else share
+    def visit(value: Value, gradient: Array) -> None:
+        value.grad = value.grad + gradient
+        if value.vjp is not None:
+            for parent, share in zip(value.parents, value.vjp(gradient), strict=True):
+                visit(parent, unbroadcast(share, parent.data.shape).astype(parent.data.dtype))
+
+    visit(root, np.ones_like(root.data))
""",
    ),
    KnownWrong(
        "passed_on_too_early",
        fails=("backward/order", "backward/kept", "backward/expression"),
        read="handbook/backpropagation.md#one-backward-pass-gives-every-gradient",
        explanation="""A value passes its gradient on before all shares have arrived, and passes the sum so far on again
        later. Without a topological order, what arrived first is counted several times.""",
        change="""
-    gradients: dict[Value, Array] = {root: np.ones_like(root.data)}
-    for value in reversed(topological_order(root)):
-        gradient = gradients.pop(value)
-        value.grad = value.grad + gradient
-        if value.vjp is None:
-            continue
-        for parent, share in zip(value.parents, value.vjp(gradient), strict=True):
-            share = unbroadcast(share, parent.data.shape).astype(parent.data.dtype)
-            gradients[parent] = gradients[parent] + share if parent in gradients else share
+    gradients: dict[Value, Array] = {root: np.ones_like(root.data)}
+    queue = [root]
+    for value in queue:
+        if value.vjp is not None:
+            for parent, share in zip(value.parents, value.vjp(gradients[value]), strict=True):
+                share = unbroadcast(share, parent.data.shape).astype(parent.data.dtype)
+                gradients[parent] = gradients[parent] + share if parent in gradients else share
+                queue.append(parent)
+    for value, gradient in gradients.items():
+        value.grad = value.grad + gradient
""",
    ),
    KnownWrong(
        "not_unbroadcast",
        fails=("backward/broadcast",),
        read="handbook/backpropagation.md#gradients-add-where-paths-meet",
        explanation="""The gradient of a value that was broadcast keeps the shape of the result. `unbroadcast` sums it
        over the repetitions.""",
        change="""
-            share = unbroadcast(share, parent.data.shape).astype(parent.data.dtype)
+            share = share.astype(parent.data.dtype)
""",
    ),
    KnownWrong(
        "root_of_one_number",
        fails=("backward/broadcast", "backward/dtype", "backward/kept"),
        read="handbook/backpropagation.md#derivatives-multiply-along-a-path",
        explanation="""Backward starts with a single 1, also at a root that is an array. The gradient of the sum of its
        numbers is an array of ones, of its shape.""",
        change="""
-    gradients: dict[Value, Array] = {root: np.ones_like(root.data)}
+    gradients: dict[Value, Array] = {root: np.ones((), root.data.dtype)}
""",
    ),
    KnownWrong(
        "dtype_of_the_result",
        fails=("backward/dtype",),
        read="handbook/backpropagation.md#check-a-gradient-with-finite-differences",
        explanation="""A float32 value gets a gradient in float64, because its result is in float64. Each gradient has
        the dtype of its value's data.""",
        change="""
-            share = unbroadcast(share, parent.data.shape).astype(parent.data.dtype)
+            share = unbroadcast(share, parent.data.shape)
""",
    ),
    KnownWrong(
        "grad_replaced",
        fails=("backward/again",),
        read="handbook/backpropagation.md#gradients-add-up-in-pgrad",
        explanation="""A second call replaces the gradients of the first one. backward adds to grad, as torch adds to
        p.grad.""",
        change="""
-        value.grad = value.grad + gradient
+        value.grad = 1 * gradient
""",
    ),
    KnownWrong(
        "grad_passed_on",
        fails=("backward/again",),
        read="handbook/backpropagation.md#gradients-add-up-in-pgrad",
        explanation="""vjp is called with value.grad, which still holds the gradient of an earlier call: from the second
        call on, inputs get too much, the more the farther they are from the root. Each call passes on its own gradient
        only.""",
        change="""
-        for parent, share in zip(value.parents, value.vjp(gradient), strict=True):
+        for parent, share in zip(value.parents, value.vjp(value.grad), strict=True):
""",
    ),
    KnownWrong(
        "added_in_place",
        fails=("backward/kept",),
        read="handbook/backpropagation.md#gradients-add-where-paths-meet",
        explanation="""Shares are added in place, in an array that a vjp has returned. A sum's vjp returns one array for
        both parents, and the other parent then gets too much.""",
        change="""
-            gradients[parent] = gradients[parent] + share if parent in gradients else share
+            if parent in gradients:
+                gradients[parent] += share
+            else:
+                gradients[parent] = share
@@
-            share = unbroadcast(share, parent.data.shape).astype(parent.data.dtype)
+            share = share if share.shape == parent.data.shape else unbroadcast(share, parent.data.shape)
+            share = share.astype(parent.data.dtype, copy=False)
""",
    ),
    KnownWrong(
        "grad_is_shared",
        fails=("backward/kept",),
        read="handbook/backpropagation.md#gradients-add-up-in-pgrad",
        explanation="""grad of a value is the very array that passes through the graph. Values whose gradients are equal
        may then share one array, and changing one grad in place changes the other.""",
        change="""
-        value.grad = value.grad + gradient
+        value.grad = value.grad + gradient if value.grad.any() else gradient
@@
-            share = unbroadcast(share, parent.data.shape).astype(parent.data.dtype)
+            share = share if share.shape == parent.data.shape else unbroadcast(share, parent.data.shape)
+            share = share.astype(parent.data.dtype, copy=False)
""",
    ),
    KnownWrong(
        "backward_by_recursion",
        fails=("backward/deep",),
        read="handbook/backpropagation.md#one-backward-pass-gives-every-gradient",
        explanation="""backward orders the graph by calls within calls, of which Python allows about a thousand: a
        longer chain ends in a RecursionError.""",
        change="""
-    for value in reversed(topological_order(root)):
+    order: list[Value] = []
+    seen: set[Value] = set()
+
+    def visit(node: Value) -> None:
+        if node not in seen:
+            seen.add(node)
+            for earlier in node.parents:
+                visit(earlier)
+            order.append(node)
+
+    visit(root)
+    for value in reversed(order):
""",
    ),
    KnownWrong(
        "not_transposed",
        fails=("matmul/matrices",),
        read="handbook/backpropagation.md#two-matrix-products-per-linear-layer",
        explanation="""The gradient is multiplied by b itself instead of by its transpose. Of [n, k] and [m, k] only g @
        b.T makes [n, m]; for square matrices the shapes do not show the mistake.""",
        change="""
-        for_left, for_right = g @ np.swapaxes(right, -1, -2), np.swapaxes(left, -1, -2) @ g
+        for_left, for_right = g @ right, left @ g
""",
    ),
    KnownWrong(
        "product_number_by_number",
        fails=("matmul/matrices",),
        read="handbook/backpropagation.md#two-matrix-products-per-linear-layer",
        explanation="""The product is computed number by number. A matrix product sums over the axis that both operands
        share.""",
        change="""
-    return Value(a.data @ b.data, (a, b), vjp, "matmul")
+    return Value(a.data[..., :1] * b.data[..., :1, :], (a, b), vjp, "matmul")
""",
    ),
    KnownWrong(
        "second_gradient_transposed",
        fails=("matmul/matrices",),
        read="handbook/backpropagation.md#two-matrix-products-per-linear-layer",
        explanation="""dL/db is computed as g.T @ a, which is the transpose of the right one, a.T @ g.""",
        change="""
-        for_left, for_right = g @ np.swapaxes(right, -1, -2), np.swapaxes(left, -1, -2) @ g
+        for_left, for_right = g @ np.swapaxes(right, -1, -2), np.swapaxes(g, -1, -2) @ left
""",
    ),
    KnownWrong(
        "matmul_gradients_swapped",
        fails=("matmul/matrices",),
        read="handbook/backpropagation.md#two-matrix-products-per-linear-layer",
        explanation="""The two gradients come back in the wrong order. Backward pairs them with the parents by
        place.""",
        change="""
-        return (
-            for_left[..., 0, :] if a.data.ndim == 1 else for_left,
-            for_right[..., 0] if b.data.ndim == 1 else for_right,
-        )
+        return for_right, for_left
""",
    ),
    KnownWrong(
        "all_axes_transposed",
        fails=("matmul/batches", "matmul/vectors", "matmul/kept"),
        read="handbook/backpropagation.md#two-matrix-products-per-linear-layer",
        explanation="""A batch of matrices is transposed in all its axes, as .T does. Only the last two axes are those
        of the matrix: np.swapaxes(x, -1, -2).""",
        change="""
-        for_left, for_right = g @ np.swapaxes(right, -1, -2), np.swapaxes(left, -1, -2) @ g
+        for_left, for_right = g @ right.T, left.T @ g
""",
    ),
    KnownWrong(
        "matmul_by_dot",
        fails=("matmul/batches",),
        read="handbook/backpropagation.md#two-matrix-products-per-linear-layer",
        explanation="""Batches are multiplied each with each, as np.dot does. np.matmul, the operator @, pairs them.""",
        change="""
-    return Value(a.data @ b.data, (a, b), vjp, "matmul")
+    return Value(np.dot(a.data, b.data), (a, b), vjp, "matmul")
""",
    ),
    KnownWrong(
        "vectors_like_matrices",
        fails=("matmul/vectors",),
        read="handbook/backpropagation.md#two-matrix-products-per-linear-layer",
        explanation="""An operand with a single axis is treated as a matrix, which it is not: swapping its last two axes
        fails. It counts as [1, m] on the left and as [m, 1] on the right.""",
        change="""
-    left = a.data[None, :] if a.data.ndim == 1 else a.data
-    right = b.data[:, None] if b.data.ndim == 1 else b.data
+    left, right = a.data, b.data
@@
-        g = np.expand_dims(g, -1) if b.data.ndim == 1 else g
-        g = np.expand_dims(g, -2) if a.data.ndim == 1 else g
@@
-        return (
-            for_left[..., 0, :] if a.data.ndim == 1 else for_left,
-            for_right[..., 0] if b.data.ndim == 1 else for_right,
-        )
+        return for_left, for_right
""",
    ),
    KnownWrong(
        "vector_keeps_its_axis",
        fails=("matmul/vectors",),
        read="handbook/backpropagation.md#two-matrix-products-per-linear-layer",
        explanation="""The gradient of an operand with a single axis keeps the axis that was added to it. Gradients have
        the operand's own axes, apart from those of a batch in front.""",
        change="""
-        return (
-            for_left[..., 0, :] if a.data.ndim == 1 else for_left,
-            for_right[..., 0] if b.data.ndim == 1 else for_right,
-        )
+        return for_left, for_right
""",
    ),
    KnownWrong(
        "matmul_in_float64",
        fails=("matmul/kept",),
        read="handbook/backpropagation.md#check-a-gradient-with-finite-differences",
        explanation="""A product of float32 matrices comes back in float64. The result and its gradients have the
        operands' dtype.""",
        change="""
-    return Value(a.data @ b.data, (a, b), vjp, "matmul")
+    return Value(a.data.astype(np.float64) @ b.data.astype(np.float64), (a, b), vjp, "matmul")
""",
    ),
    KnownWrong(
        "matmul_forgets_a_parent",
        fails=("matmul/kept",),
        read="handbook/backpropagation.md#two-matrix-products-per-linear-layer",
        explanation="""The product's parents are not the two operands themselves, so the gradients of one of them are
        lost.""",
        change="""
-    return Value(a.data @ b.data, (a, b), vjp, "matmul")
+    return Value(a.data @ b.data, (Value(a.data), b), vjp, "matmul")
""",
    ),
    KnownWrong(
        "loss_summed",
        fails=("cross_entropy/loss",),
        read="handbook/loss-functions.md#mean-over-tokens-not-over-batches",
        explanation="""The losses of the examples are added up. The task asks for their mean, which does not grow with
        the batch.""",
        change="""
-    return Value(-log_probabilities[rows, labels].mean(), (logits,), vjp, "cross-entropy")
+    return Value(-log_probabilities[rows, labels].sum(), (logits,), vjp, "cross-entropy")
""",
    ),
    KnownWrong(
        "every_class_counted",
        fails=("cross_entropy/loss",),
        read="handbook/loss-functions.md#cross-entropy",
        explanation="""The mean goes over the classes of all examples, not over one right class per example:
        log_probabilities[:, labels] takes every label's column of every row.""",
        change="""
-    return Value(-log_probabilities[rows, labels].mean(), (logits,), vjp, "cross-entropy")
+    return Value(-log_probabilities[:, labels].mean(), (logits,), vjp, "cross-entropy")
""",
    ),
    KnownWrong(
        "softmax_over_the_batch",
        fails=("cross_entropy/loss",),
        read="handbook/loss-functions.md#cross-entropy",
        explanation="""Probabilities add up to 1 over the examples of the batch. They must do so over the classes of
        each example, axis 1.""",
        change="""
-    log_probabilities = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
+    log_probabilities = shifted - np.log(np.exp(shifted).sum(axis=0, keepdims=True))
""",
    ),
    KnownWrong(
        "logs_to_base_2",
        fails=("cross_entropy/loss",),
        read="handbook/loss-functions.md#cross-entropy",
        explanation="""The loss is in bits, by a logarithm to base 2. Asked for are nats: np.log.""",
        change="""
-    return Value(-log_probabilities[rows, labels].mean(), (logits,), vjp, "cross-entropy")
+    return Value(-log_probabilities[rows, labels].mean() / np.log(2), (logits,), vjp, "cross-entropy")
""",
    ),
    KnownWrong(
        "probability_not_log",
        fails=("cross_entropy/loss",),
        read="handbook/loss-functions.md#cross-entropy",
        explanation="""The loss is minus the mean probability of the right class. Cross-entropy takes its logarithm.""",
        change="""
-    return Value(-log_probabilities[rows, labels].mean(), (logits,), vjp, "cross-entropy")
+    return Value(-np.exp(log_probabilities[rows, labels]).mean(), (logits,), vjp, "cross-entropy")
""",
    ),
    KnownWrong(
        "gradient_of_the_sum",
        fails=("cross_entropy/gradient",),
        read="handbook/loss-functions.md#the-gradient-of-cross-entropy",
        explanation="""The gradient is not divided by the number of examples, though the loss is their mean. It then
        grows with the batch.""",
        change="""
-        return (g * gradient / len(labels),)
+        return (g * gradient,)
""",
    ),
    KnownWrong(
        "softmax_alone",
        fails=("cross_entropy/gradient",),
        read="handbook/loss-functions.md#the-gradient-of-cross-entropy",
        explanation="""The gradient is the softmax. At the right class it is the softmax minus 1.""",
        change="""
-        gradient[rows, labels] -= 1
""",
    ),
    KnownWrong(
        "gradient_sign",
        fails=("cross_entropy/gradient",),
        read="handbook/loss-functions.md#the-gradient-of-cross-entropy",
        explanation="""The gradient has the opposite sign, 1 - softmax at the right class: descent along it raises the
        loss.""",
        change="""
-        return (g * gradient / len(labels),)
+        return (-g * gradient / len(labels),)
""",
    ),
    KnownWrong(
        "cross_entropy_without_g",
        fails=("cross_entropy/gradient",),
        read="handbook/backpropagation.md#derivatives-multiply-along-a-path",
        explanation="""vjp leaves the incoming gradient out. The incoming gradient is 1 only where the loss is the root,
        and not where the loss is scaled or added to another loss.""",
        change="""
-        return (g * gradient / len(labels),)
+        return (gradient / len(labels) + 0 * g,)
""",
    ),
    KnownWrong(
        "exp_overflows",
        fails=("cross_entropy/large",),
        read="handbook/loss-functions.md#log-softmax-instead-of-softmax-and-log",
        explanation="""With logits in the thousands the loss is inf or nan: exp overflows above 709. Subtract the
        largest logit of each row first; softmax stays the same.""",
        change="""
-    shifted = logits.data - logits.data.max(axis=1, keepdims=True)
+    shifted = logits.data
""",
    ),
    KnownWrong(
        "log_of_softmax",
        fails=("cross_entropy/large",),
        read="handbook/loss-functions.md#log-softmax-instead-of-softmax-and-log",
        explanation="""The logarithm of a probability that was rounded to 0 is infinite. logits - log(sum(exp(logits)))
        never takes the logarithm of a single probability.""",
        change="""
-    log_probabilities = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
+    probabilities = np.exp(shifted) / np.exp(shifted).sum(axis=1, keepdims=True)
+    log_probabilities = np.log(probabilities)
""",
    ),
    KnownWrong(
        "maximum_of_the_batch",
        fails=("cross_entropy/large",),
        read="handbook/loss-functions.md#log-softmax-instead-of-softmax-and-log",
        explanation="""The largest logit of the whole batch is subtracted. A row of much smaller logits then has only
        zeros after exp, and their logarithm is infinite: each row needs its own maximum.""",
        change="""
-    shifted = logits.data - logits.data.max(axis=1, keepdims=True)
+    shifted = logits.data - logits.data.max()
""",
    ),
    KnownWrong(
        "clipped_probabilities",
        fails=("cross_entropy/large", "cross_entropy/kept"),
        read="handbook/loss-functions.md#log-softmax-instead-of-softmax-and-log",
        explanation="""Probabilities are kept above a small number before the logarithm, so a large loss is cut off.
        With logits in the thousands, losses are in the thousands.""",
        change="""
-    log_probabilities = shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True))
+    log_probabilities = np.maximum(shifted - np.log(np.exp(shifted).sum(axis=1, keepdims=True)), np.log(1e-12))
""",
    ),
    KnownWrong(
        "gradient_made_once",
        fails=("cross_entropy/kept",),
        read="handbook/backpropagation.md#lifetime-of-the-graph",
        explanation="""vjp changes an array that it needs again: each further call subtracts another 1 at the right
        class. It must make a new array in every call.""",
        change="""
-    def vjp(g: Array) -> tuple[Array]:
-        gradient = np.exp(log_probabilities)
+    gradient = np.exp(log_probabilities)
+
+    def vjp(g: Array) -> tuple[Array]:
""",
    ),
    KnownWrong(
        "logits_shifted_in_place",
        fails=("cross_entropy/kept",),
        read="handbook/backpropagation.md#lifetime-of-the-graph",
        explanation="""The maximum is subtracted in the caller's logits. Softmax stays the same, but a caller that uses
        the logits afterwards sees other numbers.""",
        change="""
-    shifted = logits.data - logits.data.max(axis=1, keepdims=True)
+    shifted = logits.data
+    shifted -= logits.data.max(axis=1, keepdims=True)
""",
    ),
    KnownWrong(
        "step_not_doubled",
        fails=("gradient_check/right", "gradient_check/wrong", "gradient_check/relative", "gradient_check/central"),
        read="handbook/backpropagation.md#check-a-gradient-with-finite-differences",
        explanation="""The difference of f(x + step) and f(x - step) is divided by step. The two points are 2 step
        apart.""",
        change="""
-            difference = (ends[0] - ends[1]) / (2 * step)
+            difference = (ends[0] - ends[1]) / step
""",
    ),
    KnownWrong(
        "one_sided",
        fails=("gradient_check/right", "gradient_check/relative", "gradient_check/central"),
        read="handbook/backpropagation.md#check-a-gradient-with-finite-differences",
        explanation="""The difference is one-sided, (f(x + step) - f(x)) / step. Its error grows with the step; that of
        the central difference grows with the square of the step.""",
        change="""
-            for sign in (1, -1):
-                moved = [array.copy() for array in arrays]
-                moved[number][place] += sign * step
-                ends.append(float(function(*map(Value, moved)).data))
-            difference = (ends[0] - ends[1]) / (2 * step)
+            ends.append(float(function(*map(Value, arrays)).data))
+            moved = [array.copy() for array in arrays]
+            moved[number][place] += step
+            ends.append(float(function(*map(Value, moved)).data))
+            difference = (ends[1] - ends[0]) / step
""",
    ),
    KnownWrong(
        "first_array_only",
        fails=("gradient_check/wrong", "gradient_check/relative", "gradient_check/central"),
        read="handbook/backpropagation.md#check-a-gradient-with-finite-differences",
        explanation="""Only the gradient of the first array is checked. The gradient of any array may be wrong.""",
        change="""
-    for number, value in enumerate(values):
+    for number, value in enumerate(values[:1]):
""",
    ),
    KnownWrong(
        "first_number_only",
        fails=("gradient_check/wrong", "gradient_check/nan"),
        read="handbook/backpropagation.md#check-a-gradient-with-finite-differences",
        explanation="""One number per array is checked. A mistake may be in any of them.""",
        change="""
-        for place in np.ndindex(value.data.shape):
+        for place in [*np.ndindex(value.data.shape)][:1]:
""",
    ),
    KnownWrong(
        "mean_disagreement",
        fails=("gradient_check/wrong", "gradient_check/relative", "gradient_check/central"),
        read="handbook/backpropagation.md#check-a-gradient-with-finite-differences",
        explanation="""The mean of the disagreements comes back, in which one wrong number hardly shows. The task asks
        for the largest.""",
        change="""
-    return float(np.max(disagreements))
+    return float(np.mean(disagreements))
""",
    ),
    KnownWrong(
        "signed_disagreement",
        fails=("gradient_check/wrong", "gradient_check/central"),
        read="handbook/backpropagation.md#check-a-gradient-with-finite-differences",
        explanation="""Disagreements keep their sign, so a gradient that is too small never shows. Take the absolute
        value.""",
        change="""
-            disagreements.append(abs(value.grad[place] - difference) / max(1.0, abs(difference)))
+            disagreements.append((value.grad[place] - difference) / max(1.0, abs(difference)))
""",
    ),
    KnownWrong(
        "always_relative",
        fails=("gradient_check/wrong", "gradient_check/central"),
        read="handbook/backpropagation.md#check-a-gradient-with-finite-differences",
        explanation="""The disagreement is divided by the difference also where that is below 1. Near 0 rounding alone
        then looks like a mistake: divide by max(1, |difference|).""",
        change="""
-            disagreements.append(abs(value.grad[place] - difference) / max(1.0, abs(difference)))
+            disagreements.append(abs(value.grad[place] - difference) / abs(difference))
""",
    ),
    KnownWrong(
        "relative_to_the_gradient",
        fails=("gradient_check/relative",),
        read="handbook/backpropagation.md#check-a-gradient-with-finite-differences",
        explanation="""The disagreement is divided by the gradient under test, max(1, |gradient|). The difference is the
        number to trust.""",
        change="""
-            disagreements.append(abs(value.grad[place] - difference) / max(1.0, abs(difference)))
+            disagreements.append(abs(value.grad[place] - difference) / max(1.0, abs(value.grad[place])))
""",
    ),
    KnownWrong(
        "disagreement_absolute",
        fails=("gradient_check/relative",),
        read="handbook/backpropagation.md#check-a-gradient-with-finite-differences",
        explanation="""The disagreement is not divided by max(1, |difference|). Rounding errors grow with the
        derivative: for a derivative in the hundreds they exceed a limit that is right for one near 1.""",
        change="""
-            disagreements.append(abs(value.grad[place] - difference) / max(1.0, abs(difference)))
+            disagreements.append(abs(value.grad[place] - difference))
""",
    ),
    KnownWrong(
        "moved_in_place",
        fails=("gradient_check/central",),
        read="handbook/backpropagation.md#check-a-gradient-with-finite-differences",
        explanation="""The caller's arrays are moved by the step and moved back. (x + step) - step is not always x: the
        last digits change.""",
        change="""
-                moved = [array.copy() for array in arrays]
-                moved[number][place] += sign * step
+                moved = list(arrays)
+                moved[number][place] += sign * step
@@
-                ends.append(float(function(*map(Value, moved)).data))
+                ends.append(float(function(*map(Value, moved)).data))
+                moved[number][place] -= sign * step
""",
    ),
    KnownWrong(
        "own_step",
        fails=("gradient_check/central",),
        read="handbook/backpropagation.md#check-a-gradient-with-finite-differences",
        explanation="""The argument `step` has no effect.""",
        change="""
-            ends = []
+            step = 1e-6
+            ends = []
""",
    ),
    KnownWrong(
        "nan_lost",
        fails=("gradient_check/nan",),
        read="handbook/backpropagation.md#check-a-gradient-with-finite-differences",
        explanation="""A nan among the disagreements is lost: Python's max keeps the number that it has, because every
        comparison with nan is false. np.max returns nan.""",
        change="""
-    return float(np.max(disagreements))
+    return float(max(disagreements))
""",
    ),
    KnownWrong(
        "containers_too",
        fails=("layer_statistics/names",),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""Modules that contain others have rows too, or the model itself. Their outputs are those of layers
        in them, counted again.""",
        change="""
-    layers = [(name, module) for name, module in model.named_modules() if not any(module.children())]
+    layers = list(model.named_modules())
""",
    ),
    KnownWrong(
        "one_row_per_name",
        fails=("layer_statistics/names",),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""A layer that is called twice has one row, of its last call. Each call has an output of its
        own.""",
        change="""
-    return rows
+    return list({row[0]: row for row in rows}.values())
""",
    ),
    KnownWrong(
        "order_of_definition",
        fails=("layer_statistics/names",),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""The rows are in the order in which the layers are defined. The task asks for the order of the
        calls, which forward decides.""",
        change="""
-    return rows
+    names = [name for name, _ in layers]
+    return sorted(rows, key=lambda row: names.index(row[0]))
""",
    ),
    KnownWrong(
        "one_name_for_all",
        fails=("layer_statistics/names",),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""All rows have the name of one layer, as happens if the hooks look the name up when they run,
        after the loop that made them has ended.""",
        change="""
-    handles = [module.register_forward_hook(watch(name)) for name, module in layers]
+    handles = [module.register_forward_hook(watch(layers[-1][0])) for _, module in layers]
""",
    ),
    KnownWrong(
        "every_output_a_float",
        fails=("layer_statistics/names",),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""Integer outputs have rows, as if they were activations. An output of indices has no meaningful
        mean.""",
        change="""
-            if isinstance(output, Tensor) and output.is_floating_point():
+            if isinstance(output, Tensor):
""",
    ),
    KnownWrong(
        "tensors_in_rows",
        fails=("layer_statistics/names",),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""The rows hold tensors. .item() makes Python floats of them, which keep no memory of the
        device.""",
        change="""
-                rows.append((name, numbers.mean().item(), numbers.std(correction=0).item(), zeros.item()))
+                rows.append((name, numbers.mean(), numbers.std(correction=0), zeros))
""",
    ),
    KnownWrong(
        "inputs_described",
        fails=("layer_statistics/numbers",),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""The rows describe the inputs of the layers. A forward hook gets both; the task asks for the
        output.""",
        change="""
-                numbers = output.detach().double()
+                source = arguments[0] if arguments[0].is_floating_point() else output
+                numbers = source.detach().double()
""",
    ),
    KnownWrong(
        "std_of_a_sample",
        fails=("layer_statistics/numbers",),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""The standard deviation divides by the count minus 1, torch's default. The task asks for that of
        the numbers themselves: correction=0.""",
        change="""
-                rows.append((name, numbers.mean().item(), numbers.std(correction=0).item(), zeros.item()))
+                rows.append((name, numbers.mean().item(), numbers.std().item(), zeros.item()))
""",
    ),
    KnownWrong(
        "variance",
        fails=("layer_statistics/numbers",),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""The third item is the variance. The standard deviation is its square root.""",
        change="""
-                rows.append((name, numbers.mean().item(), numbers.std(correction=0).item(), zeros.item()))
+                rows.append((name, numbers.mean().item(), numbers.var(correction=0).item(), zeros.item()))
""",
    ),
    KnownWrong(
        "count_of_zeros",
        fails=("layer_statistics/numbers",),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""The last item is the number of zeros. The task asks for their share, which can be compared
        between layers.""",
        change="""
-                zeros = (numbers == 0).double().mean()
+                zeros = (numbers == 0).double().sum()
""",
    ),
    KnownWrong(
        "evaluation_mode",
        fails=("layer_statistics/mode",),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""The model runs in evaluation mode, without dropout. The task asks for the mode that it is in.""",
        change="""
-    try:
+    training = {module: module.training for module in model.modules()}
+    model.eval()
+    try:
@@
-            handle.remove()
+            handle.remove()
+        for module, mode in training.items():
+            module.training = mode
""",
    ),
    KnownWrong(
        "with_a_graph",
        fails=("layer_statistics/mode",),
        read="handbook/backpropagation.md#lifetime-of-the-graph",
        explanation="""The run builds a graph, which keeps every activation for a backward pass that never comes:
        torch.no_grad() switches that off.""",
        change="""
-        with torch.no_grad():
-            model(*inputs)
+        model(*inputs)
""",
    ),
    KnownWrong(
        "runs_twice",
        fails=("layer_statistics/mode",),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""The model runs twice. A model in training mode changes with each run: its random generator,
        BatchNorm's averages.""",
        change="""
-    handles = [module.register_forward_hook(watch(name)) for name, module in layers]
+    with torch.no_grad():
+        model(*inputs)
+    handles = [module.register_forward_hook(watch(name)) for name, module in layers]
""",
    ),
    KnownWrong(
        "statistics_in_bf16",
        fails=("layer_statistics/half",),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""The statistics are computed in the model's dtype. In bf16 a mean has two or three digits.""",
        change="""
-                numbers = output.detach().double()
+                numbers = output.detach()
@@
-                zeros = (numbers == 0).double().mean()
+                zeros = (numbers == 0).to(numbers.dtype).mean()
""",
    ),
    KnownWrong(
        "statistics_hooks_left",
        fails=("layer_statistics/removed",),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""The hooks stay on the model and run in every later pass: they cost time, and what they hold is
        never freed. Each handle has remove().""",
        change="""
-        for handle in handles:
-            handle.remove()
+        pass
""",
    ),
    KnownWrong(
        "all_hooks_cleared",
        fails=("layer_statistics/removed",),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""All forward hooks of the layers, or of the model, are cleared, also those of others. Remove your
        own handles only.""",
        change="""
-        for handle in handles:
-            handle.remove()
+        for module in model.modules():
+            module._forward_hooks.clear()
""",
    ),
    KnownWrong(
        "statistics_left_after_an_error",
        fails=("layer_statistics/error",),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""If the model raises an error, the hooks stay. try ... finally removes them in either case.""",
        change="""
-    try:
-        with torch.no_grad():
-            model(*inputs)
-    finally:
-        for handle in handles:
-            handle.remove()
+    with torch.no_grad():
+        model(*inputs)
+    for handle in handles:
+        handle.remove()
""",
    ),
    KnownWrong(
        "clipped_behind_the_layer",
        fails=("clip_layer_gradient/clipped",),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""Only the gradient that goes on to earlier layers is clipped. The gradients of the layer's own
        weights are computed from the unclipped one, because the hook runs after them. A backward pre-hook runs before
        them.""",
        change="""
-    def clip(module: nn.Module, grad_output: tuple[Tensor, ...]) -> tuple[Tensor] | None:
+    def clip(module: nn.Module, grad_input: Any, grad_output: tuple[Tensor, ...]) -> tuple[Tensor] | None:
@@
-        return (grad_output[0] * (max_norm / norm),) if norm > max_norm else None
+        return (grad_input[0] * (max_norm / norm),) if norm > max_norm else None
@@
-    handle = layer.register_full_backward_pre_hook(clip)
+    handle = layer.register_full_backward_hook(clip)
""",
    ),
    KnownWrong(
        "weights_clipped_alone",
        fails=("clip_layer_gradient/clipped",),
        read="handbook/backpropagation.md#clipping-a-gradient",
        explanation="""Only the gradients of the layer's own weights are clipped, and not the gradient that goes on to
        earlier layers. The task asks for the gradient of the layer's output, from which both are computed.""",
        change="""
-    def clip(module: nn.Module, grad_output: tuple[Tensor, ...]) -> tuple[Tensor] | None:
+    def clip_one(gradient: Tensor) -> Tensor:
+        return gradient * (max_norm / norms[-1]) if norms[-1] > max_norm else gradient
+
+    def clip(module: nn.Module, grad_output: tuple[Tensor, ...]) -> None:
@@
-        norms.append(norm)
-        return (grad_output[0] * (max_norm / norm),) if norm > max_norm else None
+        norms.append(norm)
@@
-    handle = layer.register_full_backward_pre_hook(clip)
+    handle = layer.register_full_backward_pre_hook(clip)
+    others = [parameter.register_hook(clip_one) for parameter in layer.parameters()]
@@
-        handle.remove()
+        for other in [handle, *others]:
+            other.remove()
""",
    ),
    KnownWrong(
        "clipped_by_value",
        fails=("clip_layer_gradient/clipped",),
        read="handbook/backpropagation.md#clipping-a-gradient",
        explanation="""Each number is limited by itself, which changes the direction of the gradient. Clipping by norm
        multiplies all numbers by one factor.""",
        change="""
-        return (grad_output[0] * (max_norm / norm),) if norm > max_norm else None
+        return (grad_output[0].clamp(-max_norm, max_norm),) if norm > max_norm else None
""",
    ),
    KnownWrong(
        "rows_clipped",
        fails=("clip_layer_gradient/clipped",),
        read="handbook/backpropagation.md#clipping-a-gradient",
        explanation="""Each row of the gradient, the gradient of one example, is clipped by its own norm. The task asks
        for one norm of the whole tensor.""",
        change="""
-        return (grad_output[0] * (max_norm / norm),) if norm > max_norm else None
+        rows = grad_output[0].norm(dim=-1, keepdim=True)
+        return (grad_output[0] * (max_norm / rows).clamp(max=1.0),) if norm > max_norm else None
""",
    ),
    KnownWrong(
        "clip_only_looks",
        fails=("clip_layer_gradient/clipped",),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""The gradient is not clipped. A hook changes a gradient by returning another one; assigning to a
        local variable changes nothing.""",
        change="""
-        return (grad_output[0] * (max_norm / norm),) if norm > max_norm else None
+        if norm > max_norm:
+            grad_output = (grad_output[0] * (max_norm / norm),)
+        return None
""",
    ),
    KnownWrong(
        "first_pass_only",
        fails=("clip_layer_gradient/clipped",),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""Only the first backward pass is clipped. The hook stays for the whole block, and each pass in it
        counts.""",
        change="""
-        return (grad_output[0] * (max_norm / norm),) if norm > max_norm else None
+        return (grad_output[0] * (max_norm / norm),) if norm > max_norm and len(norms) == 1 else None
""",
    ),
    KnownWrong(
        "clip_norm_squared",
        fails=("clip_layer_gradient/clipped", "clip_layer_gradient/norms"),
        read="handbook/backpropagation.md#clipping-a-gradient",
        explanation="""The square of the norm is listed and compared with the limit. The norm is the root of the sum of
        squares.""",
        change="""
-        norm = grad_output[0].norm().item()
+        norm = grad_output[0].square().sum().item()
""",
    ),
    KnownWrong(
        "always_scaled",
        fails=("clip_layer_gradient/small",),
        read="handbook/backpropagation.md#clipping-a-gradient",
        explanation="""A gradient below the limit is enlarged to it, and a gradient of 0 becomes nan. Clipping only
        makes gradients smaller.""",
        change="""
-        return (grad_output[0] * (max_norm / norm),) if norm > max_norm else None
+        return (grad_output[0] * (max_norm / norm if norm else torch.nan),)
""",
    ),
    KnownWrong(
        "norms_after_clipping",
        fails=("clip_layer_gradient/norms",),
        read="handbook/backpropagation.md#clipping-a-gradient",
        explanation="""The list has the norms after clipping, which are never above the limit and hide how large the
        gradients were. The task asks for the norm before clipping.""",
        change="""
-        norms.append(norm)
+        norms.append(min(norm, max_norm))
""",
    ),
    KnownWrong(
        "last_norm_only",
        fails=("clip_layer_gradient/norms",),
        read="handbook/backpropagation.md#clipping-a-gradient",
        explanation="""The list has the norm of the last pass only. Each pass appends one.""",
        change="""
-        norms.append(norm)
+        norms[:] = [norm]
""",
    ),
    KnownWrong(
        "norms_are_tensors",
        fails=("clip_layer_gradient/norms",),
        read="handbook/backpropagation.md#clipping-a-gradient",
        explanation="""The list of norms holds tensors. .item() makes Python floats of them.""",
        change="""
-        norms.append(norm)
+        norms.append(grad_output[0].norm())
""",
    ),
    KnownWrong(
        "clip_hook_left",
        fails=("clip_layer_gradient/norms", "clip_layer_gradient/removed"),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""The hook stays after the block, and clips every later pass. remove() belongs into the `finally`
        of the context manager.""",
        change="""
-        handle.remove()
+        pass
""",
    ),
    KnownWrong(
        "gradient_in_place",
        fails=("clip_layer_gradient/in-place",),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""The gradient is changed in place. Another hook, or a tensor that keeps its gradient, holds the
        same tensor: return a new one.""",
        change="""
-        return (grad_output[0] * (max_norm / norm),) if norm > max_norm else None
+        if norm > max_norm:
+            grad_output[0].mul_(max_norm / norm)
+        return None
""",
    ),
    KnownWrong(
        "clip_hook_left_after_an_error",
        fails=("clip_layer_gradient/error",),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""After an error in the block the hook stays. Code after `yield` runs after an error only inside
        `finally`.""",
        change="""
-    try:
-        yield norms
-    finally:
-        handle.remove()
+    yield norms
+    handle.remove()
""",
    ),
    KnownWrong(
        "error_swallowed",
        fails=("clip_layer_gradient/error",),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""An error in the block is caught and lost. The caller must see it: `finally`, not `except`.""",
        change="""
-    finally:
-        handle.remove()
+    except Exception:
+        pass
+    handle.remove()
""",
    ),
    KnownWrong(
        "patch_added",
        fails=("patch_activations/whole",),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""The replacement is added to the block's output. The task asks for the replacement in its
        place.""",
        change="""
-            return replacement
+            return output + replacement
@@
-        patched[:, list(positions)] = replacement[:, list(positions)]
+        patched[:, list(positions)] += replacement[:, list(positions)]
""",
    ),
    KnownWrong(
        "input_patched",
        fails=("patch_activations/whole",),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""The block's input is replaced, so the block works on it. The task asks for the output: a forward
        hook, not a forward pre-hook.""",
        change="""
-    def replace(module: nn.Module, arguments: Any, output: Tensor) -> Tensor:
+    def replace(module: nn.Module, arguments: Any) -> Any:
+        (output,) = arguments
@@
-    handle = block.register_forward_hook(replace)
+    handle = block.register_forward_pre_hook(replace)
""",
    ),
    KnownWrong(
        "first_call_only",
        fails=("patch_activations/whole",),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""Only the first call of the block is patched. Every call within the `with` is.""",
        change="""
-        if positions is None:
+        handle.remove()
+        if positions is None:
""",
    ),
    KnownWrong(
        "patch_only_looks",
        fails=("patch_activations/whole",),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""The output is not replaced. A forward hook changes the output by returning another tensor; a hook
        that returns None only looks.""",
        change="""
-            return replacement
-        patched = output.clone()
-        patched[:, list(positions)] = replacement[:, list(positions)]
-        return patched
+            return None
+        patched = output.clone()
+        patched[:, list(positions)] = replacement[:, list(positions)]
+        return None
""",
    ),
    KnownWrong(
        "all_positions",
        fails=("patch_activations/positions", "patch_activations/error"),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""`positions` has no effect: the whole output is replaced.""",
        change="""
-        if positions is None:
-            return replacement
-        patched = output.clone()
-        patched[:, list(positions)] = replacement[:, list(positions)]
-        return patched
+        return replacement
""",
    ),
    KnownWrong(
        "no_positions_are_all",
        fails=("patch_activations/positions",),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""An empty list of positions patches all of them. None stands for all; an empty list stands for
        none: test `positions is None`.""",
        change="""
-        if positions is None:
+        if not positions:
""",
    ),
    KnownWrong(
        "rows_patched",
        fails=("patch_activations/positions", "patch_activations/error"),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""The positions are taken as rows of the batch. The output is [B, T, C], and positions are on the
        axis T.""",
        change="""
-        patched[:, list(positions)] = replacement[:, list(positions)]
+        B = len(output)
+        patched[[p % B for p in positions]] = replacement[[p % B for p in positions]]
""",
    ),
    KnownWrong(
        "negative_positions_dropped",
        fails=("patch_activations/positions",),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""Negative positions are left out. They count from the end of the sequence, as in Python's
        lists.""",
        change="""
-        patched[:, list(positions)] = replacement[:, list(positions)]
+        chosen = [position for position in positions if position >= 0]
+        patched[:, chosen] = replacement[:, chosen]
""",
    ),
    KnownWrong(
        "rest_set_to_zero",
        fails=("patch_activations/positions", "patch_activations/error"),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""The positions that are not given become 0. They keep the block's own output.""",
        change="""
-        patched = output.clone()
+        patched = torch.zeros_like(output)
""",
    ),
    KnownWrong(
        "output_in_place",
        fails=("patch_activations/kept", "patch_activations/gradient"),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""The block's own output is changed in place. Others hold that tensor, such as another hook or
        autograd, which needs it in backward: change a clone.""",
        change="""
-        patched = output.clone()
+        patched = output.data
""",
    ),
    KnownWrong(
        "replacement_in_place",
        fails=("patch_activations/kept", "patch_activations/gradient", "patch_activations/error"),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""`replacement` is changed in place: the caller's tensor has other numbers afterwards.""",
        change="""
-        patched = output.clone()
-        patched[:, list(positions)] = replacement[:, list(positions)]
-        return patched
+        others = [t for t in range(output.shape[1]) if t not in {p % output.shape[1] for p in positions}]
+        replacement.data[:, others] = output.data[:, others]
+        return replacement
""",
    ),
    KnownWrong(
        "patch_clears_hooks",
        fails=("patch_activations/kept", "patch_activations/removed"),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""All hooks of the block are cleared at the end, also those of others. Remove your own handle
        only.""",
        change="""
-        handle.remove()
+        block._forward_hooks.clear()
""",
    ),
    KnownWrong(
        "replacement_detached",
        fails=("patch_activations/gradient",),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""`replacement` gets no gradient: it is detached from its graph on the way in.""",
        change="""
-            return replacement
+            return replacement.detach()
@@
-        patched[:, list(positions)] = replacement[:, list(positions)]
+        patched[:, list(positions)] = replacement.detach()[:, list(positions)]
""",
    ),
    KnownWrong(
        "output_detached",
        fails=("patch_activations/gradient",),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""Behind the patch no gradient reaches the block, not even through the positions that are not
        replaced. A clone keeps the graph; detach() cuts it off.""",
        change="""
-        patched = output.clone()
+        patched = output.detach().clone()
""",
    ),
    KnownWrong(
        "patch_left",
        fails=("patch_activations/removed",),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""The patch stays after the `with`: the block never gives its own output again. Remove the
        hook.""",
        change="""
-        handle.remove()
+        pass
""",
    ),
    KnownWrong(
        "patch_left_after_an_error",
        fails=("patch_activations/error",),
        read="handbook/backpropagation.md#hooks-that-look-and-hooks-that-change",
        explanation="""After an error in the `with` the patch stays. Code after `yield` runs after an error only inside
        `finally`.""",
        change="""
-    try:
-        yield
-    finally:
-        handle.remove()
+    yield
+    handle.remove()
""",
    ),
)

HURRIED = {
    "arithmetic": {
        "ones for every gradient": """
-    return Value(a.data * b.data, (a, b), lambda g: (g * b.data, g * a.data), "multiply")
+    return Value(a.data * b.data, (a, b), lambda g: (np.ones_like(g), np.ones_like(g)), "multiply")
""",
        "arrays instead of values": """
-    return Value(a.data + b.data, (a, b), lambda g: (g, g), "add")
+    return a.data + b.data  # type: ignore[return-value]
""",
    },
    "nonlinear": {
        "a list for a tuple": """
-    return Value(data, (a,), lambda g: (g * data,), "exp")
+    return Value(data, (a,), lambda g: [g * data], "exp")
""",
        "the operand for a result": """
-    return Value(data, (a,), lambda g: (g * (1 - data**2),), "tanh")
+    return Value(a.data, (a,), lambda g: (g,), "tanh")
""",
    },
    "topological_order": {
        "the parents of the root only": """
-    order, seen = [], {root}
-    stack = [(root, iter(root.parents))]
-    while stack:
-        node, parents = stack[-1]
-        parent = next((parent for parent in parents if parent not in seen), None)
-        if parent is None:
-            order.append(node)
-            stack.pop()
-        else:
-            seen.add(parent)
-            stack.append((parent, iter(parent.parents)))
-    return order
+    return [*root.parents, root]
""",
        "nothing": """
-    order, seen = [], {root}
-    stack = [(root, iter(root.parents))]
-    while stack:
-        node, parents = stack[-1]
-        parent = next((parent for parent in parents if parent not in seen), None)
-        if parent is None:
-            order.append(node)
-            stack.pop()
-        else:
-            seen.add(parent)
-            stack.append((parent, iter(parent.parents)))
-    return order
+    return []
""",
    },
    "broadcasting": {
        "cut to the shape": """
-    new = gradient.ndim - len(shape)
-    repeated = [new + axis for axis, size in enumerate(shape) if size == 1]
-    return gradient.sum(axis=(*range(new), *repeated), keepdims=True).reshape(shape)
+    return np.resize(gradient, shape)
""",
    },
    "backward": {
        "ones for every value": """
-        value.grad = value.grad + gradient
+        value.grad = value.grad + np.ones_like(value.data)
""",
    },
    "matmul": {
        "only the second gradient": """
-            for_left[..., 0, :] if a.data.ndim == 1 else for_left,
+            0 * a.data,
""",
    },
    "cross_entropy": {
        "the loss without its gradient": """
-        return (g * gradient / len(labels),)
+        return (0 * gradient,)
""",
    },
    "gradient_check": {
        "always right": """
-    return float(np.max(disagreements))
+    return 0.0
""",
        "the first disagreement": """
-    return float(np.max(disagreements))
+    return float(disagreements[0])
""",
    },
    "layer_statistics": {
        "nothing": """
-    return rows
+    return []
""",
    },
    "clip_layer_gradient": {
        "no hook": """
-    handle = layer.register_full_backward_pre_hook(clip)
+    handle = layer.register_forward_hook(lambda *_: None)
""",
    },
    "patch_activations": {
        "the mean of both": """
-            return replacement
+            return (output + replacement) / 2
""",
    },
}
