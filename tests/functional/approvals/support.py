"""A ledger with one rollout that waits for approval, and events as API Gateway sends them."""

from __future__ import annotations

import base64
import importlib.util
import json
import sys
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any
from urllib.parse import urlencode

import boto3
from aicr_pipeline import env, wiring
from aicr_pipeline.adapters import aws
from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.adapters.order import newest_place, take_place
from aicr_pipeline.clock import rfc3339
from aicr_pipeline.decide.approval import link_secret
from aicr_pipeline.decide.assess import assess, request_digest
from aicr_pipeline.decide.names import execution_name, short_name
from aicr_pipeline.decide.plan import desired_state_digest
from aicr_pipeline.model.plan import (
    DesiredState,
    Plan,
    PlannedAicr,
    PlannedChart,
    PlannedCriteria,
    PlannedRelease,
    Recorded,
    plan_key,
)
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import (
    ApprovalRequest,
    Decision,
    Report,
    Rollout,
    RolloutOutcome,
    StepHeld,
    StepStarted,
    hold_key,
    rollout_key,
    step_key,
)
from aicr_pipeline.model.runtime import NodeGroup, Placement

from tests.unit.upgrades import boundary, record

ROOT = Path(__file__).parents[3]
BUCKET = "ledger"
REGION = "us-west-2"
KEY = "k" * 64
BASE_URL = "https://a1b2c3d4e5.execute-api.us-west-2.amazonaws.com"
DIGEST = "sha256:" + "0" * 64


def config(**approvals: Any) -> dict[str, Any]:
    """A cluster's configuration as its layer holds it."""
    return {
        "cluster": {"name": "demo", "region": REGION, "account": "111122223333"},
        "registry": {"repository": "oci://111122223333.dkr.ecr.us-west-2.amazonaws.com/aicr/demo"},
        "aicr": {"image": f"ghcr.io/nvidia/aicr@{DIGEST}", "version": "v1.1.2"},
        "namespaces": {"components": [{"name": "gpu-operator"}]},
        "approvals": {"identity": "link", "approvers": [{"name": "alex"}, {"name": "kim"}], **approvals},
        "development": True,
    }


def release(name: str, version: str, values: dict[str, Any], namespace: str | None = None) -> PlannedRelease:
    """A release of a plan."""
    chart = PlannedChart(name=name, version=version, content_digest=DIGEST, manifest_digest=DIGEST)
    return PlannedRelease(
        name=name,
        component=name.removesuffix("-readiness"),
        namespace=namespace or name,
        kind="chart",
        chart=chart,
        values=values,
    )


def plan(*releases: PlannedRelease) -> Plan:
    """A plan of releases, under its true digest."""
    group = NodeGroup(node_selector={"pool": "system"})
    state = DesiredState(
        aicr=PlannedAicr(image_digest=DIGEST, version="v1.1.2"),
        recipe="h100-eks-ubuntu-training",
        bundle_content_digest=DIGEST,
        criteria=PlannedCriteria(
            service="eks", accelerator="h100", os="ubuntu", intent="training", platform="kubeflow"
        ),
        placement=Placement(system=group, accelerated=group),
        validation="Required",
        validator_images=(),
        releases=releases,
    )
    recorded = Recorded(
        run="demo-1", runtime_version="v1", created_at="2026-01-01T00:00:00.000Z", snapshot_digest=DIGEST,
        recipe_digest=DIGEST, bundle_digest=DIGEST,
    )  # fmt: skip
    return Plan(
        desired_state_digest=desired_state_digest(state.wire()), desired_state=state, recorded=recorded
    )


