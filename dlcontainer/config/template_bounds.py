"""Jinja for texts that somebody else wrote: no expression takes much memory, or long.

Jinja's sandbox keeps a template from Python's insides, not from 'x' * 10**10. Here each node of a
text is of a known kind, and all that can make much of little is asked for its size before it works:
operators, lists, loops, filters, methods. So every value is small, by induction.
"""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import wraps
from typing import Any

import jinja2
from jinja2 import nodes
from jinja2.exceptions import SecurityError
from jinja2.runtime import LoopContext
from jinja2.sandbox import ImmutableSandboxedEnvironment
from jinja2.visitor import NodeTransformer

# How large a value may become, and how much a text may grow: characters, and items of lists.
LARGEST = 65_536
_BITS = 4096  # of a whole number
_TURNS = 10_000  # of all loops of a text
_SECONDS = 2.0  # of this thread's own time: what others do on the machine does not count

_KNOWN: tuple[type[nodes.Node], ...] = (
    *(nodes.Template, nodes.Output, nodes.TemplateData, nodes.If, nodes.For, nodes.Assign),
    *(nodes.Name, nodes.Const, nodes.Tuple, nodes.List, nodes.Dict, nodes.Pair, nodes.Keyword),
    *(nodes.CondExpr, nodes.Filter, nodes.Test, nodes.Call, nodes.Getitem, nodes.Getattr),
    *(nodes.Slice, nodes.Concat, nodes.Compare, nodes.Operand, nodes.And, nodes.Or, nodes.Not),
    *(nodes.Neg, nodes.Pos, nodes.Add, nodes.Sub, nodes.Mul, nodes.Div, nodes.FloorDiv),
    *(nodes.Mod, nodes.Pow),
)
_FILTERS = (
    *("abs", "capitalize", "count", "d", "default", "dictsort", "e", "escape", "first", "float"),
    *("int", "items", "join", "last", "length", "list", "lower", "map", "max", "min", "reject"),
    *("rejectattr", "replace", "reverse", "select", "selectattr", "sort", "string"),
    *("title", "trim", "unique", "upper"),
)
# None of them gives more than it has; `join` and `replace` are asked first.
_METHODS: Mapping[type, frozenset[str]] = {
    str: frozenset(
        (
            *("capitalize", "casefold", "count", "endswith", "find", "index", "isalnum", "isalpha"),
            *("isascii", "isdecimal", "isdigit", "islower", "isnumeric", "isupper", "join"),
            *("lower", "lstrip", "partition", "removeprefix", "removesuffix", "replace", "rfind"),
            *("rindex", "rpartition", "rsplit", "rstrip", "split", "splitlines", "startswith"),
            *("strip", "swapcase", "title", "upper"),
        )
    ),
    list: frozenset({"count", "index"}),
    tuple: frozenset({"count", "index"}),
    dict: frozenset({"get", "items", "keys", "values"}),
    LoopContext: frozenset({"cycle", "changed"}),
}


class _Meter:
    """What one text has used of its time and its turns."""

    __slots__ = ("began", "turns")

    def __init__(self) -> None:
        self.began, self.turns = time.thread_time(), 0

    def tick(self) -> None:
        if time.thread_time() - self.began > _SECONDS:
            raise SecurityError(f"it takes more than {_SECONDS:.0f} s")


_meter: ContextVar[_Meter] = ContextVar("meter")


def metered(action: Callable[[], Any]) -> Any:
    """Do what one text asks for, with a time and turns of its own."""
    token = _meter.set(_Meter())
    try:
        return action()
    finally:
        _meter.reset(token)


def rendered(template: jinja2.Template, values: Mapping[str, object], longest: int) -> str:
    """Render a template; raises SecurityError as soon as the text is longer than it may be."""
    pieces, length = [], 0
    for piece in template.generate(values):
        length += len(piece)
        if length > longest:
            raise SecurityError(f"its result is longer than {longest} characters")
        pieces.append(piece)
    return "".join(pieces)


class BoundedSandbox(ImmutableSandboxedEnvironment):
    """A sandbox in which no value becomes large."""

    intercepted_binops = frozenset({"+", "-", "*", "/", "//", "%", "**"})

    def __init__(self, **options: Any) -> None:
        super().__init__(optimized=False, **options)
        self.filters = {name: _filter(self.filters[name]) for name in _FILTERS}
        self.filters |= {"_joined": _joined, "_turns": _turns, "_small": _settled}
        self.globals = {"range": self.globals["range"]}

    def _generate(self, source: nodes.Template, *args: Any, **options: Any) -> str:
        return super()._generate(_BoundsTransformer().visit(source), *args, **options)

    def call_binop(self, context: Any, operator: str, left: Any, right: Any) -> Any:
        """Work out an operator where the result is small."""
        _meter.get().tick()
        numbers = isinstance(left, int | float) and isinstance(right, int | float)
        if operator == "%" and not numbers:
            raise SecurityError("'%' works on numbers only here; write a ~ b to join texts")
        if operator in "+*":
            _require(_size_of(operator, left, right))
        if operator == "**" and isinstance(left, int) and isinstance(right, int) and right > 0:
            _require_bits(left.bit_length() * right)
        if operator == "*" and isinstance(left, int) and isinstance(right, int):
            _require_bits(left.bit_length() + right.bit_length())
        return super().call_binop(context, operator, left, right)

    def is_safe_attribute(self, obj: Any, attr: str, value: Any) -> bool:
        """Return whether this may be had: data, and methods that give no more than they have."""
        if callable(value):
            methods = (names for kind, names in _METHODS.items() if isinstance(obj, kind))
            if attr not in next(methods, frozenset()):
                return False
        return bool(super().is_safe_attribute(obj, attr, value))

    def call(__self, __context: Any, __obj: Any, *args: Any, **kwargs: Any) -> Any:  # noqa: N805
        """Call `range`, or a known method where the result is small."""
        _meter.get().tick()
        owner, name = getattr(__obj, "__self__", None), getattr(__obj, "__name__", "")
        if isinstance(owner, str) and name == "join":
            _require(_size_of_joined(owner, *args))
        if isinstance(owner, str) and name == "replace":
            _require(_size_of_replaced(owner, *args[:2]))
        returned = super().call(__context, __obj, *args, **kwargs)
        return returned if isinstance(returned, range) else _settled(returned)


