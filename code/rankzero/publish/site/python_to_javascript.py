"""Python in a browser: functions translated to JavaScript, so that a formula has one implementation.

The translation covers the Python that the formulas use: dicts become Map, and names become camelCase. Whole numbers
become BigInt, or Number where `whole` is "". `templates/python.js` has Python's operators and built-in functions.
"""

import ast
import inspect
import json
import textwrap
from collections.abc import Callable, Iterable
from pathlib import Path
from types import FunctionType
from typing import Any

RUNTIME = Path(__file__).parent / "templates" / "python.js"
SKIPPED = {"_in_flight", "as_json", "table"}  # methods for pipelines and for text
RESERVED = {"case", "catch", "const", "default", "delete", "function", "let", "new", "switch", "this", "var", "void"}
# Python's operators, by the names of their nodes: functions of the runtime, and operators of JavaScript.
FUNCTIONS = {"Add": "add", "Sub": "sub", "Mult": "mul", "Div": "div", "FloorDiv": "floordiv", "Mod": "mod"}
FUNCTIONS |= {"Pow": "pow", "Eq": "eq", "NotEq": "ne", "In": "contains", "NotIn": "lacks"}
OPERATORS = {"Lt": "<", "LtE": "<=", "Gt": ">", "GtE": ">=", "Is": "===", "IsNot": "!=="}
METHODS = {"append": "push", "items": "entries"}  # of lists and dicts


def runtime(whole: str) -> str:
    """Returns the JavaScript of Python's operators and built-in functions; `whole` makes a whole number of a number."""
    return f"const whole = {whole};\n" + RUNTIME.read_text(encoding="utf-8")


def statements_script(statements: Iterable[ast.stmt]) -> str:
    """Returns the JavaScript of a module's statements. NotImplementedError for Python that it cannot translate."""
    statements = list(statements)
    classes = {node.name for node in statements if isinstance(node, ast.ClassDef)}
    return "\n\n".join(_Translator(classes).statement(node) for node in statements)


def functions_script(functions: Iterable[Callable[..., Any]]) -> str:
    """Returns the JavaScript of functions, and of the functions and constants that they use, with Numbers."""
    parts: dict[str, str] = {}
    for function in functions:
        _add_function(function, parts)
    return "\n\n".join(parts.values())


