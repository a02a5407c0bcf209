"""A plan, a comparison and a rollout, told to people. All of it is also in the JSON, whole and typed."""

import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from aicr_pipeline.decide.compare_plans import REMOVE, Comparison, Difference, ReleaseChange
from aicr_pipeline.decide.redact import redact
from aicr_pipeline.decide.text_table import cut, plain, shown, table
from aicr_pipeline.model.plan import Plan
from aicr_pipeline.model.rollout import Action

#: Of a digest on a terminal: enough to tell two apart, and to name a plan by.
_SHORT = 12
_DIGEST = re.compile(r"sha256:[0-9a-f]{64}")


def plan_wire(plan: Plan) -> dict[str, Any]:
    """A plan as JSON: its head, and its releases without their values."""
    state = plan.desired_state.wire()
    releases = [
        {"order": order} | {name: value for name, value in release.items() if name != "values"}
        for order, release in enumerate(state.pop("releases"), 1)
    ]
    return {"digest": plan.desired_state_digest} | state | {
        "recorded": plan.recorded.wire(),
        "releases": releases,
    }  # fmt: skip


def tell(document: Mapping[str, Any], comparison: Comparison | None, width: int | None) -> list[str]:
    """The lines for people.

    Parameters
    ----------
    document:
        ``plan``, as ``plan_wire`` makes it, and ``rollout`` (None without one).
    width:
        Of the terminal; None for a pipe, where nothing is cut or shortened.
    """
    lines = [*_rollout(document["rollout"])] if document["rollout"] else []
    lines += [*_head(document["plan"], width), "", *_releases(document["plan"]["releases"], width)]
    if comparison is not None:
        lines += ["", *_comparison(comparison, width)]
    return [cut(line, width) for line in lines]


def _head(plan: Mapping[str, Any], width: int | None) -> Iterator[str]:
    criteria = plan["criteria"]
    active = {True: "  (the active plan)", None: ""}[plan.get("active") or None]
    yield f"plan        {plan['digest']}{active}"
    if plan.get("active") and not plan.get("whole", True):
        yield "            a later rollout ended half-way: the cluster may be between two plans"
    yield f"recipe      {plain(plan['recipe'])}"
    yield f"criteria    {', '.join(f'{name} {plain(value)}' for name, value in criteria.items())}"
    yield f"AICR        {plain(plan['aicr']['version'])}, image {_digest(plan['aicr']['imageDigest'], width)}"
    yield f"bundle      content {_digest(plan['bundleContentDigest'], width)}"
    yield f"validation  {plan['validation']}"
    yield f"written     {plain(plan['recorded']['createdAt'])} by resolve {plain(plan['recorded']['run'])}"


def _releases(releases: Iterable[Mapping[str, Any]], width: int | None) -> list[str]:
    heads = ("#", "release", "namespace", "kind", "chart", "version", "content", "manifest")
    rows = [
        (
            str(release["order"]),
            release["name"],
            release["namespace"],
            release["kind"],
            release["chart"]["name"],
            release["chart"]["version"],
            _digest(release["chart"]["contentDigest"], width, 8),
            _digest(release["chart"]["manifestDigest"], width, 8),
        )
        for release in releases
    ]
    return table(heads, rows, width)


def _comparison(comparison: Comparison, width: int | None) -> Iterator[str]:
    yield f"against     {comparison.before or 'nothing: a first install'}"
    for difference in comparison.plan:
        yield from difference_lines(difference, width)
    quiet = {Action.Unchanged, Action.Install}
    for change in comparison.releases:
        if change.action in quiet and not change.fields and not change.values:
            continue
        yield f"{change.action:<12}{change.release}{_versions(change)}"
        for difference in change.fields:
            yield from difference_lines(difference, width)
        for difference in change.values:
            yield from difference_lines(difference, width, "values: ")
    for action in (Action.Install, Action.Unchanged):
        names = [
            change.release
            for change in comparison.releases
            if change.action == action and not change.fields and not change.values
        ]
        if names:
            yield from _wrapped(f"{action:<12}", names, width)
    if any(change.action == REMOVE for change in comparison.releases):
        yield "            Remove: not in the plan any more. Nothing is deleted, so it stays installed."


