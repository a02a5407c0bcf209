"""Upgrade records beside a bundle: ``UPGRADING.md`` as the real command writes it, and what it is made of.

``AICR_SAMPLE_UPGRADES`` names an ``upgrades.yaml`` (``docs/bundle-format.md``). The real command has its
records inside; it writes the guide only, and only for what the bundle's own versions need.
"""

from __future__ import annotations

import operator
import os
import re
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

from local.aicr.errors import AicrError, Code

UPGRADES_VARIABLE = "AICR_SAMPLE_UPGRADES"
DEPLOYER = "helm"
_NUMBER = re.compile("[0-9]+")
_COMPARATOR = re.compile(r"(<=|>=|<|>|=|)v?([0-9][^ ]*)")
_COMPARE: Mapping[str, Callable[[Any, Any], bool]] = {
    "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge, "=": operator.eq,
}  # fmt: skip
_HEAD = f"""# Before You Upgrade

This bundle was generated for the `{DEPLOYER}` deployer. The steps below apply only
when this bundle is applied over an existing installation of an earlier version.
A fresh install can skip this file.
"""


def upgrade_files(pins: Mapping[str, str]) -> dict[str, str]:
    """The files by name; none where nobody asked for records.

    Parameters
    ----------
    pins:
        Component to version, in the order of the bundle.

    Raises
    ------
    AicrError
        INTERNAL when the variable names a file that cannot be read.
    """
    named = os.environ.get(UPGRADES_VARIABLE)
    if not named:
        return {}
    try:
        text = Path(named).read_text()
        records = {entry["component"]: entry for entry in yaml.safe_load(text)["records"]}
    except (OSError, yaml.YAMLError, LookupError, TypeError) as error:
        raise AicrError(Code.INTERNAL, f"{UPGRADES_VARIABLE} names {named}: {type(error).__name__}") from None
    entries = "".join(
        line
        for component, pin in pins.items()
        if component in records
        for transition in records[component].get("transitions", [])
        if transition["verdict"] != "safe" and _holds(transition["to"], pin)
        for line in _entry(component, pin, transition)
    )
    return {"upgrades.yaml": text} | ({"UPGRADING.md": _HEAD + entries} if entries else {})


def _holds(target: str, pin: str) -> bool:
    """Whether a range holds a version; releases only, which is what the sample pins."""
    return all(
        _COMPARE[found[1] or "="](_numbers(pin), _numbers(found[2]))
        for found in _COMPARATOR.finditer(target.replace(",", " "))
    )


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(number) for number in _NUMBER.findall(version)[:3])


def _entry(component: str, pin: str, transition: Mapping[str, Any]) -> Iterator[str]:
    origin, target = transition["from"], transition["to"]
    yield f"\n## {component}: {transition['verdict']}\n\n"
    yield f"This bundle pins `{pin}`. Applies when upgrading from `{origin}` into `{target}`.\n\n"
    yield f"{_line(transition['summary'])}\n"
    if transition.get("precondition"):
        yield f"\n**Before you start:** {_line(transition['precondition'])}\n"
    if transition.get("reversible") is not None:
        notes = _line(transition.get("reversibleNotes", ""))
        yield f"\n**Reversible:** {'yes' if transition['reversible'] else 'no'}. {notes}".rstrip() + "\n"
    if transition["verdict"] == "blocked":
        yield f"\n**Blocked:** do not upgrade from `{origin}` into `{target}` in one step.\n"
    steps = _steps(transition)
    yield (
        f"\n**Steps for {DEPLOYER}:**\n\n"
        if steps
        else (f"\nNo steps are recorded for the `{DEPLOYER}` deployer; see the component's release notes.\n")
    )
    for number, step in enumerate(steps, 1):
        yield f"{number}. `{step['id']}`: {_line(step['description'])}"
        yield f"\\\n   *Why:* {_line(step['reason'])}\n" if step.get("reason") else "\n"
    if transition.get("references"):
        yield "\n**References:**\n\n" + "".join(f"- {found}\n" for found in transition["references"])


def _steps(transition: Mapping[str, Any]) -> list[dict[str, str]]:
    groups = transition.get("stepsByDeployer", [])
    own = [group["steps"] for group in groups if DEPLOYER in group.get("deployers", [])]
    rest = [group["steps"] for group in groups if "deployers" not in group]
    return next(iter([*own, *rest]), [])


def _line(text: str) -> str:
    return " ".join(text.split())
