"""Upgrade records as a plan carries them: what somebody wrote about moving a component between versions."""

from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from aicr_pipeline.model.base import Document

Prose = Annotated[str, StringConstraints(min_length=1, max_length=4096)]


class Instruction(Document):
    """One thing to do, as the record has it."""

    id: Annotated[str, StringConstraints(min_length=1, max_length=128)]
    description: Prose
    reason: Prose | None = None


class Guidance(Document):
    """What a record says about one boundary, in its own words."""

    #: Ranges of versions: whom it was written for, and where it leads.
    applies_from: str
    applies_to: str
    summary: Prose
    precondition: Prose | None = None
    reversible: bool | None = None
    reversible_notes: Prose | None = None
    verified_by: Prose | None = None
    #: Whose steps these are: AICR writes others for each of its deployers.
    deployer: str
    steps: Annotated[tuple[Instruction, ...], Field(max_length=50)] = ()
    references: Annotated[tuple[Prose, ...], Field(max_length=50)] = ()


class Boundary(Document):
    """One recorded boundary. ``unknown`` and ``unversioned`` are never written, only found."""

    verdict: Literal["safe", "manual", "blocked"]
    guidance: Guidance


class ComponentRecord(Document):
    """Everything that is recorded about one component."""

    component: str
    source: Literal["upgrades.yaml", "UPGRADING.md"]
    boundaries: tuple[Boundary, ...]