def _versions(change: ReleaseChange) -> str:
    if change.from_version is None or change.to_version is None or change.from_version == change.to_version:
        return f"  {plain(change.to_version or change.from_version or '')}"
    return f"  {plain(change.from_version)} -> {plain(change.to_version)}"


def difference_lines(difference: Difference, width: int | None, prefix: str = "") -> Iterator[str]:
    """One line, or three where both sides do not fit into one."""
    wire = difference.wire()
    before, after = (_side(wire[side], width) if side in wire else None for side in ("before", "after"))
    where = f"  {plain(prefix + difference.path)}: "
    if before is None:
        yield f"{where}{after}  (new)"
    elif after is None:
        yield f"{where}{before}  (gone)"
    elif width is not None and len(where) + len(before) + len(after) + 4 > width:
        yield where.rstrip()
        yield f"    - {before}"
        yield f"    + {after}"
    else:
        yield f"{where}{before} -> {after}"


def _side(value: Any, width: int | None) -> str:
    if isinstance(value, str) and _DIGEST.fullmatch(value):
        return _digest(value, width)
    return shown(value)


def _rollout(rollout: Mapping[str, Any]) -> Iterator[str]:
    yield f"rollout     {rollout['name']} of cluster {plain(rollout['cluster'])}"
    yield f"created     {rollout['createdAt']}, deadline {rollout['deadline']}"
    yield from _outcome(rollout["outcome"])
    yield from _report(rollout["report"])
    request, decision = rollout["request"], rollout["decision"]
    if request:
        yield (
            f"asked       {plain(', '.join(request['asked']))} at {request['askedAt']}, "
            f"{request['minApprovals']} needed, request {request['digest']}"
        )
    if decision:
        yield (
            f"decision    {decision['decision']} by {plain(', '.join(decision['by']))} "
            f"({decision['identity']}) at {decision['at']}, until {decision['expiresAt']}"
        )
        yield f"reason      {plain(redact(decision['reason']))}"
    if rollout["evidence"]:
        yield f"evidence    {rollout['evidence']['key']}"
        yield f"            signed by {plain(str(rollout['evidence'].get('fingerprint')))}"
    for stall in rollout["stalls"]:
        error = plain(redact(str(stall.get("error") or "no error name")))
        yield f"stalled     {plain(str(stall.get('status')))} at {plain(str(stall.get('at')))}: {error}"
    yield ""


def _outcome(outcome: Mapping[str, Any] | None) -> Iterator[str]:
    if outcome is None:
        yield "outcome     none yet"
        return
    yield f"outcome     {outcome['outcome']} ({outcome['reason']}) at {plain(outcome['finishedAt'])}"
    yield f"            {plain(redact(outcome['message']))}"
    if outcome["notInstalled"]:
        yield f"            not installed: {plain(', '.join(outcome['notInstalled']))}"


def _report(report: Mapping[str, Any] | None) -> Iterator[str]:
    if report is None:
        yield "report      none yet"
    elif report["approvalNeeded"]:
        yield f"approval    needed: {plain('; '.join(report['approvalBecause']))}"
    else:
        yield "approval    not needed"


def _digest(digest: str, width: int | None, most: int = _SHORT) -> str:
    return digest if width is None else digest.removeprefix("sha256:")[:most]


def _wrapped(head: str, names: Iterable[str], width: int | None) -> Iterator[str]:
    line = head
    for name in names:
        if width is not None and len(line) + len(name) + 2 > width and line.strip() != head.strip():
            yield line.rstrip(" ")
            line = " " * len(head)
        line += f"{name}, "
    yield line.rstrip(", ")
