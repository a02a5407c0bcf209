"""``UPGRADING.md`` as AICR writes it beside a bundle (its ``pkg/upgrade``; "Upgrade guidance in the bundle").

AICR promises the file's name, not its words. So what decides is read strictly (which component, which
verdict, from where into where) and refused when it is not understood; the words around it are only carried.
"""

import re
from collections.abc import Iterator
from typing import Any, Literal

from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.base import parse
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.upgrades import Boundary, Guidance

_DEPLOYER = re.compile(r"This bundle was generated for the `([a-z][a-z-]{0,30})` deployer\.")
_HEADING = re.compile(r"## ([a-z0-9][a-z0-9.-]{0,127}): (manual|blocked)")
_APPLIES = re.compile(
    r"This bundle pins `[^`]{1,128}`\. Applies when upgrading from `([^`]{1,200})` into `([^`]{1,200})`\."
)
_STEP = re.compile(r"[0-9]{1,3}\. `([^`]{1,128})`: (.+)", re.DOTALL)
_WHY = re.compile(r"\\?\n\s*\*Why:\*\s*")
_REVERSIBLE = re.compile(r"\*\*Reversible:\*\* (yes|no)\.?\s*(.*)", re.DOTALL)
_BEFORE = "**Before you start:**"
_MOST_ENTRIES = 500


def read_guide(text: str) -> list[tuple[str, Boundary]]:
    """The entries of the guide, in order: component and boundary. Most have one for a component.

    Raises
    ------
    ValueError
        Naming what is not as AICR writes it.
    """
    head, *sections = re.split(r"^(?=## )", text.replace("\r\n", "\n"), flags=re.MULTILINE)
    deployer = _DEPLOYER.search(" ".join(head.split()))
    if not head.startswith("# Before You Upgrade\n") or deployer is None:
        raise ValueError("it does not begin as AICR's guide does, with the deployer it is for")
    if not 0 < len(sections) <= _MOST_ENTRIES:
        raise ValueError(f"it has {len(sections)} entries")
    return [_entry(section, deployer[1]) for section in sections]


def _entry(section: str, deployer: str) -> tuple[str, Boundary]:
    first, _, rest = section.partition("\n")
    heading = _HEADING.fullmatch(first.strip())
    if heading is None:
        raise ValueError(f"{first.strip()[:120]!r} is no heading of a component and manual or blocked")
    component = heading[1]
    verdict: Literal["manual", "blocked"] = "manual" if heading[2] == "manual" else "blocked"
    paragraphs = [part.strip() for part in re.split(r"\n[ \t]*\n", rest) if part.strip()]
    applies = _APPLIES.fullmatch(" ".join(paragraphs[0].split())) if paragraphs else None
    if applies is None:
        raise ValueError(f"the entry of {component} does not say from where into where it applies")
    found: dict[str, Any] = dict(_words(paragraphs[1:]))
    guidance = {"appliesFrom": applies[1], "appliesTo": applies[2], "deployer": deployer, **found}
    try:
        made = parse(Guidance, guidance, Reason.BundleInvalid, f"the entry of {component}")
    except PipelineError as error:
        raise ValueError(error.message.rstrip(".")) from None
    return component, Boundary(verdict=verdict, guidance=made)


def _words(paragraphs: list[str]) -> Iterator[tuple[str, Any]]:
    """The prose by what it is; what is not known is part of the summary, so that no word is lost."""
    summary: list[str] = []
    for paragraph in paragraphs:
        reversible = _REVERSIBLE.fullmatch(paragraph)
        if paragraph.startswith(_BEFORE):
            yield "precondition", paragraph.removeprefix(_BEFORE).strip()
        elif reversible:
            yield "reversible", reversible[1] == "yes"
            if reversible[2]:
                yield "reversibleNotes", reversible[2]
        elif _STEP.match(paragraph):
            yield "steps", [_step(item) for item in re.split(r"\n(?=[0-9]{1,3}\. )", paragraph)]
        elif paragraph.startswith("- ") and all(line.startswith("- ") for line in paragraph.split("\n")):
            yield "references", [line[2:].strip() for line in paragraph.split("\n")]
        elif not paragraph.startswith(("**Steps for ", "**References:**")):
            summary.append(paragraph)
    yield "summary", "\n\n".join(summary)


def _step(item: str) -> dict[str, str]:
    match = _STEP.fullmatch(item)
    if match is None:
        raise ValueError(f"{item[:120]!r} is no step")
    description, *why = _WHY.split(match[2], maxsplit=1)
    made = {"id": match[1], "description": description.strip()}
    return {**made, "reason": why[0].strip()} if why else made
