"""One rollout from the plan's event to its end: the real handlers on real local services, in virtual time.

moto's stores and the embedded cluster answer; the definition is the stack's. Argo CD, the kubelet, the
person and EventBridge are a few lines each: what they do is never disturbed, only the calls of the functions.
"""

from __future__ import annotations

import importlib.util
import itertools
import json
import os
import time
from collections import Counter, deque
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime, timedelta
from functools import cache
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import boto3
import botocore.endpoint
import urllib3
from aicr_pipeline import event_source, wiring
from aicr_pipeline import step as step_module
from aicr_pipeline.actions.announce_plan import TARGET
from aicr_pipeline.actions.refresh_credentials import CREDENTIALS
from aicr_pipeline.actions.sweep_waiters import Sweep
from aicr_pipeline.adapters import aws, cluster
from aicr_pipeline.adapters.argocd import ArgoCd
from aicr_pipeline.adapters.bus import Bus, Notifier
from aicr_pipeline.adapters.connections import WireError
from aicr_pipeline.adapters.http import Transport
from aicr_pipeline.adapters.mirror import Destination
from aicr_pipeline.adapters.registry_auth import FixedCredentials
from aicr_pipeline.adapters.signer import Signer
from aicr_pipeline.clock import parse_time, rfc3339
from aicr_pipeline.decide.application import MANAGED_BY
from aicr_pipeline.model.plan import Plan
from botocore.auth import SigV4Auth
from botocore.config import Config
from botocore.exceptions import ClientError, ConnectionClosedError
from moto import mock_aws
from moto.core.base_backend import BaseBackend
from moto.core.models import botocore_stubber
from moto.s3.models import s3_backends
from moto.sns.models import sns_backends

from infra.asl_rollout import rollout_definition
from infra.functions import BY_NAME, ROLLOUT_FUNCTIONS
from local.argocd.installed import controller
from local.kube import APP_PROJECTS, APPLICATIONS, CONFIG_MAPS, JOBS, NAMESPACES, NODES, KubeServer
from local.kube.argocd_crds import install
from local.registry import LocalRegistry, TokenIssuer
from tests.chaos.faults import Faults, KilledError
from tests.chaos.interpreter import Execution, FunctionError, Json
from tests.conftest import ROOT
from tests.evidence_world import Kms
from tests.functional.actions.support import INBOX, LEDGER, MACHINE, TABLE
from tests.functional.actions.test_action_sweep_jobs import SNAPSHOT
from tests.unit.samples import ASSETS, config, plan, runtime_text

REGION = "us-west-2"
BEGAN = datetime(2026, 1, 1, 12, tzinfo=UTC)
PLAN = plan(**{"validation": "Disabled"})
EVENTS = ("start_rollout", "sweep_waiters", "record_stall")
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


@cache
def clients() -> dict[str, Any]:
    """Made once: a client costs more than a rollout."""
    settings = Config(retries={"mode": "standard", "total_max_attempts": 4})
    session = boto3.Session("testing", "testing", region_name=REGION)
    with mock_aws():
        made = {name: session.client(name, config=settings) for name in ("s3", "dynamodb", "events", "sns")}
    return made


_signed = SigV4Auth.add_auth


def _sign(signer: SigV4Auth, request: Any) -> None:
    """Whose request it is, without the signature: moto does not look at it, and it costs a tenth of a run.

    Of what is put, signing also says how its body is sent.
    """
    if request.method == "PUT":
        _signed(signer, request)
        return
    scope = f"20260101/{REGION}/{signer._service_name}/aws4_request"
    request.headers["Authorization"] = f"AWS4-HMAC-SHA256 Credential=testing/{scope}, Signature=none"


_urls_of: Any = BaseBackend.urls
_urls: dict[type[BaseBackend], Any] = {}


def _addresses(backend: BaseBackend) -> Any:
    """The addresses of a service. moto makes the table anew for every request: a fifth of its time."""
    if type(backend) not in _urls:
        _urls[type(backend)] = _urls_of.fget(backend)
    return _urls[type(backend)]


