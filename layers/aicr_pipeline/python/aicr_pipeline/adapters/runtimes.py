"""The wish of a run: the exact version of the inbox object that started it."""

from aicr_pipeline.adapters.ledger import Inbox
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model import yaml
from aicr_pipeline.model.config import Aicr
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.runtime import RUNTIME_KEY, ClusterRuntime, Wish, parse_runtime

MOST_BYTES = 256 << 10


def require_current(inbox: Inbox, version: str) -> None:
    """Go on only with the wish that people have now.

    Raises
    ------
    PipelineError
        ``ResolveSuperseded`` when a newer version was submitted, or the runtime was deleted.
    """
    current = inbox.current_version(RUNTIME_KEY)
    if current == version:
        return
    now = f"version {current} was submitted, and has a run of its own" if current else "it was deleted"
    raise PipelineError(
        Reason.ResolveSuperseded, f"This run is for version {version} of {RUNTIME_KEY}; since then {now}."
    )


def read_runtime(inbox: Inbox, version: str) -> ClusterRuntime:
    """Read and parse one version of the runtime.

    Raises
    ------
    PipelineError
        ``Deleting`` when that version is gone, ``ContentTooLarge``, or ``InvalidRuntime`` with paths.
    """
    return parse_runtime(read_runtime_text(inbox, version))


def read_runtime_text(inbox: Inbox, version: str) -> bytes:
    """One version of the runtime as it was written. Raises as ``read_runtime`` does, before parsing."""
    found = inbox.read(RUNTIME_KEY, version, MOST_BYTES)
    if found is None:
        raise PipelineError(
            Reason.Deleting, f"Version {version} of {RUNTIME_KEY} was deleted; nothing is removed."
        )
    if found.size > MOST_BYTES:
        raise PipelineError(
            Reason.ContentTooLarge, f"{RUNTIME_KEY} has {found.size} bytes; a runtime may have {MOST_BYTES}."
        )
    return found.body


def standing_wish(inbox: Inbox) -> Wish:
    """What the current runtime says to a rollout that runs: that it was deleted, or is paused.

    A runtime with a mistake elsewhere pauses all the same: its resolve names the mistake, and to stop harms
    nothing. One that cannot be read says nothing.
    """
    version = inbox.current_version(RUNTIME_KEY)
    found = None if version is None else inbox.read(RUNTIME_KEY, version, MOST_BYTES)
    if found is None or found.size > MOST_BYTES:
        return Wish(version)
    try:
        document = yaml.load(found.body, Reason.InvalidRuntime, RUNTIME_KEY, most_bytes=MOST_BYTES)
    except PipelineError:
        return Wish(version)
    spec = document.get("spec") if isinstance(document, dict) else None
    return Wish(version, isinstance(spec, dict) and spec.get("paused") is True)


def pinned(runtime: ClusterRuntime, aicr: Aicr) -> Aicr:
    """The AICR to use: the runtime's own pin, else the configuration's."""
    own = runtime.spec.aicr
    return aicr if own is None else aicr.model_copy(update={"version": own.version, "image": own.image})
