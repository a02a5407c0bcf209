"""The signed routes' real handler on moto's S3: who may do what, and what is recorded."""

from __future__ import annotations

import base64
import io
import json
import logging
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import timedelta
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from aicr_pipeline import wiring
from aicr_pipeline.model.plan import plan_key
from moto import mock_aws

from tests.functional.approvals.support import (
    BASE_URL,
    BUCKET,
    CONTEXT,
    REGION,
    ROOT,
    Waiting,
    config,
    forget,
    load_handler,
    make_stores,
    plan,
    release,
    seed,
    settings,
)

ACCOUNT = "111122223333"
ALEX, KIM = f"arn:aws:iam::{ACCOUNT}:user/alex", f"arn:aws:iam::{ACCOUNT}:role/kim"
#: As they come in a request.
AS_ALEX, AS_KIM = ALEX, f"arn:aws:sts::{ACCOUNT}:assumed-role/kim/any-name"
STRANGER = f"arn:aws:iam::{ACCOUNT}:user/robin"
APPROVERS = [{"name": "alex", "iam": ALEX}, {"name": "kim", "iam": KIM}]
OTHER = plan(release("cert-manager", "v1.17.2", {}))
RUNTIME = (ROOT / "local/samples/clusterruntime.yaml").read_bytes()


@dataclass
class Api:
    """The handler behind API Gateway."""

    s3: Any
    module: ModuleType
    logs: io.StringIO

    def ask(self, who: str | None, method: str, path: str, body: bytes = b"") -> tuple[int, Any]:
        context: dict[str, Any] = {
            "http": {"method": method, "path": path},
            "requestId": "r",
            "stage": "$default",
        }
        if who is not None:
            context["authorizer"] = {"iam": {"userArn": who, "userId": "AROAEXAMPLEID:any-name"}}
        event = {
            "version": "2.0", "routeKey": f"{method} /operators", "rawPath": path, "rawQueryString": "",
            "headers": {"content-type": "application/json"}, "requestContext": context,
            "isBase64Encoded": True, "body": base64.b64encode(body).decode(),
        }  # fmt: skip
        answer = self.module.handler(event, CONTEXT)
        return answer["statusCode"], json.loads(answer["body"])

    def decide(
        self, who: str | None, waiting: Waiting, decision: str = "Approved", **changes: Any
    ) -> tuple[int, Any]:
        wish = {"decision": decision, "reason": "Looks right", "digest": waiting.request.digest, **changes}
        body = json.dumps({name: value for name, value in wish.items() if value is not None})
        return self.ask(who, "POST", f"/operators/rollouts/{waiting.name}/decision", body.encode())


@pytest.fixture
def configuration() -> dict[str, Any]:
    return config(approvers=APPROVERS)


@pytest.fixture
def api(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, configuration: dict[str, Any]) -> Iterator[Api]:
    with mock_aws():
        monkeypatch.delenv("AWS_ENDPOINT_URL", raising=False)
        monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
        monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
        s3, secret_arn = make_stores()
        s3.create_bucket(Bucket="inbox", CreateBucketConfiguration={"LocationConstraint": REGION})
        s3.put_bucket_versioning(Bucket="inbox", VersioningConfiguration={"Status": "Enabled"})
        for name, value in settings(tmp_path, BASE_URL, secret_arn, configuration).items():
            monkeypatch.setenv(name, value)
        monkeypatch.setenv("INBOX_BUCKET", "inbox")
        forget()
        wiring.inbox.cache_clear()
        module = load_handler("serve_operators")
        logs = io.StringIO()
        catcher = logging.StreamHandler(logs)
        catcher.setFormatter(module.logger.registered_formatter)
        module.logger.addHandler(catcher)
        yield Api(s3, module, logs)
        module.logger.removeHandler(catcher)
        forget()
        wiring.inbox.cache_clear()


@pytest.fixture
def waiting(api: Api) -> Waiting:
    return seed(api.s3)


def test_describe_shows_what_is_asked_and_changes_nothing(api: Api, waiting: Waiting) -> None:
    before = waiting.everything()
    status, told = api.ask(STRANGER, "GET", f"/operators/rollouts/{waiting.name}")
    assert status == 200
    assert (told["state"], told["digest"]) == ("open", waiting.request.digest)
    assert told["you"] == {"principal": STRANGER, "approver": None, "mayApprove": False}
    assert told["fourEyes"] == {"enforced": False, "because": "the submitter is unknown"}
    assert any("Submitter unknown" in warning for warning in told["warnings"])
    status, listed = api.ask(AS_KIM, "GET", "/operators/rollouts")
    assert status == 200
    assert [(one["rollout"], one["state"]) for one in listed["rollouts"]] == [(waiting.name, "open")]
    assert waiting.everything() == before


