"""A whole machine for rollouts of three releases, quick enough for a scenario each.

One real resolve makes the first plan: three of the sample's components, charts mirrored, wrapper packed.
Every scenario then has a plan of its own, which differs in its values, and begins with an empty cluster:
what the one before left is taken away behind the machine's back.
"""

import itertools
import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path
from typing import Any

from aicr_pipeline.actions.announce_plan import TARGET
from aicr_pipeline.adapters.bus import Bus
from aicr_pipeline.adapters.coordination import Coordination
from aicr_pipeline.clock import now, rfc3339
from aicr_pipeline.decide.plan import desired_state_digest
from aicr_pipeline.decide.resolve_end import PLAN_READY
from aicr_pipeline.model.rollout import step_key
from moto.s3.models import s3_backends

from local.aicr import bundle, recipe
from local.aicr.documents import to_yaml
from local.aicr.overrides import Overrides
from local.aicr.wrappers import Placement
from local.argocd import Fault, Scenario
from local.kube import APPLICATIONS
from local.progress import Progress
from tests.workflow.machine import ROOT, Machine, machine, runtime

#: In their order: two charts, and the wrapper that is the gate of the second.
RELEASES = ("cert-manager", "gpu-operator", "gpu-operator-readiness")

Json = dict[str, Any]
#: What a scenario does not begin with.
FACTS = ("target", "status", "status-told")


def small_bundle(folder: Path) -> Path:
    """The sample's bundle of ``RELEASES`` alone, as AICR leaves one in a folder."""
    whole = recipe.built_in()
    others = {component["name"] for component in whole["componentRefs"]} - set(RELEASES)
    kept = bundle.without(whole, others)
    settings = bundle.Settings(
        recipe="",
        output="",
        readiness_hooks=True,
        plain_http=True,
        placement=Placement({}, [], {}, []),
        overrides=(),
    )
    bundle.write(bundle.render(kept, to_yaml(kept), settings, Overrides({}, frozenset())), folder)
    return folder


