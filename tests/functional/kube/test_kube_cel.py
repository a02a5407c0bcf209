"""The expressions of validation rules."""

from __future__ import annotations

from typing import Any

import pytest

from local.kube.cel import CelError, compile_rule

SELF = {
    "n": 3,
    "f": 1.5,
    "name": "gpu-operator",
    "on": True,
    "list": [1, 2, 3],
    "map": {"a": 1},
    "foo-bar": "dash",
    "items": [{"k": "a", "v": 1}, {"k": "b", "v": 2}],
}


@pytest.mark.parametrize(
    ("rule", "value"),
    [
        ("self.n == 3 && self.f < 2.0", True),
        ("self.n + 2 * 3 - 1", 8),
        ("(self.n + 2) * 3", 15),
        ("7 / 2", 3),
        ("-7 / 2", -3),
        ("7 % 3", 1),
        ("-7 % 3", -1),
        ("!self.on || self.n > 2", True),
        ("self.n > 5 ? 'big' : 'small'", "small"),
        ("has(self.name)", True),
        ("has(self.nope)", False),
        ("!has(self.nope) || self.nope.deep == 1", True),
        ("self.nope == 1 || true", True),
        ("false && self.nope == 1", False),
        ("'a' in self.map && 2 in self.list && !(9 in self.list)", True),
        ("self.list[1]", 2),
        ("self['name']", "gpu-operator"),
        ("self.foo__dash__bar", "dash"),
        ("size(self.list) == 3 && self.name.size() == 12", True),
        ("self.list.all(x, x > 0)", True),
        ("self.list.exists(x, x == 2)", True),
        ("self.list.exists_one(x, x > 1)", False),
        ("self.items.filter(i, i.v > 1).map(i, i.k)", ["b"]),
        ("self.map.all(key, self.map[key] == 1)", True),
        ("self.name.startsWith('gpu') && self.name.endsWith('tor') && self.name.contains('-op')", True),
        (r"self.name.matches('^[a-z-]+$')", True),
        ('self.name.split("-")[0] + "!"', "gpu!"),
        ("1 == 1.0", True),
        ("true == 1", False),
        ("null == null", True),
        ("int('4') + 1", 5),
        ("string(true)", "true"),
        (r'"quote\"d" == "quote\"d"', True),
        ('r"a\\d" == "a\\\\d"', True),
        ("[1, 2] + [3] == self.list", True),
    ],
)
def test_expressions(rule: str, value: Any) -> None:
    assert compile_rule(rule)({"self": SELF}) == value


@pytest.mark.parametrize(
    "rule",
    ["self.", "self ==", "nosuch(1)", "self.x.nosuch()", "1 +* 2", "(1", "a b", "'open", "{'a': 1}", "@"],
)
def test_what_is_not_understood_is_refused_when_compiled(rule: str) -> None:
    with pytest.raises(CelError):
        compile_rule(rule)


@pytest.mark.parametrize("rule", ["self.nope", "self.list[9]", "1 < 'a'", "1 / 0", "'a' - 'b'", "int('x')"])
def test_what_cannot_be_evaluated_is_an_error(rule: str) -> None:
    node = compile_rule(rule)
    with pytest.raises(CelError):
        node({"self": SELF})
