"""A plan, a comparison and a rollout, told to people. All of it is also in the JSON, whole and typed."""

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from aicr_pipeline.decide.approval_message import guidance_lines
from aicr_pipeline.decide.assess import verdict_words
from aicr_pipeline.decide.compare_plans import REMOVE, Comparison, Difference, ReleaseChange
from aicr_pipeline.decide.redact import redact
from aicr_pipeline.decide.text_table import cut, plain, shown, table
from aicr_pipeline.model.plan import Plan
from aicr_pipeline.model.rollout import Action
from aicr_pipeline.model.upgrades import Guidance

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
    lines = [*_rollout(document["rollout"], width)] if document["rollout"] else []
    lines += [*_head(document["plan"], width), "", *_releases(document["plan"]["releases"], width)]
    if comparison is not None:
        lines += ["", *_comparison(comparison, width)]
    return lines


def _head(plan: Mapping[str, Any], width: int | None) -> Iterator[str]:
    criteria = plan["criteria"]
    active = "  (the active plan)" if plan.get("active") else ""
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
    return table(heads, rows, width, key=1)


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
        yield cut(f"{where}{after}", width and width - 7) + "  (new)"
    elif after is None:
        yield cut(f"{where}{before}", width and width - 8) + "  (gone)"
    elif width is not None and len(where) + len(before) + len(after) + 4 > width:
        yield where.rstrip()
        yield cut(f"    - {before}", width)
        yield cut(f"    + {after}", width)
    else:
        yield f"{where}{before} -> {after}"


def _side(value: Any, width: int | None) -> str:
    if isinstance(value, str) and _DIGEST.fullmatch(value):
        return _digest(value, width)
    return shown(value)


def _rollout(rollout: Mapping[str, Any], width: int | None) -> Iterator[str]:
    fields = [
        ("rollout", f"{rollout['name']} of cluster {rollout['cluster']}"),
        ("created", f"{rollout['createdAt']}, deadline {rollout['deadline']}"),
        *_outcome(rollout["outcome"]),
        ("approval", _needed(rollout["report"])),
        *_approval(rollout["request"], rollout["decision"], width),
        *_revoked(rollout["revocation"]),
        *_verdicts(rollout["report"]),
    ]
    for stall in rollout["stalls"]:
        error = redact(str(stall.get("error") or "no error name"))
        fields.append(("stalled", f"{stall.get('status')} at {stall.get('at')}: {error}"))
    for name, text in fields:
        yield from _wrapped(f"{name:<12}", plain(text).split(" "), width, " ")
    if rollout["evidence"]:
        yield f"evidence    signed by key {plain(str(rollout['evidence'].get('fingerprint')))}"
        yield f"  {rollout['evidence']['key']}"
        if rollout["evidence"].get("aicrSigned") is False:
            yield "  AICR's own evidence is unsigned: the registry's access control and its digest guard it"
    yield ""


def _outcome(outcome: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    if outcome is None:
        yield "outcome", "none yet"
        return
    yield "outcome", f"{outcome['outcome']} ({outcome['reason']}) at {outcome['finishedAt']}"
    yield "", redact(outcome["message"])
    begun = outcome.get("unfinished") or []
    if begun:
        yield "", f"begun, not seen ready: {', '.join(begun)}"
    if left := [name for name in outcome["notInstalled"] if name not in begun]:
        yield "", f"not installed: {', '.join(left)}"


def _needed(report: Mapping[str, Any] | None) -> str:
    if report is None:
        return "not assessed yet"
    return f"needed: {'; '.join(report['approvalBecause'])}" if report["approvalNeeded"] else "not needed"


def _approval(
    request: Mapping[str, Any] | None, decision: Mapping[str, Any] | None, width: int | None
) -> Iterator[tuple[str, str]]:
    if request:
        yield (
            "asked",
            f"{', '.join(request['asked'])} at {request['askedAt']}; {request['minApprovals']} must approve "
            f"request {_digest(request['digest'], width)}",
        )
    if decision:
        yield (
            "decision",
            f"{decision['decision']} by {', '.join(decision['by'])} ({decision['identity']}) "
            f"at {decision['at']}, until {decision['expiresAt']}",
        )
        yield "because", redact(decision["reason"])


def _verdicts(report: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    """Each component's verdict, and its record's own words where there is one. The rest stays installed."""
    for step in (report or {}).get("steps", ()):
        if step.get("verdict") and not step.get("withRelease"):
            reason = verdict_words(step.get("verdictReason") or "")
            stop = f"; go to {step['stopAt']} first" if step.get("stopAt") else ""
            yield "verdict", f"{step['release']}: {step['verdict']}, {reason}{stop}"
        if step.get("guidance"):
            guidance = Guidance.model_validate_json(json.dumps(step["guidance"]))
            yield from (("", redact(line)) for line in guidance_lines(guidance))
    removed = (report or {}).get("removed")
    if removed:
        yield "left", f"{', '.join(removed)}: not in the plan any more, and left installed"


def _revoked(revocation: Mapping[str, Any] | None) -> Iterator[tuple[str, str]]:
    if revocation:
        yield "revoked", f"by {revocation['by']} ({revocation['identity']}) at {revocation['at']}"
        yield "because", redact(revocation["reason"])


def _digest(digest: str, width: int | None, most: int = _SHORT) -> str:
    return digest if width is None else digest.removeprefix("sha256:")[:most]


def _wrapped(head: str, words: Iterable[str], width: int | None, between: str = ", ") -> Iterator[str]:
    """Words behind a head, on as many lines as they take; no word is cut."""
    line, empty = head, True
    for word in words:
        if width is not None and not empty and len(line) + len(between) + len(word) + 1 > width:
            yield f"{line}{between}".rstrip()
            line, empty = " " * len(head), True
        line += word if empty else f"{between}{word}"
        empty = False
    yield line
