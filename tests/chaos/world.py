"""One rollout from the plan's event to its end: the real handlers on real local services, in virtual time.

moto's stores and the embedded cluster answer; the definition is the stack's. Argo CD, the kubelet, the
person and EventBridge are a few lines each: what they do is never disturbed, only the calls of the functions.
"""

from __future__ import annotations

import itertools
import json
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any

import urllib3
from aicr_pipeline.actions.announce_plan import TARGET
from aicr_pipeline.actions.refresh_credentials import CREDENTIALS
from aicr_pipeline.adapters import cluster
from aicr_pipeline.adapters.connections import WireError
from aicr_pipeline.adapters.http import Transport
from aicr_pipeline.adapters.mirror import Destination
from aicr_pipeline.adapters.registry_auth import FixedCredentials
from aicr_pipeline.clock import rfc3339
from aicr_pipeline.model.plan import Plan
from moto.s3.models import s3_backends
from moto.sns.models import sns_backends

from infra.asl_rollout import rollout_definition
from infra.functions import BY_NAME, ROLLOUT_FUNCTIONS
from local.argocd.installed import controller
from local.kube import APP_PROJECTS, APPLICATIONS, NAMESPACES, NODES, KubeServer
from local.kube.argocd_crds import install
from local.registry import LocalRegistry
from tests.chaos import actors
from tests.chaos.faults import Faults, KilledError
from tests.chaos.interpreter import Execution, FunctionError, Json
from tests.chaos.services import ISSUER, REGION, clients, handlers
from tests.functional.actions.support import INBOX, LEDGER, MACHINE, TABLE, aws_error
from tests.unit.samples import config, plan, runtime_text

BEGAN = datetime(2026, 1, 1, 12, tzinfo=UTC)
PLAN = plan(**{"validation": "Disabled"})
#: How Lambda is told of events: detail type to functions, as the stack's rules have it.
RULES = {
    "Plan Ready": ("start_rollout", "sweep_waiters"),
    "Rollout Ended": ("start_rollout",),
    "Execution Stalled": ("start_rollout",),
    "Waiter Registered": ("sweep_waiters",),
}
#: Longer than any rollout here takes for each release, disturbed or not.
_TURNS = 300
_WORLDS = itertools.count(1)


class Broken(urllib3.exceptions.HTTPError, WireError):
    """A connection that broke, as the clients of cluster and registry see it."""


