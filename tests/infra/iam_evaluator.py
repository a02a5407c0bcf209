"""Evaluates IAM policies as AWS documents it, for the elements that this project uses. It never guesses.

Default deny, an explicit deny wins. An element, operator, principal or variable that is not known raises.
https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_evaluation-logic.html
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cache
from typing import Any

Policy = Mapping[str, Any]
#: One value, several (a multivalued key), or None: the request does not carry the key.
Value = str | tuple[str, ...] | None


class UnknownElementError(ValueError):
    """Something that is not evaluated here; a proof that rests on it would be none."""


class Decision(StrEnum):
    """What AWS would answer."""

    Allowed = "allowed"
    ImplicitlyDenied = "implicitly denied"
    ExplicitlyDenied = "explicitly denied"


@dataclass(frozen=True)
class Request:
    """Who asks for what, of which resource, with which condition keys."""

    principal: str
    action: str
    resource: str
    context: Mapping[str, Value] = field(default_factory=dict)

    def value(self, key: str) -> Value:
        """Names of condition keys are not case-sensitive."""
        known = {name.lower(): value for name, value in self.context.items()}
        return known.get(key.lower())


@dataclass(frozen=True)
class Statement:
    """One statement, read once. Reading it raises for whatever is not known."""

    allows: bool
    #: None in an identity policy: it is the principal's own.
    principals: tuple[str, ...] | None
    actions: tuple[str, ...]
    not_actions: bool
    resources: tuple[str, ...]
    not_resources: bool
    #: Operator, key, values.
    conditions: tuple[tuple[str, str, tuple[str, ...]], ...]

    def covers(self, request: Request) -> bool:
        """Whether it is about such a request, whatever its conditions say."""
        return self._is_action(request.action) and self._is_principal(request) and self._is_resource(request)

    def holds(self, request: Request) -> bool:
        """Whether it applies to the request."""
        if not self.covers(request):
            return False
        # Each is looked at: one that cannot be evaluated raises, whatever the others say.
        said = [_condition(operator, request.value(key), values) for operator, key, values in self.conditions]
        return all(said)

    def names(self, principal: str) -> bool:
        """Whether it allows that very principal, or everybody."""
        return self.principals is not None and not {"*", principal}.isdisjoint(self.principals)

    def _is_action(self, action: str) -> bool:
        return self.not_actions != any(_like(pattern, action.lower()) for pattern in self.actions)

    def _is_principal(self, request: Request) -> bool:
        if self.principals is None or self.names(request.principal):
            return True
        account = request.principal.split(":")[4] if request.principal.startswith("arn:") else ""
        roots = (_ROOT.fullmatch(name) for name in self.principals)
        return any(root is not None and root[1] == account for root in roots)

    def _is_resource(self, request: Request) -> bool:
        return self.not_resources != any(_like_arn(one, request.resource) for one in self.resources)


_ELEMENTS = {
    "Sid", "Effect", "Principal", "Action", "NotAction", "Resource", "NotResource", "Condition",
}  # fmt: skip
_ROOT = re.compile(r"(?:arn:aws[a-z-]*:iam::)?(\d{12})(?::root)?")
_PRINCIPAL = re.compile(
    r"\*|\d{12}|arn:aws[a-z-]*:iam::\d{12}:(root|(role|user)/[^*?]+)|[a-z0-9-]+(\.[a-z0-9-]+)+"
)
_QUANTIFIERS = ("", "ForAllValues", "ForAnyValue")
#: By identity, since the same policy is asked about again and again; kept, so that its id stays its own.
_READ: dict[int, tuple[Policy, tuple[Statement, ...]]] = {}


def decide(request: Request, identity: Sequence[Policy], resource: Sequence[Policy] = ()) -> Decision:
    """For a principal and a resource of one account: an allow of either side is enough.

    A resource's policy allows by itself only whom it names; where it names the account, identity policies
    count.
    """
    mine, theirs = _holding(request, identity), _holding(request, resource)
    if any(not one.allows for one in (*mine, *theirs)):
        return Decision.ExplicitlyDenied
    granted = bool(mine) or any(one.names(request.principal) for one in theirs)
    return Decision.Allowed if granted else Decision.ImplicitlyDenied


def decide_key(request: Request, identity: Sequence[Policy], key_policy: Policy) -> Decision:
    """For a KMS key, whose own policy has to allow: the principal itself, or the account.

    Where it names the account, identity policies count.
    """
    mine, theirs = _holding(request, identity), _holding(request, [key_policy])
    if any(not one.allows for one in (*mine, *theirs)):
        return Decision.ExplicitlyDenied
    granted = bool(mine and theirs) or any(one.names(request.principal) for one in theirs)
    return Decision.Allowed if granted else Decision.ImplicitlyDenied


def contexts(
    request: Request, policies: Iterable[Policy], fixed: Mapping[str, Value]
) -> Iterator[dict[str, Value]]:
    """Every context that the policies could tell apart for such a request.

    Keys of conditions are absent, at each value that is named, and at another one. ``fixed`` are those that
    AWS sets, and no caller chooses.
    """
    values: dict[str, set[str]] = {}
    known = {key.lower() for key in fixed}
    for policy in policies:
        for statement in read(policy):
            if statement.covers(request):
                for _, key, named in statement.conditions:
                    if key.lower() not in known:
                        values.setdefault(key, set()).update(named)
    choices = [[None, "something-else", *sorted(found)] for found in values.values()]
    for chosen in itertools.product(*choices):
        yield {**fixed, **dict(zip(values, chosen, strict=True))}


def read(policy: Policy) -> tuple[Statement, ...]:
    """The statements of a policy. Raises UnknownElementError."""
    found = _READ.get(id(policy))
    if found is None:
        if unknown := set(policy) - {"Version", "Id", "Statement"}:
            raise UnknownElementError(f"policy with {sorted(unknown)}")
        made = tuple(_statement(one) for one in _list(policy["Statement"]))
        found = _READ[id(policy)] = (policy, made)
    return found[1]


def _holding(request: Request, policies: Iterable[Policy]) -> list[Statement]:
    return [one for policy in policies for one in read(policy) if one.holds(request)]


def _statement(given: Mapping[str, Any]) -> Statement:
    if unknown := set(given) - _ELEMENTS:
        raise UnknownElementError(f"statement with {sorted(unknown)}")
    if given["Effect"] not in ("Allow", "Deny"):
        raise UnknownElementError(f"effect {given['Effect']}")
    for one, other in (("Action", "NotAction"), ("Resource", "NotResource")):
        if (one in given) == (other in given):
            raise UnknownElementError(f"a statement with both or neither of {one} and {other}")
    resources = _list(given.get("Resource", given.get("NotResource")))
    for resource in resources:
        if resource != "*" and (_text(resource).count(":") < 5 or not resource.startswith("arn:")):
            raise UnknownElementError(f"resource {resource}")
    return Statement(
        allows=given["Effect"] == "Allow",
        principals=_principals(given["Principal"]) if "Principal" in given else None,
        actions=tuple(one.lower() for one in _list(given.get("Action", given.get("NotAction")))),
        not_actions="NotAction" in given,
        resources=tuple(resources),
        not_resources="NotResource" in given,
        conditions=tuple(
            (_known(operator), key, tuple(map(_text, _list(values))))
            for operator, keys in given.get("Condition", {}).items()
            for key, values in keys.items()
        ),
    )


def _principals(principal: Any) -> tuple[str, ...]:
    if principal == "*":
        return ("*",)
    if not isinstance(principal, Mapping) or not set(principal) <= {"AWS", "Service"}:
        raise UnknownElementError(f"principal {principal}")
    named = [*_list(principal.get("AWS", [])), *_list(principal.get("Service", []))]
    for name in named:
        if not _PRINCIPAL.fullmatch(name):
            raise UnknownElementError(f"principal {name}")
    return tuple(named)


def _known(operator: str) -> str:
    quantifier, _, plain = operator.rpartition(":")
    plain = plain.removesuffix("IfExists") if plain != "Null" else plain
    if quantifier not in _QUANTIFIERS or (plain not in _OPERATORS and (plain, quantifier) != ("Null", "")):
        raise UnknownElementError(f"operator {operator}")
    return operator


def _text(value: Any) -> str:
    text = str(value).lower() if isinstance(value, bool) else str(value)
    if "${" in text:
        raise UnknownElementError(f"policy variable in {text}")
    return text


def _condition(operator: str, value: Value, wanted: Sequence[str]) -> bool:
    quantifier, _, plain = operator.rpartition(":")
    if plain == "Null":
        return any((value is None) == (want.lower() == "true") for want in wanted)
    negated, same = _OPERATORS[plain.removesuffix("IfExists")]

    def holds(one: str) -> bool:
        return negated != any(same(want, one) for want in wanted)

    if quantifier:
        several = () if value is None else (value,) if isinstance(value, str) else value
        return all(map(holds, several)) if quantifier == "ForAllValues" else any(map(holds, several))
    if value is None:
        # "If the key is not present … the condition is false"; of a negated operator it is true.
        return plain.endswith("IfExists") or negated
    if not isinstance(value, str):
        raise UnknownElementError(f"{operator} of a key with several values")
    return holds(value)


def _equal(want: str, value: str) -> bool:
    return want == value


def _bool(want: str, value: str) -> bool:
    return want.lower() == value.lower()


@cache
def _pattern(pattern: str) -> re.Pattern[str]:
    """``*`` is any text, ``?`` any sign; nothing else is special."""
    parts = (".*" if sign == "*" else "." if sign == "?" else re.escape(sign) for sign in pattern)
    return re.compile("".join(parts), re.DOTALL)


def _like(pattern: str, value: str) -> bool:
    return _pattern(pattern).fullmatch(value) is not None


def _like_arn(pattern: str, value: str) -> bool:
    """Wildcards do not cross the first five colons; ``*`` alone is everything."""
    if pattern == "*":
        return True
    wanted, found = pattern.split(":", 5), value.split(":", 5)
    if len(wanted) != 6 or len(found) != 6:
        raise UnknownElementError(f"{pattern} or {value} is no ARN")
    return all(map(_like, wanted, found))


#: Operator -> whether it is negated, and how one value is compared. The Arn operators all take wildcards.
_OPERATORS = {
    "StringEquals": (False, _equal),
    "StringNotEquals": (True, _equal),
    "StringLike": (False, _like),
    "StringNotLike": (True, _like),
    "Bool": (False, _bool),
    "ArnEquals": (False, _like_arn),
    "ArnLike": (False, _like_arn),
    "ArnNotEquals": (True, _like_arn),
    "ArnNotLike": (True, _like_arn),
}


def _list(value: Any) -> list[Any]:
    return list(value) if isinstance(value, list | tuple) else [value]