OLD = plan(
    release("cert-manager", "v1.17.2", {"crds": {"enabled": True}}),
    release("gpu-operator", "v25.3.0", {"driver": {"version": "570.148.08"}, "mig": {"strategy": "none"}}),
    release("nodewright", "0.5.0", {"replicas": 2}, "skyhook"),
    release("kai-scheduler", "v0.13.0", {"queue": "default"}),
)
NEW = plan(
    release("cert-manager", "v1.17.2", {"crds": {"enabled": True}}),
    release(
        "gpu-operator",
        "v25.3.1",
        {
            "driver": {"version": "580.65.06", "rdma": {"enabled": True}},
            "mig": {"strategy": "none"},
            "note": "<script>alert('x')</script> & more",
            "tolerations": [{"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}],
        },
    ),
    release("nodewright", "0.5.0", {"replicas": 3}, "nodewright"),
    release("gpu-operator-readiness", "0.1.0", {}, "gpu-operator"),
    release("kubeflow-trainer", "2.0.0", {"manager": {"replicas": 1}}, "kubeflow"),
)


@dataclass
class Waiting:
    """A rollout in the ledger, and how to reach its page."""

    s3: Any
    rollout: Rollout
    report: Report
    request: ApprovalRequest
    deadline: datetime
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        return self.rollout.name

    @property
    def short(self) -> str:
        return short_name(self.rollout.name)

    def secret(self, approver: str = "alex") -> str:
        return link_secret(KEY.encode(), self.name, approver)

    def put(self, document: str, value: Any) -> None:
        body = json.dumps(value.wire(), sort_keys=True).encode()
        self.s3.put_object(Bucket=BUCKET, Key=rollout_key(self.name, document), Body=body)
        # Written again, which the ledger lets nobody do: what a process kept of it is another world's.
        wiring.remembering_ledger.cache_clear()

    def read(self, document: str) -> dict[str, Any] | None:
        keys = self.written()
        key = rollout_key(self.name, document)
        if key not in keys:
            return None
        found: dict[str, Any] = json.loads(self.s3.get_object(Bucket=BUCKET, Key=key)["Body"].read())
        return found

    def written(self) -> list[str]:
        listed = self.s3.list_objects_v2(Bucket=BUCKET)
        return [item["Key"] for item in listed.get("Contents", [])]

    def everything(self) -> dict[str, tuple[str, Any]]:
        """Each object with ETag and time, to see that nothing was written."""
        listed = self.s3.list_objects_v2(Bucket=BUCKET)
        return {item["Key"]: (item["ETag"], item["LastModified"]) for item in listed.get("Contents", [])}

    def decide(self, decision: str, expires: timedelta = timedelta(hours=6), **changes: Any) -> None:
        """Somebody else's decision."""
        at = datetime.now(UTC) - timedelta(minutes=30)
        document = {
            "rollout": self.name, "decision": decision, "request_digest": self.request.digest, "by": ("kim",),
            "identity": "link", "issuer": "link", "reason": "Because", "at": rfc3339(at),
            "expires_at": rfc3339(at + expires), **changes,
        }  # fmt: skip
        self.put("decision", Decision(**document))

    def end(self, outcome: str, reason: str, message: str) -> None:
        """The rollout's outcome."""
        document = {
            "rollout": self.name, "outcome": outcome, "reason": reason, "message": message,
            "finishedAt": rfc3339(datetime.now(UTC)), "installed": ["cert-manager"],
            "notInstalled": [] if outcome == "Succeeded" else ["gpu-operator"],
        }  # fmt: skip
        self.put("outcome", RolloutOutcome.model_validate_json(json.dumps(document)))


def seed(
    s3: Any,
    *,
    cluster: str = "demo",
    left: timedelta = timedelta(hours=6),
    min_approvals: int = 1,
    asked: tuple[str, ...] = ("alex", "kim"),
    groups: tuple[str, ...] | None = None,
    old: Plan | None = OLD,
    new: Plan = NEW,
) -> Waiting:
    """Write plans, rollout, report and request, as the states before would have."""
    now = datetime.now(UTC)
    deadline = now + left
    report = assess(old, new, always_ask=True, from_is_whole=True)
    name = execution_name(cluster, report.to_plan, 1)
    rollout = Rollout(
        name=name,
        cluster=cluster,
        from_plan=report.from_plan,
        to_plan=report.to_plan,
        number=1,
        created_at=rfc3339(now - timedelta(hours=1)),
        deadline=rfc3339(deadline),
        runtime_version="nW3hGl7vZ.example",
    )
    request = ApprovalRequest(
        rollout=name,
        short_name=short_name(name),
        digest=request_digest(report, rollout.deadline),
        deadline=rollout.deadline,
        asked=asked,
        asked_at=rfc3339(now - timedelta(minutes=50)),
        min_approvals=min_approvals,
        identity="link",
        groups=groups,
    )
    for each in (old, new):
        if each is not None:
            body = json.dumps(each.wire()).encode()
            s3.put_object(Bucket=BUCKET, Key=plan_key(each.desired_state_digest), Body=body)
    waiting = Waiting(s3, rollout, report, request, deadline)
    newest = newest_place(Ledger(s3, BUCKET))
    take_place(Ledger(s3, BUCKET), newest.number + 1 if newest else 1, name)
    for document, value in (("rollout", rollout), ("report", report), ("request", request)):
        waiting.put(document, value)
    return waiting


def started(waiting: Waiting, index: int, release: str) -> None:
    """The gate let a step through."""
    at = rfc3339(datetime.now(UTC))
    record = StepStarted(rollout=waiting.name, index=index, release=release, at=at)
    key = step_key(waiting.name, index)
    waiting.s3.put_object(Bucket=BUCKET, Key=key, Body=json.dumps(record.wire()).encode())


#: A record that asks for work before the second release is upgraded.
MANUAL = NEW.model_copy(
    update={
        "upgrades": (record("gpu-operator", boundary("<25.3.1", ">=25.3.1 <=25.3.9", "manual")),),
    }
)


def hold(s3: Any, reason: Reason = Reason.AwaitingAcknowledgement) -> Waiting:
    """Approved, its first step done, and the second waiting for a person."""
    waiting = seed(s3, new=MANUAL)
    waiting.decide("Approved")
    started(waiting, 1, "cert-manager")
    made = StepHeld(
        rollout=waiting.name, index=2, release="gpu-operator", reason=reason,
        message="step 2/5 gpu-operator (Upgrade): do what the record says", at=rfc3339(datetime.now(UTC)),
    )  # fmt: skip
    s3.put_object(Bucket=BUCKET, Key=hold_key(made), Body=json.dumps(made.wire()).encode())
    return waiting


def load_handler(function: str = "serve_approvals") -> ModuleType:
    """The function's module, as Lambda imports it."""
    path = ROOT / "functions" / function / "handler.py"
    spec = importlib.util.spec_from_file_location(f"{function}_handler", path)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


def settings(folder: Path, base_url: str, secret_arn: str, document: dict[str, Any]) -> dict[str, str]:
    """The function's environment, with its configuration written to a file."""
    file = folder / "cluster.json"
    file.write_text(json.dumps(document))
    return {
        "AWS_ACCESS_KEY_ID": "testing",
        "AWS_SECRET_ACCESS_KEY": "testing",
        "AWS_DEFAULT_REGION": REGION,
        "POWERTOOLS_SERVICE_NAME": "serve_approvals",
        "POWERTOOLS_METRICS_NAMESPACE": "AicrPipeline",
        "LEDGER_BUCKET": BUCKET,
        "APPROVAL_KEY_ARN": secret_arn,
        "APPROVAL_URL": base_url,
        "CLUSTER_CONFIG": str(file),
    }


def make_stores() -> tuple[Any, str]:
    """The bucket and the key's secret: an S3 client and the secret's ARN."""
    s3 = boto3.client("s3", region_name=REGION)
    s3.create_bucket(Bucket=BUCKET, CreateBucketConfiguration={"LocationConstraint": REGION})
    secrets = boto3.client("secretsmanager", region_name=REGION)
    return s3, str(secrets.create_secret(Name="approval-key", SecretString=KEY)["ARN"])


def forget() -> None:
    """A cold start: what the process kept is gone."""
    for cached in (wiring.remembering_ledger, wiring.approval_key, aws.client, env.cluster_config):
        cached.cache_clear()


CONTEXT = SimpleNamespace(
    function_name="serve_approvals",
    function_version="1",
    memory_limit_in_mb=1024,
    invoked_function_arn="arn:aws:lambda:us-west-2:111122223333:function:serve_approvals",
    aws_request_id="request-1",
)


def event(
    method: str, path: str, query: dict[str, str], headers: dict[str, str], body: bytes | None = None
) -> dict[str, Any]:
    """A payload-2.0 event of the HTTP API; form bodies arrive in base64."""
    parts = path.split("/")
    made: dict[str, Any] = {
        "version": "2.0",
        "routeKey": f"{method} /approvals/{{rollout}}/{{approver}}",
        "rawPath": path,
        "rawQueryString": urlencode(query),
        "headers": headers,
        "requestContext": {
            "accountId": "111122223333",
            "apiId": "a1b2c3d4e5",
            "domainName": headers.get("host", ""),
            "http": {"method": method, "path": path, "protocol": "HTTP/1.1", "sourceIp": "203.0.113.9",
                     "userAgent": "test"},
            "requestId": "r-1",
            "routeKey": f"{method} /approvals/{{rollout}}/{{approver}}",
            "stage": "$default",
            "time": "30/Nov/2026:14:05:07 +0000",
            "timeEpoch": 1796047507000,
        },
        "pathParameters": dict(zip(("rollout", "approver"), parts[2:], strict=False)),
        "isBase64Encoded": body is not None,
    }  # fmt: skip
    if query:
        made["queryStringParameters"] = query
    if body is not None:
        made["body"] = base64.b64encode(body).decode()
    return made


def decision_of(waiting: Waiting) -> dict[str, Any]:
    found = waiting.read("decision")
    assert found is not None, "no decision was recorded"
    return found
