"""Each scenario of the stand-in, seen by the sweeper's look alone: it lies, and readiness is not fooled.

The whole machine has the same scenarios in ``tests/workflow/scenarios``.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from aicr_pipeline.actions.apply_release import OperationInFlightError, apply_release
from aicr_pipeline.actions.look_at_application import look_at_application
from aicr_pipeline.adapters.argocd import ArgoCd
from aicr_pipeline.adapters.cluster import Cluster
from aicr_pipeline.adapters.coordination import Waiter
from aicr_pipeline.clock import after, now, rfc3339
from aicr_pipeline.decide.application import AUTOMATED, MANAGED_BY
from aicr_pipeline.decide.readiness import Graces, Readiness
from aicr_pipeline.model.config import Engine
from aicr_pipeline.model.plan import plan_key

from local.argocd import ArgoCdSettings, ArgoCdStandin, Fault, Scenario
from local.argocd.scenario import names
from local.helm import helm_binary
from local.kube import APP_PROJECTS, APPLICATIONS, NAMESPACES, SECRETS, KubeServer, argocd_crds
from tests.functional.actions.support import ROLLOUT, item, step
from tests.functional.standins.support import DEPLOYMENT, PREFIX, Registry
from tests.unit.samples import chart, config, plan, release

#: Of a scenario's own times: nobody watches here.
SCALE = 0.3
HEALTH_SECONDS = 0.25
SETTINGS = ArgoCdSettings(sync_seconds=0.05, health_seconds=HEALTH_SECONDS)
Object = dict[str, Any]


class PlanOnly:
    """A ledger with one plan."""

    def __init__(self, content: bytes, key: str) -> None:
        self._content, self._key = content, key

    def get(self, key: str) -> bytes | None:
        return self._content if key == self._key else None


@dataclass
class Seen:
    """What looks saw: verdicts, and the Application of each."""

    verdicts: list[Readiness] = field(default_factory=list)
    applications: list[Object | None] = field(default_factory=list)

    @property
    def last(self) -> Readiness:
        return self.verdicts[-1]


class Bench:
    """One release ``demo`` on a cluster with the stand-in, applied and looked at as the pipeline does."""

    def __init__(self, server: KubeServer, registry: Registry, workdir: Path) -> None:
        self.store, self.registry = server.store, registry
        repository = f"oci://{registry.host}/{PREFIX}"
        self.config = config(**{"registry.repository": repository, "registry.plainHttp": True})
        self.adapter = ArgoCd(Cluster(server.url, None, lambda: "token"), self.config.engine)
        argocd_crds.install(self.store)
        self.store.create(NAMESPACES, {"metadata": {"name": "argocd"}})
        self.store.create(
            APP_PROJECTS,
            {
                "metadata": {"name": "aicr"},
                "spec": {
                    "sourceRepos": [f"{repository}/charts/*"],
                    "destinations": [{"server": "*", "namespace": "gpu-operator"}],
                    "clusterResourceWhitelist": [{"group": "*", "kind": "*"}],
                },
            },
            namespace="argocd",
        )
        values = {"type": "oci", "url": repository, "username": registry.user, "password": registry.password}
        labels = {"argocd.argoproj.io/secret-type": "repo-creds"}
        self.store.create(
            SECRETS,
            {
                "metadata": {"name": "aicr-registry", "labels": labels},
                "data": {key: base64.b64encode(value.encode()).decode() for key, value in values.items()},
            },
            namespace="argocd",
        )
        self.workdir = workdir
        self.argocd = ArgoCdStandin(self.store, helm=helm_binary(), workdir=workdir, settings=SETTINGS)
        self.graces = Graces()
        self.requests = 0

    def apply(self, digest: str, index: int = 1) -> Waiter:
        """Apply the chart at a digest; what is waited for then."""
        mirrored = replace_digest(digest)
        made = plan(mirrored)
        key = plan_key(made.desired_state_digest)
        ledger: Any = PlanOnly(made.model_dump_json(by_alias=True, exclude_none=True).encode(), key)
        given = {"toPlan": made.desired_state_digest, "deadline": after(now(), 3600)}
        event = step(item=item("demo", index), input=given, token=None)
        found = apply_release(event, self.config, ledger, self.adapter, now)
        wanted = {"rollout": ROLLOUT, "release": "demo", "step": "step", **found}
        return Waiter("w", "application", "t", "o", after(now(), 60), wanted, rfc3339(now()))

    def look(self, waiter: Waiter) -> Readiness:
        return look_at_application(waiter, self.adapter, now(), self.graces)

    def follow(self, waiter: Waiter, seconds: float = 15) -> Seen:
        """Look until something is decided, as the sweeper would."""
        seen, until = Seen(), time.monotonic() + seconds
        while True:
            seen.applications.append(self.store.find(APPLICATIONS, "demo", namespace="argocd"))
            seen.verdicts.append(self.look(waiter))
            if seen.last.state != "waiting":
                return seen
            assert time.monotonic() < until, [verdict.message for verdict in seen.verdicts[-3:]]
            time.sleep(0.03)

    def truly_ready(self) -> bool:
        """What the stand-in knows and the Application need not say: applied whole, and time to be healthy."""
        record = self.argocd._records.get("demo")
        if record is None or record.live is None:
            return False
        wanted = self.argocd._targets.wanted(self.app(), hard=False)
        old = datetime.now(record.live.changed_at.tzinfo) - record.live.changed_at
        return record.live.digest == wanted.digest and old >= timedelta(seconds=HEALTH_SECONDS)

    def app(self) -> Object:
        return self.store.get(APPLICATIONS, "demo", namespace="argocd")


def replace_digest(digest: str) -> Any:
    made = release("demo", chart=chart("demo").model_copy(update={"manifest_digest": digest}))
    return made


@pytest.fixture
def bench(registry: Registry, tmp_path: Path) -> Iterator[Bench]:
    with KubeServer() as server:
        made = Bench(server, registry, tmp_path)
        made.argocd.start()
        yield made
        made.argocd.stop()
        assert made.argocd.problems == []


def digest_of(registry: Registry, version: str = "1.0.0") -> str:
    return registry.push_chart("demo", version, {"deployment.yaml": DEPLOYMENT})


def scaled(scenario: Scenario) -> tuple[Scenario, Graces]:
    """The scenario happening to our release, in less time."""
    engine = scenario.configured({"engine": {}})["engine"]
    graces = Graces.of(Engine.model_validate(engine))
    found = scenario.on("demo")
    quick = {
        name: replace(fault, seconds=fault.seconds * SCALE if fault.seconds else None)
        for name, fault in found.applications.items()
    }
    times = (graces.degraded, graces.errors, graces.suspended)
    return replace(found, applications=quick), Graces(*(time * SCALE for time in times))


#: Rows of the readiness table that the stand-in comes to on the way.
WAITS = {
    "stale-status": "health is from before the sync",
    "missed-refresh": "a refresh is asked for and not done",
    "cached-manifest-error": "Manifest generation error (cached)",
    "registry-away": "no such host",
    "node-reboots": "Degraded 1 of 2 nodes is not ready",
    "controller-restarts": "sync is running",
    "sync-window": "sync is running: Sync operation blocked by sync window",
    "engine-suspended": "its operation has not started",
    "leaked-operation": "not finished at the wanted digest",
}


@pytest.mark.parametrize("upgrade", [False, True], ids=["install", "upgrade"])
@pytest.mark.parametrize("name", names())
def test_the_look_comes_to_what_the_scenario_says(
    bench: Bench, registry: Registry, name: str, upgrade: bool
) -> None:
    first, second = digest_of(registry), digest_of(registry, "1.1.0")
    if upgrade:
        assert bench.follow(bench.apply(first)).last.state == "ready"
    scenario = Scenario.named(name)
    bench.argocd.scenario, bench.graces = scaled(scenario)
    waiter = bench.apply(second, index=2)
    seen = bench.follow(waiter)
    assert any(WAITS.get(name, "") in verdict.message for verdict in seen.verdicts), seen.verdicts
    if scenario.reason == "RolledOut":
        assert seen.last.state == "ready", seen.last
        assert bench.truly_ready()
        assert bench.app()["spec"]["syncPolicy"]["automated"] == AUTOMATED
        assert bench.app()["status"]["sync"]["revision"] == second
    else:
        assert seen.last.state == "failed"
        assert str(seen.last.reason) == scenario.reason
        assert scenario.said
        assert scenario.said in seen.last.message
    if scenario.reason == "EngineSuspended":
        assert "operation" not in bench.app(), "it would run later, without a gate"


def naive(application: Object | None, digest: str) -> bool:
    """What peers call ready: synced at the digest, and healthy."""
    status = (application or {}).get("status") or {}
    sync, health = status.get("sync") or {}, status.get("health") or {}
    return bool(
        sync.get("status") == "Synced"
        and sync.get("revision") == digest
        and health.get("status") == "Healthy"
    )


@pytest.mark.parametrize("name", ["stale-status", "missed-refresh"])
def test_who_believes_the_status_is_fooled(bench: Bench, registry: Registry, name: str) -> None:
    digest = digest_of(registry)
    bench.argocd.scenario, bench.graces = scaled(Scenario.named(name))
    waiter, fooled = bench.apply(digest), 0
    for _ in range(400):
        application, true = bench.store.find(APPLICATIONS, "demo", namespace="argocd"), bench.truly_ready()
        found = bench.look(waiter)
        fooled += naive(application, digest) and not true
        if found.state == "ready":
            assert true
            break
        time.sleep(0.01)
    assert found.state == "ready"
    assert fooled, "the lie was told"


def test_the_leak_is_one_that_says_succeeded(bench: Bench, registry: Registry) -> None:
    bench.argocd.scenario, bench.graces = scaled(Scenario.named("leaked-operation"))
    seen = bench.follow(bench.apply(digest_of(registry)))
    states = [(found or {}).get("status", {}).get("operationState") or {} for found in seen.applications]
    assert states[-1]["phase"] == "Succeeded"
    assert states[-1]["operation"]["sync"]["resources"], "Argo CD says itself that it was not asked for all"
    assert not bench.truly_ready()


def test_a_missed_refresh_is_written_twice(bench: Bench, registry: Registry) -> None:
    bench.argocd.scenario, bench.graces = scaled(Scenario.named("missed-refresh"))
    seen = bench.follow(bench.apply(digest_of(registry)))
    asked = {
        (found or {}).get("metadata", {}).get("annotations", {}).get("aicr-pipeline.dev/refreshed")
        for found in seen.applications
    }
    assert len(asked - {None}) == 2


def test_a_remembered_error_is_cleared_by_a_hard_refresh_only(bench: Bench, registry: Registry) -> None:
    bench.argocd.scenario = Scenario({"demo": Fault(cached=True, message="boom")})
    bench.graces = Graces(*(timedelta(seconds=30),) * 3)
    waiter = bench.apply(digest_of(registry))
    for _ in range(200):
        if "(cached): boom" in bench.look(waiter).message:
            break
        time.sleep(0.02)
    for kind in ("normal", "hard"):
        bench.adapter.change_application(
            "demo", {"metadata": {"annotations": {"argocd.argoproj.io/refresh": kind}}}
        )
        for _ in range(200):
            if "argocd.argoproj.io/refresh" not in bench.app()["metadata"]["annotations"]:
                break
            time.sleep(0.02)
        assert bool(bench.app()["status"]["conditions"]) is (kind == "normal")


def test_what_argo_cd_compares_unasked_it_keeps_quiet_about(bench: Bench, registry: Registry) -> None:
    """The repo-error grace: after the sync nothing is compared, and nothing says so but reconciledAt."""
    bench.argocd.scenario = Scenario({"demo": Fault(away=True)})
    waiter = bench.apply(digest_of(registry))
    for _ in range(200):
        if bench.app().get("status", {}).get("operationState", {}).get("phase") == "Succeeded":
            break
        time.sleep(0.02)
    time.sleep(2 * HEALTH_SECONDS)  # whatever it does of its own accord, it has done
    assert not bench.app()["status"].get("conditions")
    assert bench.look(waiter).state == "waiting"
    bench.adapter.change_application(
        "demo", {"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}}
    )
    for _ in range(200):
        if bench.app()["status"].get("conditions"):
            break
        time.sleep(0.02)
    assert "no such host" in bench.look(waiter).message


def test_a_spec_that_was_refused_before_is_not_held_against_ours(bench: Bench, registry: Registry) -> None:
    """The project allows what the new plan asks for, and not what the old one did: a registry that moved."""
    first, second = digest_of(registry), digest_of(registry, "1.1.0")
    assert bench.follow(bench.apply(first)).last.state == "ready"
    source = {"repoURL": "oci://moved.example/charts/demo"}
    bench.adapter.change_application("demo", {"spec": {"source": source, "syncPolicy": {"automated": None}}})
    for _ in range(500):
        if bench.app()["status"].get("conditions"):
            break
        time.sleep(0.02)
    assert "is not permitted in project" in str(bench.app()["status"]["conditions"])
    seen = bench.follow(bench.apply(second, index=2))
    assert seen.last.state == "ready", seen.last
    assert bench.truly_ready()


def test_a_window_that_closes_over_a_sync_is_waited_for_longer_than_the_grace(
    bench: Bench, registry: Registry
) -> None:
    bench.graces = Graces(suspended=timedelta(seconds=1))
    bench.argocd.scenario = Scenario({"demo": Fault(blocked=True, half=True, seconds=2.5)})
    seen = bench.follow(bench.apply(digest_of(registry)))
    assert seen.last.state == "ready", seen.last
    assert any("blocked by sync window" in verdict.message for verdict in seen.verdicts)
    assert bench.truly_ready()


def test_automated_sync_that_was_faster_is_waited_for(bench: Bench, registry: Registry) -> None:
    """Self-heal is on between rollouts: its operation may be under way when a step comes to write."""
    first, second = digest_of(registry), digest_of(registry, "1.1.0")
    assert bench.follow(bench.apply(first)).last.state == "ready"
    bench.argocd.scenario = Scenario({"demo": Fault(blocked=True, seconds=1)})
    bench.adapter.change_application(
        "demo", {"operation": {"initiatedBy": {"automated": True}, "sync": {"revision": first}}}
    )
    with pytest.raises(OperationInFlightError):
        bench.apply(second, index=2)
    assert bench.app()["spec"]["source"]["targetRevision"] == first
    bench.argocd.scenario = Scenario()
    for _ in range(500):
        if "operation" not in bench.app():
            break
        time.sleep(0.02)
    seen = bench.follow(bench.apply(second, index=2))
    assert seen.last.state == "ready"
    assert bench.truly_ready()
    assert bench.app()["status"]["sync"]["revision"] == second


def test_automated_sync_never_takes_the_place_of_ours(bench: Bench, registry: Registry) -> None:
    """Somebody puts ``automated`` back while our operation waits: the controller leaves ours alone."""
    digest = digest_of(registry)
    bench.argocd.stop()
    bench.apply(digest)
    bench.adapter.change_application("demo", {"spec": {"syncPolicy": {"automated": {"selfHeal": True}}}})
    again = ArgoCdStandin(bench.store, helm=helm_binary(), workdir=bench.workdir, settings=SETTINGS)
    again.start()
    try:
        for _ in range(500):
            if bench.app().get("status", {}).get("history"):
                break
            time.sleep(0.02)
    finally:
        again.stop()
    assert [entry["initiatedBy"] for entry in bench.app()["status"]["history"]] == [{"username": MANAGED_BY}]


def test_real_manifest_errors_are_remembered_after_three(bench: Bench, registry: Registry) -> None:
    broken = registry.push_chart("demo", "2.0.0", {"broken.yaml": '{{ fail "no driver" }}'})
    bench.apply(broken)
    said: list[str] = []
    for _ in range(300):
        conditions = bench.app().get("status", {}).get("conditions") or [{}]
        if conditions[0].get("message") and conditions[0]["message"] not in said:
            said.append(conditions[0]["message"])
        if any("(cached)" in words for words in said):
            break
        bench.adapter.change_application(
            "demo", {"metadata": {"annotations": {"argocd.argoproj.io/refresh": "normal"}}}
        )
        time.sleep(0.03)
    assert "no driver" in said[0]
    assert "(cached)" not in said[0]
    assert "Manifest generation error (cached)" in said[-1]


def test_a_restart_asks_for_nothing_twice(bench: Bench, registry: Registry) -> None:
    bench.argocd.scenario, bench.graces = scaled(Scenario.named("controller-restarts"))
    seen = bench.follow(bench.apply(digest_of(registry)))
    assert seen.last.state == "ready"
    assert len(bench.app()["status"]["history"]) == 1


def test_somebody_stands_in_the_status_where_we_were(bench: Bench, registry: Registry) -> None:
    bench.argocd.scenario, bench.graces = scaled(Scenario.named("somebody-syncs"))
    seen = bench.follow(bench.apply(digest_of(registry)))
    assert seen.last.state == "ready"
    state = bench.app()["status"]["operationState"]
    assert state["operation"]["initiatedBy"] == {"username": "alice"}
    assert state["operation"]["sync"]["resources"]


def test_each_scenario_is_told_to_people() -> None:
    for name in names():
        scenario = Scenario.named(name)
        assert scenario.title, name
        assert scenario.expect.endswith("."), name
        assert len(scenario.applications) == 1, name
        assert (scenario.reason == "RolledOut") is (scenario.said == ""), name