class SmallMachine(Machine):
    """A machine whose rollouts begin at a plan that a test makes."""

    def begin(self) -> None:
        """The one resolve, whose plan is what all others vary. It is paused, so nothing is rolled out."""
        ended = self.resolve(runtime(paused=True))
        assert ended.status == "SUCCEEDED", ended.cause
        digest = ended.output["plan"]["digest"]
        self.first: Json = json.loads(self.pipeline.ledger(f"plans/{digest[7:]}.json") or b"")
        self._numbers = itertools.count(1)
        self.offset = 0

    def clean(self) -> None:
        """An empty cluster, no rollouts, no waiters, no lock, no faults; executions that run are stopped."""
        aws, store = self.pipeline.aws, self.pipeline.kube.store
        arn = self.pipeline.machine("rollout")
        for view in aws.executions(arn):
            if view.status == "RUNNING":
                aws.client("stepfunctions").stop_execution(executionArn=view.arn, error="TestIsOver")
        aws.quiet()
        self.pipeline.argocd.scenario = Scenario()
        for found in store.list(APPLICATIONS, "argocd"):
            store.delete(APPLICATIONS, found["metadata"]["name"], "argocd")
        keys = s3_backends[aws.account]["aws"].buckets[aws.outputs["LedgerBucket"]].keys
        for key in [key for key in keys if key.startswith("rollouts/")]:
            del keys[key]
        table, client = aws.outputs["CoordinationTable"], aws.client("dynamodb")
        for row in client.scan(TableName=table)["Items"]:
            if row["pk"]["S"] in ("LOCK", "WAITERS", "LEASE") or row["sk"]["S"] in FACTS:
                client.delete_item(TableName=table, Key={"pk": row["pk"], "sk": row["sk"]})
        self.wish()
        self.seen = len(aws.executions(arn))
        self.offset = len(aws.messages)

    def wish(self, **spec: Any) -> None:
        """What the inbox holds, with no resolve of it: put where no event comes of it."""
        self._put("InboxBucket", "runtimes/cluster.yaml", runtime(**spec))

    def plan(self, change: Callable[[Json], None] | None = None, of: str | None = None) -> str:
        """Write a plan.

        Parameters
        ----------
        change:
            What to do to its desired state.
        of:
            The plan it is like; else the first, with values of its own in every chart.
        """
        if of is None:
            document: Json = json.loads(json.dumps(self.first))
        else:
            document = json.loads(self.pipeline.ledger(f"plans/{of[7:]}.json") or b"")
        state = document["desiredState"]
        state["validation"] = "Disabled"
        for release in state["releases"] if of is None else ():
            if release.get("values") is not None:
                release["values"]["scenario"] = next(self._numbers)
        if change is not None:
            change(state)
        digest = document["desiredStateDigest"] = desired_state_digest(state)
        self._put("LedgerBucket", f"plans/{digest[7:]}.json", json.dumps(document).encode())
        return str(digest)

    def start(self, plan: str) -> None:
        """Make a plan the target and announce it, as the last state of a resolve does."""
        aws = self.pipeline.aws
        inbox = s3_backends[aws.account]["aws"].buckets[aws.outputs["InboxBucket"]]
        version = inbox.keys["runtimes/cluster.yaml"].version_id
        target = {"plan": plan, "runtimeVersion": version, "run": f"small-{plan[7:15]}-{next(self._numbers)}"}
        self._coordination().put_fact(TARGET, target)
        bus = Bus(aws.client("events"), "default", self.pipeline.config.cluster.name)
        bus.announce(PLAN_READY, target | {"releases": len(RELEASES), "trigger": "submission"})

    def _put(self, bucket: str, key: str, content: bytes) -> None:
        """Store an object behind everybody's back: no policy is asked, and no event tells of it."""
        aws = self.pipeline.aws
        backend = s3_backends[aws.account]["aws"]
        found = backend.buckets[aws.outputs[bucket]]
        tells, found.notification_configuration = found.notification_configuration, None
        try:
            backend.put_object(found.name, key, content)
        finally:
            found.notification_configuration = tells

    def installed(self, change: Callable[[Json], None] | None = None) -> str:
        """Roll a plan out to its end; it is the active one then."""
        plan = self.plan(change)
        self.start(plan)
        self.approve()
        ended = self.ended()
        assert ended.status == "SUCCEEDED", (ended.error, ended.cause)
        return plan

    def approve(self, after: int = 0) -> None:
        """Answer the newest link that this scenario was sent."""
        super().approve(after=max(after, self.offset))
        self.offset = len(self.pipeline.aws.messages)

    def ended(self, timeout: float = 60) -> Progress:
        """Wait for the end of the next rollout of this scenario."""
        found = self.rollout(timeout, seen=self.seen)
        self.seen += 1
        return found

    def faults(self, **applications: Fault) -> None:
        """What goes wrong from now on, by release with ``_`` for ``-``; nothing else does any more."""
        named = {name.replace("_", "-"): fault for name, fault in applications.items()}
        self.pipeline.argocd.scenario = Scenario(named)

    def step(self, index: int) -> None:
        """Wait until the gate has let this step of the newest rollout through."""
        name = self.pipeline.aws.executions(self.pipeline.machine("rollout"))[-1].name
        self.wait(lambda: self.pipeline.ledger(step_key(name, index)) is not None, 60, f"step {index}")

    def expire(self) -> None:
        """The deadline of whatever is waited for has just passed."""
        aws = self.pipeline.aws
        table, client = aws.outputs["CoordinationTable"], aws.client("dynamodb")
        past = {":past": {"S": rfc3339(now() - timedelta(seconds=1))}}
        for row in client.scan(TableName=table)["Items"]:
            if row["pk"]["S"] == "WAITERS":
                client.update_item(
                    TableName=table,
                    Key={"pk": row["pk"], "sk": row["sk"]},
                    UpdateExpression="SET deadline = :past",
                    ExpressionAttributeValues=past,
                )

    def fact(self, name: str) -> Json | None:
        """A row of the coordination table."""
        return self._coordination().fact(name)

    def put_fact(self, name: str, value: Json) -> None:
        """Have the coordination table know something."""
        self._coordination().put_fact(name, value)

    def look_back(self, minutes: float) -> None:
        """The registry was last asked so long ago."""
        fact = self.fact("credentials") or {}
        fact["checkedAt"] = rfc3339(now() - timedelta(minutes=minutes))
        self._coordination().put_fact("credentials", fact)

    def _coordination(self) -> Coordination:
        aws = self.pipeline.aws
        return Coordination(aws.client("dynamodb"), aws.outputs["CoordinationTable"])

    def application(self, release: str) -> Json | None:
        """The Application of a release, or None."""
        found: Json | None = self.pipeline.kube.store.find(APPLICATIONS, release, "argocd")
        return found


@contextmanager
def small_machine(workdir: Path, cluster: Path = ROOT / "clusters" / "demo.yaml") -> Iterator[SmallMachine]:
    """A machine for a module of scenarios; each calls ``clean`` first."""
    with machine(workdir / "work", cluster=cluster, bundle=small_bundle(workdir / "bundle")) as found:
        small = SmallMachine(found.pipeline)
        small.begin()
        yield small