class _BoundsTransformer(NodeTransformer):
    """Refuse all but the known nodes, and put a measure around those that make something."""

    def visit(self, node: nodes.Node, *args: Any, **kwargs: Any) -> Any:
        if not isinstance(node, _KNOWN):
            kind = type(node).__name__.lower()
            raise jinja2.TemplateSyntaxError(
                f"{kind!r} is not allowed in this template", node.lineno
            )
        return super().visit(node, *args, **kwargs)

    def visit_For(self, node: nodes.For) -> nodes.Node:  # noqa: N802
        if node.recursive:
            raise jinja2.TemplateSyntaxError(
                "'recursive' is not allowed in this template", node.lineno
            )
        self.generic_visit(node)
        node.iter = _wrapped(node.iter, "_turns")
        return node

    def visit_Concat(self, node: nodes.Concat) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        first, *rest = node.nodes
        return _wrapped(first, "_joined", rest)

    def visit_List(self, node: nodes.List) -> nodes.Node:  # noqa: N802
        return _wrapped(self.generic_visit(node), "_small")

    def visit_Dict(self, node: nodes.Dict) -> nodes.Node:  # noqa: N802
        return _wrapped(self.generic_visit(node), "_small")

    def visit_Tuple(self, node: nodes.Tuple) -> nodes.Node:  # noqa: N802
        self.generic_visit(node)
        return node if node.ctx == "store" else _wrapped(node, "_small")


def _wrapped(node: Any, name: str, more: list[nodes.Expr] | None = None) -> nodes.Filter:
    filter_node = nodes.Filter(node, name, more or [], [], None, None, lineno=node.lineno)
    filter_node.set_environment(node.environment)
    return filter_node


def _filter(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def bounded(*args: Any, **kwargs: Any) -> Any:
        _meter.get().tick()
        # Some get Jinja's context first.
        arguments = args[1:] if hasattr(function, "jinja_pass_arg") else args
        if function.__name__ in {"sync_do_join", "do_join"}:
            texts, between = (
                arguments[0],
                kwargs.get("d", arguments[1] if len(arguments) > 1 else ""),
            )
            _require(_size_of_joined(str(between), texts))
        if function.__name__ == "do_replace":
            by_name = {**dict(zip(("s", "old", "new"), arguments, strict=False)), **kwargs}
            _require(_size_of_replaced(*(str(by_name.get(k, "")) for k in ("s", "old", "new"))))
        return _settled(function(*args, **kwargs))

    return bounded


def _joined(*parts: Any) -> str:
    _meter.get().tick()
    _require(sum(map(size, parts)))
    return "".join(map(str, parts))


def _turns(items: Iterable[Any]) -> Iterator[Any]:
    meter = _meter.get()
    for item in items:
        meter.turns += 1
        if meter.turns > _TURNS:
            raise SecurityError(f"its loops make more than {_TURNS} iterations")
        meter.tick()
        yield item


def _settled(value: Any) -> Any:
    """Return a value that is small, a lazy one as the list of what it gives; raises
    SecurityError.
    """
    _meter.get().tick()
    if not isinstance(value, Iterator):
        _require(size(value))
        return value
    members, total = [], 0
    for item in value:
        total += 1 + size(item)
        _require(total)
        members.append(item)
    return members


def size(value: Any) -> int:
    """Count the characters and items of a value, as many times as they would be written."""
    total, stack = 0, [value]
    while stack:
        node = stack.pop()
        total += 1
        if isinstance(node, str | bytes):
            total += len(node)
        elif isinstance(node, Mapping):
            stack += [*node.keys(), *node.values()]
        elif isinstance(node, list | tuple | set | frozenset):
            stack += node
        if total > LARGEST + 1:
            break  # large enough to know: a list of lists may be without end
    return total


def _size_of(operator: str, left: Any, right: Any) -> int:
    if operator == "+":
        are_sequences = isinstance(left, str | list | tuple) and isinstance(
            right, str | list | tuple
        )
        return size(left) + size(right) if are_sequences else 0
    for many, times in ((left, right), (right, left)):
        if isinstance(many, str | bytes | list | tuple) and isinstance(times, int):
            return size(many) * max(0, times)
    return 0


def _size_of_joined(between: str, items: Any = ()) -> int:
    if not isinstance(items, str | list | tuple | Mapping | range):
        items = ()  # what is lazy is settled already; else it is no list, and the join says so
    return size(list(items)) + len(between) * len(items)


def _size_of_replaced(text: str, old: Any = "", new: Any = "") -> int:
    if not (isinstance(old, str) and isinstance(new, str)):
        return 0
    return len(text) + text.count(old) * len(new)


def _require(length: int) -> None:
    if length > LARGEST + 1:
        raise SecurityError(f"a value grows beyond {LARGEST} characters or items")


def _require_bits(bits: int) -> None:
    if bits > _BITS:
        raise SecurityError(f"a number grows beyond 2**{_BITS}")