def test_an_approval_is_recorded_with_role_and_account(api: Api, waiting: Waiting) -> None:
    status, told = api.decide(AS_KIM, waiting, expiry="1h")
    assert (status, told["status"], told["state"]) == (200, "recorded", "approved")
    decision = waiting.read("decision")
    assert decision is not None
    assert (decision["by"], decision["identity"], decision["issuer"]) == (
        ["kim"],
        "aws-iam",
        f"aws:{ACCOUNT}",
    )
    assert decision["principals"] == [KIM], "not the session's name"
    assert decision["expiresAt"] < waiting.request.deadline
    assert api.decide(AS_KIM, waiting)[0] == 200, "the same again is no fault"
    assert api.decide(AS_ALEX, waiting, "Rejected")[0] == 409
    assert waiting.read("decision") == decision
    assert "any-name" not in api.logs.getvalue()
    assert "Looks right" not in api.logs.getvalue()


@pytest.mark.parametrize(
    "who", [None, "", STRANGER, f"arn:aws:iam::{ACCOUNT}:root", "arn:aws:iam::999999999999:role/kim"]
)
@pytest.mark.parametrize("decision", ["Approved", "Rejected", "Revoked"])
def test_only_approvers_decide(api: Api, waiting: Waiting, who: str | None, decision: str) -> None:
    before = waiting.everything()
    assert api.decide(who, waiting, decision)[0] == 403
    assert waiting.everything() == before


def test_an_approver_who_was_not_asked_does_not_decide(api: Api) -> None:
    waiting = seed(api.s3, asked=("alex",))
    for word in ("Approved", "Rejected"):
        assert api.decide(AS_KIM, waiting, word)[0] == 403
    assert waiting.read("decision") is None
    assert api.decide(AS_KIM, waiting, "Revoked")[0] == 200, "any approver may stop it"


@pytest.mark.parametrize(
    ("changes", "status"),
    [
        ({"digest": "sha256:" + "1" * 64}, 409),
        ({"digest": None}, 409),
        ({"digest": "no digest"}, 400),
        ({"decision": "Maybe"}, 400),
        ({"more": 1}, 400),
        ({"reason": ""}, 422),
        ({"reason": "x" * 1025}, 422),
        ({"reason": "a\x1b[2J"}, 422),
        ({"expiry": "-1h"}, 422),
        ({"expiry": "30d"}, 422),
    ],
)
def test_what_is_not_right_changes_nothing(
    api: Api, waiting: Waiting, changes: dict[str, Any], status: int
) -> None:
    before = waiting.everything()
    answer = api.decide(AS_ALEX, waiting, **{"decision": "Approved", **changes})
    assert answer[0] == status
    assert answer[1]["message"]
    assert waiting.everything() == before


def test_too_late_is_410(api: Api) -> None:
    waiting = seed(api.s3, left=timedelta(seconds=-5))
    assert api.decide(AS_ALEX, waiting)[0] == 410
    assert waiting.read("decision") is None


def test_an_approval_is_revoked_until_the_outcome(api: Api, waiting: Waiting) -> None:
    assert api.decide(AS_ALEX, waiting)[0] == 200
    status, told = api.decide(AS_KIM, waiting, "Revoked", digest=None)
    assert (status, told["state"]) == (200, "revoked")
    revocation = waiting.read("revocation")
    assert revocation is not None
    assert (revocation["by"], revocation["identity"], revocation["principal"]) == ("kim", "aws-iam", KIM)
    assert api.decide(AS_KIM, waiting, "Revoked", digest=None)[0] == 200
    assert api.decide(AS_ALEX, waiting, "Revoked", digest=None)[0] == 409


def test_nothing_is_revoked_after_the_outcome(api: Api, waiting: Waiting) -> None:
    waiting.end("Succeeded", "RolledOut", "done")
    assert api.decide(AS_ALEX, waiting, "Revoked")[0] == 409
    assert waiting.read("revocation") is None


@pytest.mark.parametrize("configuration", [config(approvers=APPROVERS, minApprovals=2)])
def test_two_people_make_a_quorum_and_one_person_does_not(api: Api) -> None:
    waiting = seed(api.s3, min_approvals=2)
    assert api.decide(AS_KIM, waiting)[1]["state"] == "awaiting-others"
    other_session = AS_KIM.replace("any-name", "another-name")
    assert api.decide(other_session, waiting)[1]["state"] == "awaiting-others", "the role is the person"
    assert waiting.read("decision") is None
    assert api.decide(AS_ALEX, waiting)[1]["state"] == "approved"
    decision = waiting.read("decision")
    assert decision is not None
    assert set(decision["by"]) == {"alex", "kim"}


