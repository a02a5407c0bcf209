"""What a state hands to its function: a few pointers, never a document."""

from typing import Any

from pydantic import ConfigDict, Field

from aicr_pipeline.model.base import Document


class StepEvent(Document):
    """Payload of every Task. ``token`` is there for states that wait, ``item`` inside a Map."""

    # A validation error must not repeat its input: the token is in it.
    model_config = ConfigDict(extra="ignore", strict=False, hide_input_in_errors=True)

    state: str
    execution: str
    machine_version: str = "unknown"
    #: Of the definition: which reasons it catches. The first one did not say.
    generation: int = 1
    entered_at: str
    retries: int = 0
    redrives: int = 0
    input: dict[str, Any] = Field(default_factory=dict)
    token: str | None = None
    item: dict[str, Any] | None = None

    @property
    def order(self) -> str:
        """Tells a newer token of the same state from an older one."""
        return f"{self.redrives:04d}#{self.entered_at}#{self.retries:04d}"

    @property
    def waiter_id(self) -> str:
        """Derived from execution, state and item, so that a retry finds the row of the try before."""
        release = (self.item or {}).get("release", "")
        return f"{self.execution}/{self.state.lower().replace(' ', '_')}/{release}".rstrip("/")

    def __repr__(self) -> str:
        """Without the token: it must reach no log."""
        return f"StepEvent({self.state!r}, {self.execution!r})"

    __str__ = __repr__
