"""With what the validation that counts was started: its attempt's repository, and AICR's signing key.

A Job is gone a day after its end, the configuration may be another by then, and the report alone does not
say which attempt wrote it. So it is written down beside the report, and before it.
"""

import json
from collections.abc import Mapping
from typing import Any

from aicr_pipeline.adapters.cluster import Json
from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.decide.aicr_job import signing_key_of
from aicr_pipeline.decide.canonical import sha256
from aicr_pipeline.model.rollout import Validated, validated_key


def keep_attempt(wanted: Mapping[str, Any], job: Json | None, report: bytes, ledger: Ledger) -> str:
    """Write down the attempt whose report this is, unless that is done; returns its repository.

    Parameters
    ----------
    job
        None when it is gone: then an earlier look wrote it down, or nobody knows better than the waiter.
    """
    named, digest = str(wanted["repository"]), sha256(report)
    if "rollout" not in wanted:
        return named  # registered by an earlier version
    rollout = str(wanted["rollout"])
    if job is None:
        return next((one.repository for one in _kept(ledger, rollout) if one.report == digest), named)
    # As the Job has it: it may have been started before the configuration that the waiter was made with.
    key = signing_key_of(job)
    made = Validated(
        rollout=rollout,
        repository=named,
        report=digest,
        signing_key=key,
        public_key=wanted.get("publicKey") if key == wanted.get("signingKey") else None,
    )
    ledger.put_once(validated_key(rollout, named), json.dumps(made.wire(), sort_keys=True).encode())
    return named


def load_attempt(ledger: Ledger, rollout: str, repository: str) -> Validated | None:
    """What an attempt was started with; None where an earlier version did not write it down."""
    text = ledger.get(validated_key(rollout, repository))
    return None if text is None else Validated.model_validate_json(text)


def _kept(ledger: Ledger, rollout: str) -> list[Validated]:
    folder = validated_key(rollout, "").removesuffix(".json")
    texts = [ledger.get(key) for key, _ in ledger.keys(folder)]
    return [Validated.model_validate_json(text) for text in texts if text is not None]
