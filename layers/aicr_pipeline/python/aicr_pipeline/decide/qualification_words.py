"""A qualification as a document for machines, and as lines for a terminal; the page prints the document."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from aicr_pipeline.decide.checking import Line
from aicr_pipeline.decide.qualification import Qualification, Standing, identities
from aicr_pipeline.model.qualification import PROFILES, ROWS, Profile
from aicr_pipeline.model.release import Release

_HEADS: Mapping[Standing, str] = {
    Standing.Qualified: "QUALIFIED",
    Standing.NotQualified: "NOT QUALIFIED",
    Standing.Stale: "STALE",
    Standing.Incomplete: "INCOMPLETE",
}


def document(
    found: Qualification, lines: Sequence[Line], fingerprints: Sequence[str], release: Release | None = None
) -> dict[str, Any]:
    """Everything that is told, in the support policy's words."""
    evidence, profile = found.evidence, found.profile
    return {
        "cluster": found.cluster,
        "standing": str(found.standing),
        "code": found.code,
        "because": found.because,
        "keys": list(fingerprints),
        "profile": profile.name if profile else None,
        "profiles": [
            {
                "name": one.name,
                "recipe": one.recipe,
                "standing": _standing(found) if one is profile else one.standing,
                "released": _released(one, release),
            }
            for one in PROFILES
        ],
        "evidence": {
            "key": evidence.key,
            "identities": [{"part": part, "is": value} for part, value in identities(evidence.binding)],
        }
        if evidence
        else None,
        "differences": [
            {
                "row": str(one.row),
                "change": ROWS[one.row].change,
                "effect": ROWS[one.row].effect,
                "part": one.part,
                "qualified": one.qualified,
                "now": one.now,
            }
            for one in found.differences
        ],
        "unknown": list(found.unknown),
        "ignored": [{"key": left.key, "why": left.why} for left in found.ignored],
        "checks": [
            {"part": line.part, "against": line.against, "state": line.state, "detail": line.detail}
            for line in lines
        ],
    }


def _standing(found: Qualification) -> str:
    if found.evidence is None:
        return found.profile.standing if found.profile else ""
    words = {
        Standing.Qualified: "Qualified: what runs is what the evidence covers",
        Standing.Stale: "Stale: what runs is not what was qualified",
        Standing.Incomplete: "Incomplete: not all that runs is known",
    }
    return words[found.standing]


def _released(profile: Profile, release: Release | None) -> list[str]:
    """What the release says was qualified with it. It is the publisher's word; the evidence is the proof."""
    if release is None:
        return []
    return [
        f"qualified with release {release.version}: evidence {one.evidence}, {one.published}"
        for one in release.qualified_profiles
        if one.recipe == profile.recipe
    ]


def told(made: Mapping[str, Any]) -> list[str]:
    """The document as lines."""
    head = _HEADS[Standing(made["standing"])]
    lines = [f"cluster {made['cluster'] or '(unknown)'}: {head}: {made['because']}", ""]
    for one in made["profiles"]:
        mark = "->" if one["name"] == made["profile"] else "  "
        lines.append(f"{mark} {one['name']} ({one['recipe'] or 'no recipe'})")
        lines += [f"     {words}" for words in (one["standing"], *one["released"])]
    lines += ["", *_evidence(made), *_differences(made)]
    lines += [f"unknown     {one}" for one in made["unknown"]]
    for left in made["ignored"]:
        lines += [f"ignored     {left['key']}", f"            {left['why']}"]
    if made.get("older"):
        lines.append(f"older       the evidence of {made['older']} rollouts before was not looked at")
    if made["checks"]:
        lines += ["", "checking what runs"]
        lines += [_check(one) for one in made["checks"]]
    return [*lines, "", head]


def _evidence(made: Mapping[str, Any]) -> Iterable[str]:
    evidence = made["evidence"]
    if evidence is None:
        yield "evidence    none counts"
        return
    yield f"evidence    {evidence['key']}"
    for one in evidence["identities"]:
        yield f"  covers    {one['part']}: {one['is']}"


def _differences(made: Mapping[str, Any]) -> Iterable[str]:
    before = None
    for one in made["differences"]:
        if one["row"] != before:
            yield f"stale       {one['change']}"
            yield f"            {one['effect']}"
            before = one["row"]
        yield f"  {one['part']}: {one['qualified']} qualified, {one['now']} now"


def _check(one: Mapping[str, str]) -> str:
    return f"{one['state']:8}{one['part']}, against the {one['against']}: {one['detail']}"
