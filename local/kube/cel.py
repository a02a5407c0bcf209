"""The part of the Common Expression Language that validation rules of CustomResourceDefinitions commonly use.

Literals, operators, the conditional, field and index access, `has`, `in`, the macros `all`, `exists`,
`exists_one`, `map`, `filter`, conversions and the usual functions of strings and lists. An expression
outside that part is refused when it is compiled, so a rule is never silently skipped.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any

Env = Mapping[str, Any]
Node = Callable[[Env], Any]


class CelError(ValueError):
    """An expression that cannot be compiled, or cannot be evaluated with these values."""


_TOKEN = re.compile(
    r"""\s*(?:(?P<float>\d+\.\d+(?:[eE][-+]?\d+)?)|(?P<int>0x[0-9a-fA-F]+|\d+)u?
    |(?P<str>r?"(?:\\.|[^"\\])*"|r?'(?:\\.|[^'\\])*')|(?P<name>[A-Za-z_]\w*)
    |(?P<op>&&|\|\||==|!=|<=|>=|[-+*/%!<>?:.,()\[\]{}]))""",
    re.VERBOSE,
)
_ESCAPES = {"n": "\n", "t": "\t", "r": "\r", "\\": "\\", '"': '"', "'": "'"}
_CONSTANTS = {"true": True, "false": False, "null": None}
_PROPERTY_ESCAPES = {"__dash__": "-", "__dot__": ".", "__slash__": "/", "__underscores__": "__"}


def _tokens(text: str) -> list[tuple[str, str]]:
    found, position, text = [], 0, text.strip()
    while position < len(text):
        match = _TOKEN.match(text, position)
        if match is None:
            raise CelError(f"unexpected {text[position:]!r}")
        found.append((match.lastgroup or "op", match[match.lastgroup or 0]))
        position = match.end()
    return [*found, ("end", "")]


def _string(literal: str) -> str:
    if literal.startswith("r"):
        return literal[2:-1]
    return re.sub(r"\\(.)", lambda m: _ESCAPES.get(m[1], m[0]), literal[1:-1])


def _kind(value: Any) -> str:
    return (
        "number" if isinstance(value, (int, float)) and not isinstance(value, bool) else type(value).__name__
    )


def _equal(left: Any, right: Any) -> bool:
    return _kind(left) == _kind(right) and bool(left == right)


def _compare(test: Callable[[Any, Any], bool]) -> Callable[[Any, Any], bool]:
    def compare(left: Any, right: Any) -> bool:
        if _kind(left) != _kind(right) or isinstance(left, (dict, list)):
            raise CelError(f"no such overload: {_kind(left)} compared with {_kind(right)}")
        return test(left, right)

    return compare


def _arithmetic(operate: Callable[[Any, Any], Any], *kinds: str) -> Callable[[Any, Any], Any]:
    def calculate(left: Any, right: Any) -> Any:
        if _kind(left) != _kind(right) or _kind(left) not in kinds:
            raise CelError(f"no such overload: {_kind(left)} with {_kind(right)}")
        return operate(left, right)

    return calculate


def _divide(left: Any, right: Any) -> Any:
    if right == 0:
        raise CelError("division by zero")
    if isinstance(left, int) and isinstance(right, int):
        return int(left / right)
    return left / right


_BINARY: dict[str, tuple[int, Callable[[Any, Any], Any]]] = {
    "==": (3, _equal),
    "!=": (3, lambda a, b: not _equal(a, b)),
    "<": (3, _compare(lambda a, b: a < b)),
    "<=": (3, _compare(lambda a, b: a <= b)),
    ">": (3, _compare(lambda a, b: a > b)),
    ">=": (3, _compare(lambda a, b: a >= b)),
    "in": (3, lambda a, b: a in b),
    "+": (4, _arithmetic(lambda a, b: a + b, "number", "str", "list")),
    "-": (4, _arithmetic(lambda a, b: a - b, "number")),
    "*": (5, _arithmetic(lambda a, b: a * b, "number")),
    "/": (5, _arithmetic(_divide, "number")),
    "%": (5, _arithmetic(lambda a, b: a - b * _divide(a, b), "number")),
}

_FUNCTIONS: dict[str, Callable[..., Any]] = {
    "size": len,
    "int": int,
    "double": float,
    "string": lambda v: str(v).lower() if isinstance(v, bool) else str(v),
    "matches": lambda s, p: re.search(p, s) is not None,
    "startsWith": lambda s, p: s.startswith(p),
    "endsWith": lambda s, p: s.endswith(p),
    "contains": lambda s, p: p in s,
    "lowerAscii": lambda s: s.lower(),
    "upperAscii": lambda s: s.upper(),
    "trim": lambda s: s.strip(),
    "split": lambda s, sep: s.split(sep),
    "replace": lambda s, old, new: s.replace(old, new),
    "substring": lambda s, start, end=None: s[start:end],
    "indexOf": lambda s, part: s.index(part) if part in s else -1,
    "join": lambda items, sep="": sep.join(items),
    "isSorted": lambda items: items == sorted(items),
    "sum": sum,
    "min": min,
    "max": max,
}
_MACROS = ("all", "exists", "exists_one", "map", "filter")


def _or(left: Node, right: Node) -> Node:
    def evaluate(env: Env) -> bool:
        try:
            if left(env) is True:
                return True
        except CelError:
            if right(env) is True:  # CEL's || and && do not care in which order operands fail
                return True
            raise
        return bool(right(env))

    return evaluate


def _and(left: Node, right: Node) -> Node:
    def evaluate(env: Env) -> bool:
        try:
            if left(env) is False:
                return False
        except CelError:
            if right(env) is False:
                return False
            raise
        return bool(right(env))

    return evaluate


def _select(target: Node, name: str) -> Node:
    for escaped, plain in _PROPERTY_ESCAPES.items():
        name = name.replace(escaped, plain)

    def evaluate(env: Env) -> Any:
        value = target(env)
        if not isinstance(value, dict) or name not in value:
            raise CelError(f"no such key: {name}")
        return value[name]

    return evaluate


def _index(target: Node, index: Node) -> Node:
    def evaluate(env: Env) -> Any:
        try:
            return target(env)[index(env)]
        except (KeyError, IndexError, TypeError) as error:
            raise CelError(f"no such key or index: {error}") from error

    return evaluate


def _call(name: str, arguments: list[Node]) -> Node:
    function = _FUNCTIONS[name]

    def evaluate(env: Env) -> Any:
        values = [argument(env) for argument in arguments]
        try:
            return function(*values)
        except (TypeError, ValueError, AttributeError, re.error) as error:
            raise CelError(f"{name}: {error}") from error

    return evaluate


def _macro(name: str, target: Node, variable: str, body: Node) -> Node:
    def evaluate(env: Env) -> Any:
        items = list(target(env))
        results = [body({**env, variable: item}) for item in items]
        if name == "all":
            return all(results)
        if name == "exists":
            return any(results)
        if name == "exists_one":
            return sum(map(bool, results)) == 1
        return results if name == "map" else [item for item, keep in zip(items, results, strict=True) if keep]

    return evaluate


class _Parser:
    """Precedence climbing; each method returns a closure that evaluates what it read."""

    def __init__(self, text: str) -> None:
        self._tokens = _tokens(text)
        self._at = 0

    def _peek(self) -> str:
        kind, text = self._tokens[self._at]
        return "" if kind == "str" else text

    def _take(self, expected: str | None = None) -> tuple[str, str]:
        kind, text = self._tokens[self._at]
        if expected is not None and (kind == "str" or text != expected):
            raise CelError(f"expected {expected!r}, found {text!r}")
        self._at += 1
        return kind, text

    def whole(self) -> Node:
        node = self.expression()
        if self._tokens[self._at][0] != "end":
            raise CelError(f"unexpected {self._tokens[self._at][1]!r}")
        return node

    def expression(self) -> Node:
        test = self._logical("||")
        if self._peek() != "?":
            return test
        self._take()
        yes = self._logical("||")
        self._take(":")
        no = self.expression()
        return lambda env: yes(env) if test(env) else no(env)

    def _logical(self, operator: str) -> Node:
        def operand() -> Node:
            return self._logical("&&") if operator == "||" else self._binary(3)

        node = operand()
        while self._peek() == operator:
            self._take()
            node = (_or if operator == "||" else _and)(node, operand())
        return node

    def _binary(self, level: int) -> Node:
        left = self._unary()
        while self._peek() in _BINARY and _BINARY[self._peek()][0] >= level:
            precedence, operate = _BINARY[self._take()[1]]
            left = self._apply(operate, left, self._binary(precedence + 1))
        return left

    @staticmethod
    def _apply(operate: Callable[[Any, Any], Any], left: Node, right: Node) -> Node:
        return lambda env: operate(left(env), right(env))

    def _unary(self) -> Node:
        if self._peek() in ("!", "-"):
            negate = self._take()[1] == "!"
            operand = self._unary()
            return (lambda env: not operand(env)) if negate else (lambda env: -operand(env))
        return self._postfix(self._primary())

    def _postfix(self, node: Node) -> Node:
        while self._peek() in (".", "["):
            if self._take()[1] == "[":
                node = _index(node, self.expression())
                self._take("]")
                continue
            kind, name = self._take()
            if kind != "name":
                raise CelError(f"expected a field, found {name!r}")
            node = self._method(node, name) if self._peek() == "(" else _select(node, name)
        return node

    def _method(self, target: Node, name: str) -> Node:
        self._take("(")
        if name in _MACROS:
            variable = self._take()[1]
            self._take(",")
            body = self.expression()
            self._take(")")
            return _macro(name, target, variable, body)
        return self._function(name, [target, *self._arguments(")")])

    @staticmethod
    def _function(name: str, arguments: list[Node]) -> Node:
        if name not in _FUNCTIONS:
            raise CelError(f"undeclared reference to '{name}'")
        return _call(name, arguments)

    def _arguments(self, closing: str) -> list[Node]:
        nodes: list[Node] = []
        while self._peek() != closing:
            nodes.append(self.expression())
            if self._peek() != closing:
                self._take(",")
        self._take(closing)
        return nodes

    def _primary(self) -> Node:
        kind, text = self._take()
        if kind in ("int", "float", "str"):
            value: Any = int(text, 0) if kind == "int" else float(text) if kind == "float" else _string(text)
            return lambda env: value
        if kind == "name":
            return self._name(text)
        if text == "(":
            node = self.expression()
            self._take(")")
            return node
        if text == "[":
            items = self._arguments("]")
            return lambda env: [item(env) for item in items]
        raise CelError(f"unexpected {text!r}")

    def _name(self, name: str) -> Node:
        if name in _CONSTANTS:
            constant = _CONSTANTS[name]
            return lambda env: constant
        if self._peek() != "(":
            return lambda env: env[name]
        self._take("(")
        arguments = self._arguments(")")
        if name != "has":
            return self._function(name, arguments)
        field = arguments[0]

        def present(env: Env) -> bool:
            try:
                field(env)
            except CelError:
                return False
            return True

        return present


@lru_cache(maxsize=512)
def compile_rule(text: str) -> Node:
    """A function that evaluates the expression with variables like `self` and `oldSelf`.

    Raises CelError for what is not CEL, or outside the part implemented here.
    """
    return _Parser(text).whole()