class World:
    """Everything that one run touches."""

    #: While a function of it runs: then calls are counted, and go wrong as planned.
    current: World | None = None

    def __init__(self, server: KubeServer, registry: LocalRegistry, wanted: Plan = PLAN) -> None:
        self.now = BEGAN
        self.plan = wanted
        self.faults = Faults(self.later)
        self._server, self.store = server, server.store
        self.executions: dict[str, Execution] = {}
        self.events: deque[tuple[str, Json]] = deque()
        #: Every event that was put, for those who replay.
        self.seen: list[tuple[str, Json]] = []
        #: Operations that Argo CD ran: (Application, request).
        self.operations: Counter[tuple[str, str]] = Counter()
        self.dead: list[str] = []
        #: Messages about an end that were not taken, and are known not to be.
        self.untold = 0
        #: Seconds of the processor in functions, with what answers them.
        self.busy = 0.0
        #: Executions that ended badly, each by name and redrive.
        self.ended: list[str] = []
        self.replays = 1
        #: So many seconds a release takes to become healthy, by name; and since when it does.
        self.slow: dict[str, float] = {}
        self.since: dict[str, datetime] = {}
        self.redrives = self.submissions = 0
        self._registry_host = registry.host
        self.config = config(**{"registry.repository": f"oci://{registry.host}/aicr/demo"})
        self.s3, self.db = clients()["s3"], clients()["dynamodb"]
        self._connect()
        arns = {name: name for name in ROLLOUT_FUNCTIONS}
        self._definition = rollout_definition(arns, "7", "aws", 24 * 3600)
        self._prepare(server)

    def _connect(self) -> None:
        """Clients of registry and cluster, each of whose calls may go wrong."""
        user, password, _ = ISSUER.issue()
        transport = Transport(frozenset({self._registry_host}), sleep=lambda _: None)
        connections, send = transport._connections, transport._connections.ask

        def send_faulty(method: str, *rest: Any) -> Any:
            return self._faulty(f"registry {method}", lambda: send(method, *rest))

        connections.ask = send_faulty  # type: ignore[method-assign]
        credentials = FixedCredentials(user, password)
        self.registry = Destination(
            self._registry_host, f"aicr/{os.getpid()}-{next(_WORLDS)}", transport, credentials
        )
        self.cluster = cluster.Cluster(self._server.url, None, lambda: "token")
        ask = self.cluster._api.call_api

        def call_api(method: str, url: str, *rest: Any, **more: Any) -> Any:
            kind = url.partition("?")[0].split("/")
            thing = next(
                (p for p in ("applications", "appprojects", "jobs", "configmaps") if p in kind), "other"
            )
            return self._faulty(f"kubernetes {method} {thing}", lambda: ask(method, url, *rest, **more))

        self.cluster._api.call_api = call_api  # type: ignore[method-assign]

    def apart(self) -> None:
        """In a process that was forked off: its threads did not come along, so the cluster is served anew.

        The registry is that of the process before, which waits; only the repository is another.
        """
        self._server.start()
        self._connect()

    def _faulty(self, what: str, call: Callable[[], Any]) -> Any:
        return self.faults.pass_on(what, call, lambda: Broken("closed"))

    # What stands when it begins

    def _prepare(self, server: KubeServer) -> None:
        for bucket in (LEDGER, INBOX):
            self.s3.create_bucket(Bucket=bucket, CreateBucketConfiguration={"LocationConstraint": REGION})
            self.s3.put_bucket_versioning(Bucket=bucket, VersioningConfiguration={"Status": "Enabled"})
        names = ("pk", "sk")
        self.db.create_table(
            TableName=TABLE,
            BillingMode="PAY_PER_REQUEST",
            AttributeDefinitions=[{"AttributeName": name, "AttributeType": "S"} for name in names],
            KeySchema=[
                {"AttributeName": n, "KeyType": k} for n, k in zip(names, ("HASH", "RANGE"), strict=True)
            ],
        )
        self.topics = {name: clients()["sns"].create_topic(Name=name)["TopicArn"] for name in ("alex", "kim")}
        install(server.store)
        for namespace in ("argocd", "aicr-system", "aicr-validation"):
            server.store.create(NAMESPACES, {"metadata": {"name": namespace}})
        project = {"metadata": {"name": "aicr"}, "spec": {"sourceRepos": ["*"]}}
        server.store.create(APP_PROJECTS, project, namespace="argocd")
        server.store.apply(controller("argocd"), "argocd")
        for pool in ("system", "gpu"):
            server.store.create(NODES, {"metadata": {"name": pool, "labels": {"pool": pool}}})
        self.s3.put_object(Bucket=INBOX, Key="runtimes/cluster.yaml", Body=runtime_text())
        digest = self.plan.desired_state_digest
        body = json.dumps(self.plan.wire()).encode()
        self.s3.put_object(Bucket=LEDGER, Key=f"plans/{digest[7:]}.json", Body=body)
        self.put_credentials()

    def put_credentials(self) -> None:
        far = rfc3339(self.now + timedelta(days=9))
        self.put_fact(CREDENTIALS, {"mintedAt": rfc3339(self.now), "expiresAt": far})

    def put_fact(self, name: str, value: Mapping[str, Any]) -> None:
        running, World.current = World.current, None  # ours, whoever runs meanwhile
        item = {"pk": {"S": "FACT"}, "sk": {"S": name}, "value": {"S": json.dumps(value)}}
        self.db.put_item(TableName=TABLE, Item=item)
        World.current = running

    def submit(self) -> None:
        """A resolve made the plan the target."""
        self.submissions += 1
        version = self.s3.head_object(Bucket=INBOX, Key="runtimes/cluster.yaml")["VersionId"]
        target = {
            "plan": self.plan.desired_state_digest,
            "runtimeVersion": version,
            "run": f"demo-run-{self.submissions}",
        }
        self.put_fact(TARGET, target)
        self.deliver("Plan Ready", {"cluster": "demo", **target})

    # Time

    def clock(self) -> datetime:
        return self.now

    def later(self, seconds: float) -> str:
        self.now += timedelta(seconds=seconds)
        return rfc3339(self.now)

    # Events

    def put(self, entries: list[Json]) -> None:
        """The bus took them."""
        for entry in entries:
            self.deliver(entry["DetailType"], json.loads(entry["Detail"]))

    def deliver(self, kind: str, detail: Json) -> None:
        if kind == "Message Failed" and detail["kind"] in ("end", "stall"):
            self.untold += 1
        if kind == "Credentials Wanted":  # what keeps them is no part of this
            self.put_credentials()
        event = {"detail-type": kind, "source": "aicr.pipeline", "time": rfc3339(self.now), "detail": detail}
        for function in RULES.get(kind, ()):
            self.queue(function, event)

    def queue(self, function: str, event: Json) -> None:
        self.seen.append((function, event))
        self.events.extend([(function, event)] * self.replays)

    def start(self, name: str, given: Json) -> None:
        """StartExecution: a name that runs with the same input is no error, any other is taken."""
        there = self.executions.get(name)
        if there is None:
            self.executions[name] = Execution(self._definition, name, given, self.invoke, self.later)
        elif there.status != "RUNNING" or there.input != given:
            raise aws_error("ExecutionAlreadyExists")

    def answer(self, token: str, output: Any = None, error: str = "", cause: str = "") -> None:
        if not any(found.answer(token, output, error, cause) for found in self.executions.values()):
            raise aws_error("TaskTimedOut")

    # Functions

    def invoke(self, function: str, payload: Json) -> Json:
        """One invocation in a process of its own."""
        self.faults.begin()
        context = SimpleNamespace(
            function_name=function,
            memory_limit_in_mb=512,
            invoked_function_arn=f"arn:aws:lambda:us-west-2:111122223333:function:{function}",
            aws_request_id=f"request-{len(self.faults.calls)}",
        )
        self.later(0.05)
        World.current, began = self, time.process_time()
        try:
            result: Json = handlers()[function].handler(json.loads(json.dumps(payload)), context)
        except KilledError:
            raise FunctionError("Runtime.ExitError", "killed") from None
        except Exception as error:
            raise FunctionError(type(error).__name__, str(error)) from error
        finally:
            World.current = None
            self.busy += time.process_time() - began
            self.faults.begin()
        return result

    def _event(self, function: str, event: Json) -> None:
        """An asynchronous invocation, with Lambda's retries; then a dead letter."""
        for attempt in range((BY_NAME[function].async_retries or 0) + 1):
            try:
                self.invoke(function, event)
            except FunctionError as error:
                self.later(60 * (attempt + 1))
                last = str(error)
            else:
                return
        if function != "sweep_waiters":  # the next minute's makes it good
            self.dead.append(f"{function}: {last}")

    # Who else acts

    def settle(self, stop: Callable[[World], bool] = lambda world: False) -> None:
        """Until nothing is left to happen; ``stop`` is asked between any two things."""
        for _ in range(_TURNS * len(self.plan.desired_state.releases)):
            if stop(self):
                return
            if self.events:
                self._event(*self.events.popleft())
                continue
            for execution in list(self.executions.values()):
                execution.run()
                if (
                    execution.status in ("FAILED", "ABORTED")
                    and (mark := f"{execution.name} {execution.redrives}") not in self.ended
                ):
                    self.ended.append(mark)
                    self.queue("record_stall", self._ended(execution))
            if self.events or actors.argo_cd(self) or actors.kubelet(self) or actors.person(self):
                continue
            if not any(execution.status == "RUNNING" for execution in self.executions.values()):
                return
            self.minute()
        raise AssertionError(f"it does not come to an end: {self.faults.done}, {self.last()}")

    def minute(self) -> None:
        """The schedule's sweep."""
        self.later(60)
        self._event("sweep_waiters", {"source": "schedule"})

    def _ended(self, execution: Execution) -> Json:
        detail = {
            "executionArn": f"{MACHINE.replace(':stateMachine:', ':execution:')}:{execution.name}",
            "stateMachineArn": MACHINE,
            "name": execution.name,
            "status": execution.status,
            "error": execution.error,
        }
        kind = "Step Functions Execution Status Change"
        return {"detail-type": kind, "time": rfc3339(self.now), "detail": detail}

    # What came of it

    def last(self) -> Execution:
        return list(self.executions.values())[-1]

    def json(self, key: str) -> Any:
        try:
            return json.loads(self.s3.get_object(Bucket=LEDGER, Key=key)["Body"].read())
        except self.s3.exceptions.NoSuchKey:
            return None

    def lose_the_table(self) -> None:
        """All of it, while a rollout runs."""
        for row in self.db.scan(TableName=TABLE)["Items"]:
            self.db.delete_item(TableName=TABLE, Key={"pk": row["pk"], "sk": row["sk"]})

    def rows(self, kind: str) -> list[Json]:
        found: list[Json] = self.db.scan(TableName=TABLE)["Items"]
        return [row for row in found if row["pk"]["S"] == kind]

    def messages(self) -> int:
        backend = sns_backends["123456789012"][REGION]
        return sum(len(topic.sent_notifications) for topic in backend.topics.values())

    def versions(self) -> Counter[str]:
        """Keys of the ledger, each with how often it was written; read where moto keeps them."""
        kept = s3_backends["123456789012"]["aws"].buckets[LEDGER].keys
        return Counter({key: len(kept.getlist(key)) for key in kept})

    def applications(self) -> dict[str, Json]:
        """What each Application asks for."""
        return {found["metadata"]["name"]: found["spec"] for found in self.store.list(APPLICATIONS, "argocd")}
