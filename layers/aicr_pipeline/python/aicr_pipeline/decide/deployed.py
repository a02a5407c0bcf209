"""Whether one and the same pipeline ran a rollout from its beginning to its evidence.

The machines call functions by name, so a deploy while a rollout waits gives the rest of it other code. What
is deployed is written down at the start and at each step, and held against what binds.
"""

from collections.abc import Iterable

from aicr_pipeline.decide.canonical import digest
from aicr_pipeline.model.evidence import BoundPipeline
from aicr_pipeline.model.rollout import Deployed

ANEW = "the pipeline was deployed anew during the rollout"
NOT_RECORDED = "what was deployed during the rollout is not recorded"


def deployed_digest(pipeline: BoundPipeline) -> str:
    """``sha256:<hex>`` of what is deployed, as canonical JSON: of the statement's ``pipeline``, too."""
    return digest(pipeline.wire(), "what is deployed")


def deployed_problem(now: BoundPipeline, start: Deployed | None, steps: Iterable[str | None]) -> str | None:
    """Why nobody may say that ``now`` is what ran; None when it is.

    Parameters
    ----------
    now:
        What is deployed while the evidence is bound.
    start:
        The rollout's ``deployed.json``; None where there is none.
    steps:
        Of each step of the rollout, the digest in its record; None where there is none.
    """
    seen = [start.pipeline if start is not None else None, *steps]
    if any(found is not None and found != deployed_digest(now) for found in seen):
        return ANEW
    return NOT_RECORDED if None in seen else None
