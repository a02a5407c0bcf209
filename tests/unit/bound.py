"""The facts of a rollout that a statement binds, sealed with the key of the tests, and how that verifies."""

from __future__ import annotations

import json
from typing import Any

from aicr_pipeline.decide.dsse import envelope, fingerprint, pae_digest
from aicr_pipeline.decide.evidence import Bound, statement
from aicr_pipeline.decide.verify import Verdict, verify
from aicr_pipeline.model.evidence import PAYLOAD_TYPE, BoundAicrEvidence, BoundValidation
from aicr_pipeline.model.rollout import Deployed, Rollout

from tests.unit.samples import (
    ASSETS,
    DEPLOYED,
    TUPLE,
    VALIDATOR,
    VALIDATORS,
    config,
    decision,
    plan,
    release,
    request,
    sha,
)
from tests.unit.test_dsse import DER, sign

PINNED = {"validatorImages": [f"{VALIDATOR}@{sha('validator')}"]}
PLAN = plan(release("gpu-operator"), release("gpu-operator-readiness", kind="wrapper"), **PINNED)
BEGAN = Deployed(
    rollout="demo-12345678-1", pipeline=DEPLOYED, development=False, at="2026-01-01T00:00:00.000Z"
)
PLAN_TEXT = json.dumps(PLAN.wire(), sort_keys=True, separators=(",", ":")).encode()
DOCUMENTS = {f"rollouts/demo-12345678-1/{name}.json": sha(name) for name in ("deployed", "report")}
REFERENCE = "oci://registry.example.com/demo/evidence/demo-12345678-1-1@"
BOUND = Bound(
    config=config(),
    rollout=Rollout(
        name="demo-12345678-1",
        cluster="demo",
        to_plan=PLAN.desired_state_digest,
        number=1,
        created_at="2026-01-01T00:00:00.000Z",
        deadline="2026-01-02T00:00:00.000Z",
        runtime_version="v1",
    ),
    plan=PLAN,
    decision=decision(),
    request=request(identity_reason="hardware-tokens-guard-the-mailbox"),
    validation=BoundValidation(mode="Required", tests=2, passed=2, report_digest=sha("report")),
    aicr_evidence=BoundAicrEvidence(reference=REFERENCE + sha("e"), digest=sha("e"), signed=False),
    post_install_snapshot_digest=sha("post"),
    execution="demo-12345678-1",
    machine_version="7",
    pipeline=ASSETS,
    local_engine=False,
    bound_at="2026-01-01T10:00:00.000Z",
    validators=VALIDATORS,
    tuple_=TUPLE,
    decision_digest=sha("decision"),
    deployed=BEGAN,
    steps=(DEPLOYED, DEPLOYED),
    documents=DOCUMENTS,
)
DISABLED = BoundValidation(mode="Disabled")
UNVALIDATED = plan(*PLAN.desired_state.releases, **PINNED, **{"validation": "Disabled"})


def seal(text: bytes, kind: str = PAYLOAD_TYPE) -> bytes:
    return envelope(kind, text, fingerprint(DER), sign(pae_digest(kind, text)))


TEXT = statement(BOUND)
SEALED = seal(TEXT)


def look(sealed: bytes = SEALED, key: bytes = DER, text: bytes | None = PLAN_TEXT, **more: Any) -> Verdict:
    return verify(sealed, key, text, require_qualifying=more.get("require_qualifying", False))


def failed(verdict: Verdict) -> str:
    return next((check.name for check in verdict.checks if check.ok is False), "")


def changed(path: str, value: Any) -> bytes:
    document = json.loads(TEXT)
    *before, last = path.split(".")
    inner = document
    for part in before:
        inner = inner[int(part)] if isinstance(inner, list) else inner[part]
    inner[int(last) if isinstance(inner, list) else last] = value
    return seal(json.dumps(document).encode())
