"""The recipe's own constraints (``constraints[]``), held against what the snapshot measured.

AICR checks them when it validates, which is after the rollout; here a cluster that cannot fit is refused
before anything is touched. Grammar and comparison are AICR's (its packages ``pkg/constraints`` and
``pkg/version``): alternatives apart by ``||``, terms of one alternative by space, each an operator and a
value; a value alone is compared as text.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

KUBERNETES = "K8s.server.version"

_TERM = re.compile(r"(>=|<=|!=|==|=|>|<)?\s*(.+)", re.DOTALL)
#: What no exact value begins with: an operator of a newer AICR, which must not pass for text.
_STRANGE = re.compile(r"(?!-\d)[^\w/.(]")
#: No number of a version is longer, and Python refuses to read very long ones.
_VERSION = re.compile(r"v?(\d{1,18})(?:\.(\d{1,18}))?(?:\.(\d{1,18}))?(?:(?<=\d)[-+](.*))?")
_GKE = re.compile(r"gke\.(\d{1,18})")

Version = tuple[tuple[int, ...], int | None]


@dataclass(frozen=True)
class Constraint:
    """One entry: a measurement's name, and what is wanted of it."""

    name: str
    value: str


def constraints_of(recipe: Mapping[str, Any]) -> tuple[Constraint, ...]:
    """The recipe's constraints, in order.

    Raises
    ------
    PipelineError
        ``AICRArtifactUnsupported`` when they are not a list of names and values.
    """
    found: list[Constraint] = []
    listed = recipe.get("constraints")
    for entry in [] if listed is None else listed if isinstance(listed, list) else [listed]:
        name, value = (entry.get("name"), entry.get("value")) if isinstance(entry, dict) else (None, None)
        if not isinstance(name, str) or not isinstance(value, str):
            raise _unreadable("the recipe's constraints are not a list of names and values")
        found.append(Constraint(name, value))
    return tuple(found)


def check_constraints(
    recipe: Mapping[str, Any], measurements: Sequence[Any], kubernetes: str
) -> tuple[str, ...]:
    """Hold every constraint whose measurement is known against it.

    Parameters
    ----------
    measurements:
        Of the snapshot.
    kubernetes:
        The API server's version, for the one constraint that never goes unchecked.

    Returns
    -------
    tuple of str
        Names of constraints that the snapshot has no measurement for: AICR's validation looks at them.

    Raises
    ------
    PipelineError
        ``KubernetesUnsupported`` or ``CriteriaConflict``, naming both values, all that fail at once;
        ``AICRArtifactUnsupported`` for a constraint in no grammar that is known.
    """
    failed: list[tuple[Constraint, str]] = []
    unknown: list[str] = []
    for constraint in constraints_of(recipe):
        is_kubernetes = constraint.name == KUBERNETES
        actual = kubernetes if is_kubernetes else measured(measurements, constraint.name)
        if actual is None:
            unknown.append(constraint.name)
        elif not satisfied(actual, constraint):
            failed.append((constraint, actual))
    if failed:
        named = "; ".join(f"{wanted.name} {wanted.value!r}, found {actual!r}" for wanted, actual in failed)
        if any(wanted.name == KUBERNETES for wanted, _ in failed):
            reason, advice = Reason.KubernetesUnsupported, "Upgrade the cluster"
        else:
            reason, advice = Reason.CriteriaConflict, "Change the nodes or spec.criteria"
        raise PipelineError(
            reason, f"The recipe needs what the cluster is not: {named}. {advice}, or pin another AICR."
        )
    return tuple(unknown)


def measured(measurements: Iterable[Any], name: str) -> str | None:
    """The value of ``<type>.<subtype>.<key>`` as AICR prints it, or None; the key may hold dots."""
    kind, _, rest = name.partition(".")
    subtype, _, key = rest.partition(".")
    for measurement in measurements:
        if not isinstance(measurement, dict) or measurement.get("type") != kind:
            continue
        entries = measurement.get("subtypes")
        for entry in entries if isinstance(entries, list) else []:
            data = entry.get("data") if isinstance(entry, dict) else None
            if isinstance(data, dict) and entry.get("subtype") == subtype and key in data:
                return _printed(data[key])
    return None


def satisfied(actual: str, constraint: Constraint) -> bool:
    """Whether ``actual`` meets one of the alternatives.

    Raises
    ------
    PipelineError
        ``AICRArtifactUnsupported`` for an expression that cannot be read: read as text, it would refuse
        every cluster for a wrong cause.
    """
    # All alternatives are read before one is believed.
    alternatives = [
        [_term(term, constraint) for term in _terms(clause)] for clause in constraint.value.split("||")
    ]
    if not all(alternatives):
        raise _unreadable(f"constraint {constraint.name} is {constraint.value!r}: an alternative is empty")
    return any(
        all(_holds(actual.strip(), operator, value) for operator, value in terms) for terms in alternatives
    )


def _terms(clause: str) -> list[str]:
    """A term begins where space is followed by an operator; exact values may hold spaces."""
    return [term for term in re.split(r"[ \t]+(?=[<>=!])", clause.strip()) if term]


def _term(text: str, constraint: Constraint) -> tuple[str, str]:
    match = _TERM.fullmatch(text)
    operator, value = (match[1] or "", match[2].strip()) if match else ("", "")
    ordered = operator in (">=", "<=", ">", "<")
    if not value or _STRANGE.match(value) or (ordered and _version(value) is None):
        raise _unreadable(
            f"constraint {constraint.name} is {constraint.value!r}, which this version cannot read"
        )
    return "==" if operator == "=" else operator, value


def _holds(actual: str, operator: str, wanted: str) -> bool:
    if operator == "":
        return actual == wanted
    found, limit = _version(actual), _version(wanted)
    if operator in ("==", "!="):
        if found is None or limit is None or "." not in wanted:
            same = actual == wanted
        else:
            same = _padded(found) == _padded(limit)
        return same == (operator == "==")
    if found is None or limit is None:
        return False
    order = _compare(found, limit)
    return {">=": order >= 0, "<=": order <= 0, ">": order > 0, "<": order < 0}[operator]


def _version(text: str) -> Version | None:
    """``v1.34.2-gke.5`` as ((1, 34, 2), 5); suffixes of other providers have no order."""
    match = _VERSION.fullmatch(text)
    if match is None:
        return None
    suffix = match[4] or ""
    build = _GKE.fullmatch(suffix)
    if build is None and suffix.startswith("gke."):
        return None
    return tuple(int(part) for part in match.groups()[:3] if part), int(build[1]) if build else None


def _compare(found: Version, limit: Version) -> int:
    """To the precision of the shorter one: 1.34.2 is neither above nor below 1.34."""
    shared = min(len(found[0]), len(limit[0]))
    left, right = found[0][:shared], limit[0][:shared]
    if left != right or shared < 3:
        return (left > right) - (left < right)
    # A build of GKE is newer than the plain version, and a limit with a build wants one.
    ours, theirs = (-1 if build is None else build for build in (found[1], limit[1]))
    return (ours > theirs) - (ours < theirs)


def _padded(version: Version) -> tuple[int, ...]:
    return (*version[0], 0, 0)[:3]


def _printed(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else str(value)


def _unreadable(what: str) -> PipelineError:
    return PipelineError(
        Reason.AICRArtifactUnsupported,
        f"The recipe cannot be held against the cluster: {what}. Pin an AICR release that is supported, or "
        "update the pipeline.",
    )