def test_the_submitter_may_reject_but_not_approve(api: Api, waiting: Waiting) -> None:
    waiting.put("rollout", waiting.rollout.model_copy(update={"submitter": KIM}))
    status, told = api.decide(AS_KIM, waiting)
    assert status == 403
    assert "submitted this runtime" in told["message"]
    assert waiting.read("decision") is None
    described = api.ask(AS_ALEX, "GET", f"/operators/rollouts/{waiting.name}")[1]
    assert described["fourEyes"] == {"enforced": True, "because": None}
    assert described["you"]["mayApprove"]
    assert api.decide(AS_KIM, waiting, "Rejected")[0] == 200


def test_a_submission_is_bound_to_its_version(api: Api) -> None:
    status, told = api.ask(AS_KIM, "POST", "/operators/runtime", RUNTIME)
    assert (status, told["submitter"]) == (202, KIM)
    head = api.s3.head_object(Bucket="inbox", Key="runtimes/cluster.yaml")
    assert head["VersionId"] == told["runtimeVersion"]
    record = json.loads(
        api.s3.get_object(Bucket=BUCKET, Key=f"runtimes/{told['runtimeVersion']}.json")["Body"].read()
    )
    assert (record["submitter"], record["submitterId"]) == (KIM, "AROAEXAMPLEID")
    assert api.s3.get_object(Bucket="inbox", Key="runtimes/cluster.yaml")["Body"].read() == RUNTIME


@pytest.mark.parametrize(
    ("body", "status", "words"),
    [
        (RUNTIME.replace(b"kind: ClusterRuntime", b"kind: Other"), 400, "kind"),
        (RUNTIME + b"\nmore: 1\n", 400, "more: unknown field"),
        (b"", 400, "mapping"),
        (b"\xff", 400, "clusterruntime.yaml"),
        (b"a: [", 400, "clusterruntime.yaml"),
        (b"#" * (256 * 1024 + 1), 413, "bytes"),
    ],
)
def test_a_bad_runtime_is_told_at_once_and_changes_nothing(
    api: Api, body: bytes, status: int, words: str
) -> None:
    answer = api.ask(AS_KIM, "POST", "/operators/runtime", body)
    assert answer[0] == status
    assert words in answer[1]["message"]
    assert api.s3.list_object_versions(Bucket="inbox").get("Versions", []) == []
    assert api.s3.list_objects_v2(Bucket=BUCKET)["KeyCount"] == 0


def test_without_an_authorizer_nobody_submits_or_reads(api: Api, waiting: Waiting) -> None:
    assert api.ask(None, "POST", "/operators/runtime", RUNTIME)[0] == 403
    assert api.ask(None, "GET", "/operators/rollouts")[0] == 403
    assert api.ask(None, "GET", f"/operators/rollouts/{waiting.name}")[0] == 403
    assert api.ask(AS_KIM, "GET", "/operators/rollouts/no-such-1")[0] == 404
    assert api.ask(AS_KIM, "GET", "/operators/rollouts/..%2fx")[0] == 404


UNREADABLE = {
    "report": lambda w: f"rollouts/{w.name}/report.json",
    "request": lambda w: f"rollouts/{w.name}/request.json",
    "rollout": lambda w: f"rollouts/{w.name}/rollout.json",
    "plan": lambda w: plan_key(w.report.to_plan),
}


@pytest.mark.parametrize("record", sorted(UNREADABLE))
def test_a_record_that_cannot_be_read_hides_no_other_rollout(api: Api, waiting: Waiting, record: str) -> None:
    bad = seed(api.s3, cluster="bad", new=OTHER)
    api.s3.put_object(Bucket=BUCKET, Key=UNREADABLE[record](bad), Body=b'{"of": "a later version"}')
    status, told = api.ask(AS_ALEX, "GET", "/operators/rollouts")
    states = {one["rollout"]: one["state"] for one in told["rollouts"]}
    assert (status, states[waiting.name]) == (200, "open")
    assert states[bad.name] == ("open" if record == "plan" else "unreadable"), "a list reads no plans"
    before = bad.everything()
    for answer in (
        api.ask(AS_ALEX, "GET", f"/operators/rollouts/{bad.name}"),
        *(api.decide(AS_ALEX, bad, word) for word in ("Approved", "Rejected", "Revoked")),
    ):
        assert (answer[0], answer[1]["status"], answer[1]["reason"]) == (500, "refused", "PlanUnreadable")
        assert answer[1]["message"]
    assert bad.everything() == before and "Traceback" not in api.logs.getvalue()
