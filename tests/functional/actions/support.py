"""A place for actions to act in: moto's stores in this process, the embedded cluster, and recorders."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Any

import yaml
from aicr_pipeline.actions.announce_plan import TARGET
from aicr_pipeline.actions.look_at_waiters import World
from aicr_pipeline.actions.sweep_waiters import Sweep
from aicr_pipeline.adapters.argocd import ArgoCd
from aicr_pipeline.adapters.bus import Bus, Notifier
from aicr_pipeline.adapters.cluster import Cluster
from aicr_pipeline.adapters.coordination import Coordination, Waiter
from aicr_pipeline.adapters.executions import Executions
from aicr_pipeline.adapters.ledger import Inbox, Ledger
from aicr_pipeline.adapters.order import newest_place, take_place
from aicr_pipeline.adapters.waits import Waits
from aicr_pipeline.clock import after, rfc3339
from aicr_pipeline.decide.assess import assess, request_digest
from aicr_pipeline.model.plan import Plan, plan_key
from aicr_pipeline.model.reasons import GENERATION
from aicr_pipeline.model.rollout import Report, Rollout, rollout_key
from aicr_pipeline.model.step import StepEvent
from botocore.exceptions import ClientError

from infra.cluster_rbac import job_accounts
from local.kube import APPLICATIONS, KubeServer, Object
from tests.unit.samples import RUNTIME, VALIDATOR_IMAGE, config, plan, sha

BEGAN = datetime(2026, 1, 1, 12, tzinfo=UTC)
ROLLOUT = "demo-12345678-1"
DEADLINE = after(BEGAN, 6 * 3600)
LEDGER, INBOX, TABLE = "ledger", "inbox", "coordination"
MACHINE = "arn:aws:states:us-west-2:111122223333:stateMachine:aicr-pipeline-demo-rollout"


def aws_error(code: str) -> ClientError:
    """What botocore raises."""
    return ClientError({"Error": {"Code": code, "Message": "x"}}, "Call")


@dataclass
class Events:
    """Records what was put; ``failing`` entries are not taken."""

    entries: list[dict[str, Any]] = field(default_factory=list)
    failing: int = 0

    def put_events(self, Entries: list[dict[str, Any]]) -> dict[str, Any]:
        if self.failing:
            self.failing -= 1
            return {"FailedEntryCount": 1, "Entries": [{"ErrorCode": "ThrottlingException"}]}
        self.entries += Entries
        return {"FailedEntryCount": 0, "Entries": [{}]}

    @property
    def types(self) -> list[str]:
        return [entry["DetailType"] for entry in self.entries]

    def details(self, kind: str) -> list[dict[str, Any]]:
        return [json.loads(entry["Detail"]) for entry in self.entries if entry["DetailType"] == kind]


@dataclass
class Topics:
    """Records messages."""

    sent: list[dict[str, str]] = field(default_factory=list)
    error: Exception | None = None

    def publish(self, **message: str) -> None:
        if self.error:
            raise self.error
        self.sent.append(message)


@dataclass
class StepFunctions:
    """Takes each token once, as Step Functions does; ``errors`` are raised first."""

    answered: dict[str, dict[str, Any]] = field(default_factory=dict)
    errors: list[str] = field(default_factory=list)
    calls: int = 0
    executions: dict[str, str] = field(default_factory=dict)
    inputs: dict[str, Any] = field(default_factory=dict)

    def send_task_success(self, taskToken: str, output: str) -> None:
        self._take(taskToken, {"output": json.loads(output)})

    def send_task_failure(self, taskToken: str, error: str, cause: str) -> None:
        self._take(taskToken, {"error": error, "cause": cause})

    def _take(self, token: str, answer: dict[str, Any]) -> None:
        self.calls += 1
        if self.errors:
            raise aws_error(self.errors.pop(0))
        if token in self.answered:
            raise aws_error("TaskTimedOut")
        self.answered[token] = answer

    def start_execution(self, stateMachineArn: str, name: str, input: str) -> None:
        assert stateMachineArn.endswith(":live")
        if self.errors:
            raise aws_error(self.errors.pop(0))
        if name in self.executions:
            raise aws_error("ExecutionAlreadyExists")
        self.executions[name], self.inputs[name] = "RUNNING", json.loads(input)

    def list_executions(self, stateMachineArn: str, statusFilter: str, maxResults: int) -> dict[str, Any]:
        assert stateMachineArn == MACHINE
        found = [{"name": name} for name, status in self.executions.items() if status == statusFilter]
        return {"executions": found[::-1][:maxResults]}

    def describe_execution(self, executionArn: str) -> dict[str, str]:
        base, _, name = executionArn.rpartition(":")
        assert base == MACHINE.replace(":stateMachine:", ":execution:")
        if name not in self.executions:
            raise aws_error("ExecutionDoesNotExist")
        return {"status": self.executions[name]}


class Place:
    """Everything an action takes."""

    def __init__(self, s3: Any, dynamodb: Any, server: KubeServer) -> None:
        self.s3, self.dynamodb, self.store = s3, dynamodb, server.store
        self.now = BEGAN
        self.config = config()
        self.ledger, self.inbox = Ledger(s3, LEDGER), Inbox(s3, INBOX)
        self.coordination = Coordination(dynamodb, TABLE)
        self.cluster = Cluster(server.url, None, lambda: "token")
        self.argocd = ArgoCd(self.cluster, self.config.engine)
        self.events, self.topics, self.sfn = Events(), Topics(), StepFunctions()
        self.bus = Bus(self.events, "default", "demo")
        self.notifier = Notifier(self.topics, {"alex": "topic-alex", "kim": "topic-kim"})
        self.waits = Waits(self.coordination, self.bus, self.clock)
        self.executions = Executions(self.sfn, f"{MACHINE}:live")
        self.problems: list[str] = []

    def clock(self) -> datetime:
        return self.now

    def allow_validation(self, **changes: Any) -> None:
        """Configure it, and apply what the cluster manifests have for it."""
        enabled = {"validation.enabled": True, "aicr.validatorImages": [VALIDATOR_IMAGE]}
        self.config = config(**{**enabled, **changes})
        for manifest in job_accounts(self.config):
            if manifest["metadata"]["name"] in ("aicr-validation", "aicr-validator"):
                self.store.apply(manifest, manifest["metadata"].get("namespace"))

    def later(self, seconds: float) -> None:
        self.now += timedelta(seconds=seconds)

    # What stands in the stores

    def ledger_keys(self, prefix: str = "") -> list[str]:
        return [key for key, _ in self.ledger.keys(prefix)]

    def put_plan(self, made: Plan) -> Plan:
        self.ledger.put_once(plan_key(made.desired_state_digest), json.dumps(made.wire()).encode())
        return made

    def start_rollout(self, made: Plan, before: Plan | None = None, **changes: Any) -> Rollout:
        """A rollout to a plan, as it is before its assessment."""
        for plan_ in (made, before):
            if plan_ is not None:
                self.put_plan(plan_)
        rollout = Rollout(
            name=ROLLOUT, cluster="demo", to_plan=made.desired_state_digest, number=1,
            from_plan=before.desired_state_digest if before else None,
            created_at=rfc3339(self.now), deadline=DEADLINE, runtime_version="v1", **changes,
        )  # fmt: skip
        self.begin(rollout.wire())
        return rollout

    def begin(self, rollout: Mapping[str, Any]) -> None:
        """A rollout's record, after those that began before."""
        newest = newest_place(self.ledger)
        take_place(self.ledger, newest.number + 1 if newest else 1, rollout["name"])
        self.put_json(rollout_key(rollout["name"], "rollout"), rollout)

    def put_rollout(self, made: Plan, before: Plan | None = None) -> Report:
        """A rollout to a plan, assessed."""
        self.start_rollout(made, before)
        report = assess(before, made, always_ask=True, from_is_whole=True)
        self.put_json(rollout_key(ROLLOUT, "report"), report.wire())
        return report

    def end_rollout(self, name: str = ROLLOUT) -> None:
        """A newer wish takes the rollout's place."""
        over = {"outcome": "Superseded", "reason": "RolloutSuperseded", "message": "a newer plan"}
        self.put_json(
            rollout_key(name, "outcome"), {"rollout": name, "finishedAt": rfc3339(self.now), **over}
        )

    def put_json(self, key: str, value: Any) -> None:
        assert self.ledger.put_once(key, json.dumps(value).encode())

    def approve(self, report: Report, asked: dict[str, Any] | None = None, **changes: Any) -> None:
        """What was asked (``asked`` changes it), and the decision."""
        request = {
            "rollout": ROLLOUT,
            "shortName": "s",
            "digest": request_digest(report, DEADLINE),
            "deadline": DEADLINE,
            "asked": ["alex", "kim"],
            "askedAt": rfc3339(self.now),
            "minApprovals": 1,
            "identity": "link",
        }
        self.put_json(rollout_key(ROLLOUT, "request"), request | (asked or {}))
        self.put_json(
            rollout_key(ROLLOUT, "decision"),
            {
                "rollout": ROLLOUT,
                "decision": "Approved",
                "requestDigest": request_digest(report, DEADLINE),
                "by": ["alex"],
                "identity": "link",
                "issuer": "aicr-pipeline",
                "reason": "Looks right",
                "at": rfc3339(self.now),
                "expiresAt": DEADLINE,
            }
            | changes,
        )

    def submit(self, **changes: Any) -> str:
        """Put a runtime; returns its version."""
        document = {**RUNTIME, "spec": {**RUNTIME["spec"], **changes}}
        body = yaml.safe_dump(document).encode()
        return str(self.s3.put_object(Bucket=INBOX, Key="runtimes/cluster.yaml", Body=body)["VersionId"])

    def want(self, made: Plan, run: str = "demo-run00000-1") -> dict[str, Any]:
        """Make a plan the target; returns the event that says so."""
        fact = {"plan": made.desired_state_digest, "runtimeVersion": "v1", "run": run}
        self.coordination.put_fact(TARGET, fact)
        return {"detail-type": "Plan Ready", "detail": {"cluster": "demo", **fact}}

    def application(self, name: str) -> Object:
        return self.store.get(APPLICATIONS, name, namespace="argocd")

    def set_application(self, name: str, patch: dict[str, Any]) -> None:
        self.store.merge(APPLICATIONS, name, patch, namespace="argocd")

    # Sweeping

    def wait_for(self, id: str, kind: str, wanted: dict[str, Any], **changes: Any) -> Waiter:
        order = changes.pop("order", f"{rfc3339(self.now)}#0000")
        token, deadline = changes.pop("token", f"token of {id}"), changes.pop("deadline", DEADLINE)
        waiter = Waiter(id, kind, token, order, deadline, wanted, **changes)
        self.coordination.register(waiter, self.now)
        return waiter

    def world(self) -> World:
        return World(
            self.ledger,
            self.coordination,
            lambda: self.cluster,
            lambda: self.argocd,
            self.clock,
            lambda: self.inbox,
            lambda: self.config,
        )

    def sweep(
        self, then: Callable[[int], None] | None = None, holder: str = "one", budget: float = 30
    ) -> dict[str, Any]:
        """One run of the sweeper; ``then`` is what happens in the world while it sleeps."""
        slept = 0

        def sleep(seconds: float) -> None:
            nonlocal slept
            slept += 1
            self.later(seconds)
            if then is not None:
                then(slept)

        def report(problem: str, _: Waiter) -> None:
            self.problems.append(problem)

        return Sweep(self.world(), self.sfn, holder, 5.0, budget, report, sleep).run()


def step(state: str = "Apply release", **changes: Any) -> StepEvent:
    """What a state hands over."""
    made: dict[str, Any] = {
        "state": state,
        "execution": ROLLOUT,
        "machineVersion": "7",
        "generation": GENERATION,
        "enteredAt": rfc3339(BEGAN),
        "retries": 0,
        "input": {"rollout": ROLLOUT, "cluster": "demo", "deadline": DEADLINE, "toPlan": sha("none")},
        "token": "token",
    }
    for name, value in changes.items():
        if name == "input":
            made["input"] = {**made["input"], **value}
        else:
            made[name] = value
    return StepEvent.model_validate(made)


def item(release: str = "gpu-operator", index: int = 1, action: str = "Install") -> dict[str, Any]:
    """An item of the Map."""
    return {"index": index, "of": 2, "release": release, "action": action}


PLAN = plan()
