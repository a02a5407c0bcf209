"""Runtimes that came through the API, and who submitted them."""

import json
from datetime import datetime

from aicr_pipeline.adapters.ledger import Inbox, Ledger
from aicr_pipeline.clock import rfc3339
from aicr_pipeline.decide.canonical import sha256
from aicr_pipeline.decide.people import UNKNOWN
from aicr_pipeline.model.base import parse
from aicr_pipeline.model.operators import Submission, submission_key
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.runtime import RUNTIME_KEY


def submit(inbox: Inbox, ledger: Ledger, text: bytes, who: str, who_id: str, now: datetime) -> Submission:
    """Put a runtime that was checked into the inbox, and record who did it.

    The record names the version that S3 gave, so it comes second. Should it fail, the caller is told, and the
    version counts as one of an unknown submitter.
    """
    version = inbox.write(RUNTIME_KEY, text, "application/yaml")
    made = Submission(
        runtime_version=version,
        runtime_digest=sha256(text),
        submitter=who,
        submitter_id=who_id,
        at=rfc3339(now),
    )
    ledger.put_once(submission_key(version), json.dumps(made.wire(), sort_keys=True).encode())
    return made


def submitter_of(ledger: Ledger, version: str) -> str:
    """The principal who submitted a version; ``unknown`` when it did not come through the API."""
    key = submission_key(version)
    document = ledger.get_json(key)
    return UNKNOWN if document is None else parse(Submission, document, Reason.PlanUnreadable, key).submitter