#: moto's answer to every request of a client; wrapped, it is the network between a function and AWS.
_answered = type(botocore_stubber).__call__


def _network(stubber: Any, event_name: str, request: Any, **more: Any) -> Any:
    world = World.current
    if world is None:
        return _answered(stubber, event_name, request, **more)
    _, service, operation = event_name.split(".")

    def call() -> Any:
        if hasattr(request.body, "seek"):
            request.body.seek(0)
        answer = _answered(stubber, event_name, request, **more)
        if operation == "PutEvents":
            world.put(json.loads(request.body)["Entries"])
        return answer

    def lost() -> Exception:
        return ConnectionClosedError(endpoint_url=request.url)

    return world.faults.pass_on(f"{service} {operation}", call, lost)


@cache
def handlers() -> dict[str, Any]:
    """The modules of the functions that a rollout needs."""
    os.environ.setdefault("POWERTOOLS_METRICS_NAMESPACE", "chaos")
    os.environ.setdefault("POWERTOOLS_SERVICE_NAME", "chaos")
    found = {}
    for name in (*ROLLOUT_FUNCTIONS, *EVENTS):
        file = ROOT / "functions" / name / "handler.py"
        spec = importlib.util.spec_from_file_location(f"chaos_{name}", file)
        assert spec and spec.loader
        found[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(found[name])
    for module in (step_module, event_source):
        module.logger.setLevel("CRITICAL")
    return found


class StepFunctions:
    """The calls of Step Functions that functions make, each as fallible as the others."""

    def __init__(self, world: World) -> None:
        self._world = world

    def start_execution(self, stateMachineArn: str, name: str, input: str) -> None:
        self._call("StartExecution", lambda: self._world.start(name, json.loads(input)))

    def describe_execution(self, executionArn: str) -> dict[str, str]:
        def found() -> dict[str, str]:
            execution = self._world.executions.get(executionArn.rpartition(":")[2])
            if execution is None:
                raise _error("ExecutionDoesNotExist")
            return {"status": execution.status}

        return self._call("DescribeExecution", found)

    def send_task_success(self, taskToken: str, output: str) -> None:
        self._call("SendTaskSuccess", lambda: self._world.answer(taskToken, output=json.loads(output)))

    def send_task_failure(self, taskToken: str, error: str, cause: str) -> None:
        self._call("SendTaskFailure", lambda: self._world.answer(taskToken, error=error, cause=cause))

    def _call(self, what: str, call: Callable[[], Any]) -> Any:
        """As botocore does: a broken connection is tried again, three times more."""
        for attempt in range(4):
            try:
                return self._world.faults.pass_on(
                    f"states {what}", call, lambda: ConnectionClosedError(endpoint_url="states")
                )
            except ConnectionClosedError:
                if attempt == 3:
                    raise
        raise AssertionError


def _error(code: str) -> ClientError:
    return ClientError({"Error": {"Code": code, "Message": "x"}}, "Call")


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
        self._since: dict[str, datetime] = {}
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
        self._registry = Destination(
            self._registry_host, f"aicr/{os.getpid()}-{next(_WORLDS)}", transport, credentials
        )
        self._cluster = cluster.Cluster(self._server.url, None, lambda: "token")
        ask = self._cluster._api.call_api

        def call_api(method: str, url: str, *rest: Any, **more: Any) -> Any:
            kind = url.partition("?")[0].split("/")
            thing = next(
                (p for p in ("applications", "appprojects", "jobs", "configmaps") if p in kind), "other"
            )
            return self._faulty(f"kubernetes {method} {thing}", lambda: ask(method, url, *rest, **more))

        self._cluster._api.call_api = call_api  # type: ignore[method-assign]

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
            self._queue(function, event)

    def _queue(self, function: str, event: Json) -> None:
        self.seen.append((function, event))
        self.events.extend([(function, event)] * self.replays)

    def start(self, name: str, given: Json) -> None:
        """StartExecution: a name that runs with the same input is no error, any other is taken."""
        there = self.executions.get(name)
        if there is None:
            self.executions[name] = Execution(self._definition, name, given, self.invoke, self.later)
        elif there.status != "RUNNING" or there.input != given:
            raise _error("ExecutionAlreadyExists")

    def answer(self, token: str, output: Any = None, error: str = "", cause: str = "") -> None:
        if not any(found.answer(token, output, error, cause) for found in self.executions.values()):
            raise _error("TaskTimedOut")

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
                    self._queue("record_stall", self._ended(execution))
            if self.events or self._argo_cd() or self._kubelet() or self._person():
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

    def _argo_cd(self) -> bool:
        """Every operation that was asked for is done, well."""
        acted = False
        for found in self.store.list(APPLICATIONS, "argocd"):
            state = (found.get("status") or {}).get("operationState") or {}
            asked = found.get("operation") or (
                state["operation"] if state.get("phase") == "Running" else None
            )
            if not asked:
                self._compare(found)
                continue
            name, spec = found["metadata"]["name"], found["spec"]
            since = self._since.setdefault(name, self.now)
            if (self.now - since).total_seconds() < self.slow.get(name, 0):
                running = {"phase": "Running", "operation": asked, "startedAt": f"{rfc3339(since)[:19]}Z"}
                status = {"operationState": running, "reconciledAt": f"{rfc3339(self.now)[:19]}Z"}
                self.store.merge(APPLICATIONS, name, {"operation": None, "status": status}, "argocd")
                continue
            request = next(i["value"] for i in asked["info"] if i["name"].endswith("request-id"))
            self.operations[name, request] += 1
            began = self.later(1)
            done, digest = self.later(1), asked["sync"]["revision"]
            whole = lambda text: f"{text[:19]}Z"  # noqa: E731 - Argo CD writes whole seconds
            status = {
                "sync": {
                    "status": "Synced",
                    "revision": digest,
                    "comparedTo": {"source": spec["source"], "destination": spec["destination"]},
                },
                "health": {"status": "Healthy", "lastTransitionTime": whole(done)},
                "reconciledAt": whole(self.later(1)),
                "operationState": {
                    "phase": "Succeeded",
                    "startedAt": whole(began),
                    "finishedAt": whole(done),
                    "operation": asked,
                    "syncResult": {"revision": digest, "source": spec["source"]},
                },
                "history": [
                    *(found.get("status", {}).get("history") or []),
                    {"id": self.operations.total(), "revision": digest, "deployedAt": whole(done),
                     "initiatedBy": {"username": MANAGED_BY}, "source": spec["source"]},
                ],
            }  # fmt: skip
            self.store.merge(APPLICATIONS, name, {"operation": None, "status": status}, "argocd")
            acted = True
        return acted

    def _compare(self, found: Any) -> None:
        """Argo CD looks at each Application every three minutes; what it sees is what it made."""
        at = (found.get("status") or {}).get("reconciledAt")
        if at is not None and (self.now - parse_time(at)).total_seconds() > 180:
            status = {"reconciledAt": f"{rfc3339(self.now)[:19]}Z"}
            self.store.merge(APPLICATIONS, found["metadata"]["name"], {"status": status}, "argocd")

    def _kubelet(self) -> bool:
        """Every Job ends well, with a snapshot."""
        acted = False
        for job in self.store.list(JOBS, "aicr-system"):
            if (job.get("status") or {}).get("conditions"):
                continue
            name = job["metadata"]["name"]
            done = {"conditions": [{"type": "Complete", "status": "True", "reason": "r", "message": "m"}]}
            body = {"metadata": {"name": name}, "data": {"snapshot.yaml": SNAPSHOT}}
            if self.store.find(CONFIG_MAPS, name, "aicr-system") is None:
                self.store.create(CONFIG_MAPS, body, namespace="aicr-system")
            else:
                self.store.merge(CONFIG_MAPS, name, body, "aicr-system")
            self.store.merge_status(JOBS, name, {"status": done}, namespace="aicr-system")
            acted = True
        return acted

    def _person(self) -> bool:
        """Approves what waits: writes the decision as the page does."""
        for execution in self.executions.values():
            if execution.token is None or execution.entered[-1] != "Request approval":
                continue
            key = f"rollouts/{execution.name}"
            request = self.json(f"{key}/request.json")
            if request is None or self.json(f"{key}/decision.json") is not None:
                continue
            decision = {
                "rollout": execution.name, "decision": "Approved", "requestDigest": request["digest"],
                "by": ["alex"], "identity": "link", "issuer": "aicr-pipeline", "reason": "Looks right",
                "at": rfc3339(self.now), "expiresAt": request["deadline"],
            }  # fmt: skip
            self.s3.put_object(Bucket=LEDGER, Key=f"{key}/decision.json", Body=json.dumps(decision).encode())
            event = {"detail": {"object": {"key": f"{key}/decision.json"}}}
            self._queue("sweep_waiters", event)
            return True
        return False

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


ISSUER = TokenIssuer()


@contextmanager
def registry() -> Iterator[LocalRegistry]:
    with LocalRegistry(ISSUER) as found:
        yield found


@contextmanager
def world(found: LocalRegistry, wanted: Plan = PLAN) -> Iterator[World]:
    """A fresh world, with the functions' adapters wired to it."""
    with ExitStack() as stack:
        clients()
        stack.enter_context(mock_aws())
        server = stack.enter_context(KubeServer())
        made = World(server, found, wanted)
        states = StepFunctions(made)

        def client(service: str, region: str | None = None) -> Any:
            return states if service == "stepfunctions" else clients()[service]

        environment = {
            "LEDGER_BUCKET": LEDGER, "INBOX_BUCKET": INBOX, "COORDINATION_TABLE": TABLE,
            "EVENT_BUS": "default", "APPROVER_TOPICS": json.dumps(made.topics),
            "POWERTOOLS_METRICS_DISABLED": "true", "ROLLOUT_MACHINE_ARN": f"{MACHINE}:live", "APPROVAL_URL": "https://approvals.example",
        }  # fmt: skip
        stack.enter_context(patch.dict(os.environ, environment))
        signer = Signer(Kms(), "alias/evidence")
        replaced: list[tuple[Any, str, Any]] = [
            (aws, "client", client),
            (wiring, "now", made.clock),
            (step_module, "now", made.clock),
            (wiring, "config", lambda: made.config),
            (wiring, "cluster", lambda: made._cluster),
            (wiring, "argocd", lambda: ArgoCd(made._cluster, made.config.engine)),
            (wiring, "registry", lambda: made._registry),
            (wiring, "signer", lambda: signer),
            (wiring, "pipeline", lambda: ASSETS),
            (wiring, "approval_key", lambda: b"k" * 64),
            (wiring, "bus", lambda: Bus(clients()["events"], "default", "demo")),
            (wiring, "notifier", lambda: Notifier(clients()["sns"], made.topics)),
            (type(botocore_stubber), "__call__", _network),
            (SigV4Auth, "add_auth", _sign),
            (BaseBackend, "urls", property(_addresses)),
            (botocore.endpoint, "time", SimpleNamespace(sleep=lambda _: None)),
            (cluster, "time", SimpleNamespace(sleep=lambda _: None, time=lambda: made.now.timestamp())),
        ]
        for module in handlers().values():
            replaced += [(module, "now", made.clock)] if hasattr(module, "now") else []
        for module in (step_module, event_source):
            replaced += [(module.metrics.provider, "namespace", "chaos")]

        def sweep(*given: Any, **more: Any) -> Sweep:
            return Sweep(*given, sleep=lambda seconds: None, **more)

        sweeper = handlers()["sweep_waiters"]
        replaced += [(sweeper, "Sweep", sweep), (sweeper, "BUDGET_SECONDS", -1.0)]
        for owner, name, value in replaced:
            stack.enter_context(patch.object(owner, name, value))
        for name in ("ledger", "inbox", "coordination", "waits", "slack"):
            getattr(wiring, name).cache_clear()
            stack.callback(getattr(wiring, name).cache_clear)
        yield made