def _add_function(function: Any, parts: dict[str, str]) -> None:
    """Adds to `parts` a function's script by the function's name, and what the function uses of its module."""
    if function.__name__ in parts:
        return
    parts[function.__name__] = ""  # a function may call itself
    (node,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    for name in [part.id for part in ast.walk(node) if isinstance(part, ast.Name)]:
        used = function.__globals__.get(name)
        if isinstance(used, FunctionType):
            _add_function(used, parts)
        elif isinstance(used, int | float | str | tuple):
            parts[name] = f"const {camel(name)} = {json.dumps(used)};"
    parts[function.__name__] = _Translator(set(), whole="").statement(node)


def camel(name: str) -> str:
    """Returns a Python name as JavaScript writes it: `n_kv_head` is nKvHead; PHASES stays as it is."""
    if name.isupper() or name in RESERVED:
        return name if name.isupper() else f"{name}_"
    first, *rest = name.lstrip("_").split("_")
    return "_" * name.startswith("_") + first + "".join(word.capitalize() for word in rest)


class _Translator:
    """Translates the statements of a module; a call of a name in `classes` becomes `new`.

    `whole` is the suffix of whole numbers: "n" for BigInt.
    """

    def __init__(self, classes: set[str], whole: str = "n") -> None:
        self.classes, self.whole = classes | {"UserError", "ArgumentTypeError"}, whole

    # ---- Statements
    def statement(self, node: ast.stmt) -> str:
        match node:
            case ast.FunctionDef():
                name, parameters = camel(node.name), [camel(parameter.arg) for parameter in _parameters(node)]
                return f"function {name}{self.function(node)}\n{name}.parameters = {parameters};"
            case ast.ClassDef(bases=[ast.Name(id="StrEnum")]):
                members = [part for part in node.body if isinstance(part, ast.Assign)]
                pairs = [f"{self.expression(member.targets[0])}: {self.expression(member.value)}" for member in members]
                return f"const {node.name} = {{ {', '.join(pairs)} }};"
            case ast.ClassDef():
                return self.dataclass(node) if node.decorator_list else f"class {node.name} extends Error {{}}"
            case ast.Assign(targets=[target]) if not isinstance(target, ast.Subscript):
                kind = "" if isinstance(target, ast.Name) and target.id.islower() else "const "
                return f"{kind}{self.expression(target)} = {self.expression(node.value)};"
            case ast.AugAssign(target=ast.Name()):
                name = self.expression(node.target)
                return f"{name} = {FUNCTIONS[type(node.op).__name__]}({name}, {self.expression(node.value)});"
            case ast.Return():
                return f"return {self.expression(node.value) if node.value else 'null'};"
            case ast.Raise(exc=ast.expr() as error):
                return f"throw {self.expression(error)};"
            case ast.If():
                otherwise = f" else {{\n{self.block(node.orelse)}\n}}" if node.orelse else ""
                return f"if ({self.truth(node.test)}) {{\n{self.block(node.body)}\n}}{otherwise}"
            case ast.While():
                return f"while ({self.truth(node.test)}) {{\n{self.block(node.body)}\n}}"
            case ast.For():
                head = f"for (const {self.expression(node.target)} of iter({self.expression(node.iter)}))"
                return f"{head} {{\n{self.block(node.body)}\n}}"
            case ast.Try(handlers=[ast.ExceptHandler(type=ast.Name(id=name)) as handler]):
                caught = f"if (!(error instanceof {name})) throw error;\n{self.block(handler.body)}"
                return f"try {{\n{self.block(node.body)}\n}} catch (error) {{\n{caught}\n}}"
            case ast.Expr(value=ast.Constant()):
                return ""  # a docstring
            case ast.Expr():
                return f"{self.expression(node.value)};"
        raise NotImplementedError(ast.unparse(node))

    def block(self, nodes: Iterable[ast.stmt]) -> str:
        """Returns the statements of a function, in which all names are declared at the top."""
        return "\n".join(filter(None, (self.statement(node).removeprefix("const ") for node in nodes)))

    def function(self, node: ast.FunctionDef, first: str = "") -> str:
        """Returns a function's parameters and body; the body begins with the statement `first`."""
        names = [part for statement in node.body for part in _walk(statement) if isinstance(part, ast.Name)]
        stored = {name.id for name in names if isinstance(name.ctx, ast.Store)}
        declared = sorted(stored - {parameter.arg for parameter in _parameters(node)})
        let = f"let {', '.join(map(camel, declared))};\n" if declared else ""
        return f"({', '.join(self.parameters(node))}) {{\n{first}{let}{self.block(node.body)}\n}}"

    def parameters(self, node: ast.FunctionDef) -> list[str]:
        positional = zip(node.args.args[::-1], node.args.defaults[::-1], strict=False)
        by_name = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
        defaults = {parameter.arg: default for parameter, default in (*positional, *by_name) if default}
        texts = [
            camel(name) + (f" = {self.expression(defaults[name])}" if name in defaults else "")
            for name in (parameter.arg for parameter in _parameters(node))
        ]
        return [*texts, *([f"...{camel(node.args.vararg.arg)}"] if node.args.vararg else [])]

    def dataclass(self, node: ast.ClassDef) -> str:
        fields = [(part.target.id, part.value) for part in node.body if isinstance(part, ast.AnnAssign)]  # type: ignore[union-attr]
        names = [camel(name) for name, _ in fields]
        parameters = [camel(name) + (f" = {self.expression(value)}" if value else "") for name, value in fields]
        methods = [self.method(part) for part in node.body if isinstance(part, ast.FunctionDef) and _is_method(part)]
        body = f"Object.assign(this, {{ {', '.join(names)} }});\nthis.__post_init__?.();"
        constructor = f"static parameters = {names};\nconstructor({', '.join(parameters)}) {{\n{body}\n}}"
        return f"class {node.name} {{\n" + "\n".join([constructor, *methods]) + "\n}"

    def method(self, node: ast.FunctionDef) -> str:
        name = node.name if node.name == "__post_init__" else camel(node.name)
        getter = "get " if any(isinstance(decorator, ast.Name) for decorator in node.decorator_list) else ""
        return f"{getter}{name}{self.function(node, first='const self = this;')}"

    # ---- Expressions
    def truth(self, node: ast.expr) -> str:
        return self.expression(node) if isinstance(node, ast.Compare) else f"truth({self.expression(node)})"

    def commas(self, nodes: Iterable[ast.expr]) -> str:
        return ", ".join(map(self.expression, nodes))

    def expression(self, node: ast.expr) -> str:
        match node:
            case ast.Constant(value=bool() | None):
                return {True: "true", False: "false", None: "null"}[node.value]  # type: ignore[index]
            case ast.Constant(value=int() as number):
                return f"{number}{self.whole}"
            case ast.Constant(value=float() | str()):
                return repr(node.value)
            case ast.Name():
                return camel(node.id)
            case ast.Attribute():
                return f"{self.expression(node.value)}.{camel(node.attr)}"
            case ast.Starred(ctx=ast.Load()):
                return f"...iter({self.expression(node.value)})"
            case ast.Starred():
                return f"...{self.expression(node.value)}"
            case ast.Tuple() | ast.List():
                return f"[{self.commas(node.elts)}]"
            case ast.Dict():
                pairs = zip(node.keys, node.values, strict=True)
                return f"new Map([{', '.join(f'[{self.commas([key, value])}]' for key, value in pairs if key)}])"
            case ast.UnaryOp(op=ast.USub()):
                return f"(-{self.expression(node.operand)})"
            case ast.UnaryOp(op=ast.Not()):
                truth = self.truth(node.operand)
                return f"!({truth})" if isinstance(node.operand, ast.Compare) else f"!{truth}"
            case ast.BinOp():
                return f"{FUNCTIONS[type(node.op).__name__]}({self.commas([node.left, node.right])})"
            case ast.BoolOp():
                name = type(node.op).__name__.lower()
                text = self.expression(node.values[-1])
                for value in node.values[-2::-1]:
                    text = f"{name}({self.expression(value)}, () => {text})"
                return text
            case ast.Compare():
                sides = [node.left, *node.comparators]
                return "(" + " && ".join(map(self.compared, sides, node.ops, sides[1:])) + ")"
            case ast.IfExp():
                return f"({self.truth(node.test)} ? {self.expression(node.body)} : {self.expression(node.orelse)})"
            case ast.NamedExpr():
                return f"({self.expression(node.target)} = {self.expression(node.value)})"
            case ast.Lambda():
                parameters = ", ".join(camel(parameter.arg) for parameter in node.args.args)
                return f"(({parameters}) => {self.expression(node.body)})"
            case ast.JoinedStr():
                return "[" + ", ".join(map(self.piece, node.values)) + '].join("")'
            case ast.Subscript(slice=ast.Slice(lower=ast.expr() as lower, upper=None)):
                return f"{self.expression(node.value)}.slice(Number({self.expression(lower)}))"
            case ast.Subscript():
                return f"item({self.expression(node.value)}, {self.expression(node.slice)})"
            case ast.ListComp() | ast.GeneratorExp():
                return f"[...{self.generator(node.generators, self.expression(node.elt))}]"
            case ast.SetComp():
                return f"new Set({self.generator(node.generators, self.expression(node.elt))})"
            case ast.DictComp():
                return f"new Map({self.generator(node.generators, f'[{self.commas([node.key, node.value])}]')})"
            case ast.Call():
                return self.call(node)
        raise NotImplementedError(ast.unparse(node))

    def compared(self, left: ast.expr, operator: ast.cmpop, right: ast.expr) -> str:
        name = type(operator).__name__
        if name in FUNCTIONS:
            return f"{FUNCTIONS[name]}({self.commas([left, right])})"
        return f"{self.expression(left)} {OPERATORS[name]} {self.expression(right)}"

    def piece(self, node: ast.expr) -> str:
        """Returns a part of an f-string."""
        if not isinstance(node, ast.FormattedValue):
            return self.expression(node)
        value = self.expression(node.value)
        if node.format_spec:
            spec = ast.unparse(node.format_spec)
            if spec not in ("f','", "f',.2f'"):
                raise NotImplementedError(spec)
            return f"format({value}, {self.expression(node.format_spec)})"
        return f"repr({value})" if node.conversion == ord("r") else f"str({value})"

    def generator(self, loops: list[ast.comprehension], element: str) -> str:
        text = f"yield {element};"
        for loop in reversed(loops):
            for test in reversed(loop.ifs):
                text = f"if ({self.truth(test)}) {text}"
            text = f"for (const {self.expression(loop.target)} of iter({self.expression(loop.iter)})) {{ {text} }}"
        return f"(function* () {{ {text} }})()"

    def call(self, node: ast.Call) -> str:
        arguments = [self.expression(argument) for argument in node.args]
        values = [(keyword.arg, self.expression(keyword.value)) for keyword in node.keywords]
        keywords = ", ".join(f"{camel(name)}: {text}" if name else f"...named({text})" for name, text in values)
        match node.func:
            case ast.Name(id="isinstance"):
                return f"({arguments[0]} instanceof {arguments[1]})"
            case ast.Attribute(value=ast.Name(id="object"), attr="__setattr__"):
                return f"setattr({', '.join(arguments)})"
            case ast.Attribute(value=ast.Name(id="dict" | "math" | "argparse")):
                function = camel(node.func.attr)
            case ast.Attribute(attr="join"):
                return f"[...iter({arguments[0]})].join({self.expression(node.func.value)})"
            case ast.Attribute():
                function = f"{self.expression(node.func.value)}.{METHODS.get(node.func.attr, camel(node.func.attr))}"
            case _:
                function = self.expression(node.func)
        if function in ("max", "min"):
            arguments = [f"[{', '.join(arguments)}]" if len(arguments) > 1 else f"iter({arguments[0]})"]
        if keywords and function != "zip":
            return f"call({function}, [{', '.join(arguments)}], {{ {keywords} }})"
        return f"{'new ' if function in self.classes else ''}{function}({', '.join(arguments)})"


def _parameters(node: ast.FunctionDef) -> list[ast.arg]:
    return [parameter for parameter in (*node.args.args, *node.args.kwonlyargs) if parameter.arg != "self"]


def _is_method(node: ast.FunctionDef) -> bool:
    return node.name == "__post_init__" or not (node.name.startswith("__") or node.name in SKIPPED)


def _walk(node: ast.AST) -> Iterable[ast.AST]:
    """Yields a node and the nodes in it, except those in functions and comprehensions, whose names are local."""
    yield node
    scopes = ast.FunctionDef | ast.ListComp | ast.SetComp | ast.DictComp | ast.GeneratorExp | ast.Lambda
    if not isinstance(node, scopes):
        for child in [node.iter, *node.body] if isinstance(node, ast.For) else ast.iter_child_nodes(node):
            yield from _walk(child)
