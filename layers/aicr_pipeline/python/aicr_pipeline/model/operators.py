"""What operators send over the signed routes, and who submitted a runtime."""

from typing import Annotated, Literal

from pydantic import StringConstraints

from aicr_pipeline.model.base import Document
from aicr_pipeline.model.plan import Digest, ReleaseName


class DecisionRequest(Document):
    """An answer to exactly the question that ``digest`` names, the wish that a rollout stops, or that the
    work was done which a manual step of ``release`` waits for."""

    decision: Literal["Approved", "Rejected", "Revoked", "Acknowledged"]
    reason: Annotated[str, StringConstraints(max_length=4096)]
    expiry: Annotated[str, StringConstraints(max_length=32)] = ""
    digest: Digest | None = None
    release: ReleaseName | None = None


class Submission(Document):
    """``runtimes/<version>.json``: who submitted this version of the inbox object.

    Only the function behind the signed routes may write it, and only once; what stands in the inbox itself
    can be written by whoever may put objects there.
    """

    runtime_version: str
    runtime_digest: Digest
    submitter: str
    #: The stable id of the user or role: a name can be given to somebody else later.
    submitter_id: str
    at: str


def submission_key(version: str) -> str:
    """``runtimes/<version>.json``. S3's version ids are made of letters, digits, ``.``, ``_`` and ``-``."""
    return f"runtimes/{version}.json"
