"""The readiness tables through an API server: what a server stores gets the verdict that the table has.

Each Application of the tables is written as Argo CD writes it, read back and judged: nothing that readiness
looks at is pruned by the definitions. What a server refuses cannot be there, and is counted.
"""

from __future__ import annotations

import copy
import time
from collections.abc import Iterable
from datetime import timedelta
from typing import Any

import pytest
import yaml
from aicr_pipeline.clock import parse_time
from aicr_pipeline.decide.application import done_after_asking, spec_digest, was_asked
from aicr_pipeline.decide.readiness import Readiness, readiness

from local.kube import argocd_crds
from tests.functional.kube.helpers import Cluster, make_namespace, unique
from tests.functional.kube.test_kube_argocd import real_definitions
from tests.unit import test_readiness as plain
from tests.unit import test_readiness_others as others
from tests.unit import test_readiness_time as timed
from tests.unit.applications import NOW, REQUEST, SINCE, WANTED, application

DEFINITIONS = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions"
PLAIN = [*plain.STALE, *plain.UNDER_WAY, *plain.FAILED, *plain.FINE, *plain.UNCHANGED]
#: Fields that the definitions require or check: judged all the same, since definitions change.
IMPOSSIBLE = {"no sync status", "no phase", "Unchanged, not compared", "degraded with a time that is none"}
TIMED = [*timed.DEGRADED, *timed.CONDITIONS, *timed.CONTROLLER, *others.SOMEBODY, *others.WORDS]


@pytest.fixture(scope="module")
def applications(cluster: Cluster) -> str:
    """The path of Applications in a namespace, with Argo CD's own definitions where they are at hand."""
    found = [file for folder in real_definitions()[:1] for file in sorted(folder.glob("*.yaml"))]
    definitions = [yaml.safe_load(file.read_text()) for file in found] or [
        argocd_crds.APPLICATION,
        argocd_crds.APP_PROJECT,
    ]
    for definition in definitions:
        answer = cluster.send("POST", DEFINITIONS, definition)
        assert answer.status in (201, 409), answer
    path = f"/apis/argoproj.io/v1alpha1/namespaces/{make_namespace(cluster.client())}/applications"
    until = time.monotonic() + 20
    while cluster.send("GET", path).status != 200:
        assert time.monotonic() < until, "the definitions are not served"
        time.sleep(0.05)
    return path


def stored(cluster: Cluster, path: str, made: dict[str, Any]) -> dict[str, Any] | None:
    """The Application as a server gives it back; None when it refuses to have it."""
    body = copy.deepcopy(made)
    body |= {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application"}
    body["metadata"]["name"] = unique("app")
    body["spec"]["project"] = "aicr"
    created = cluster.send("POST", path, body)
    if created.status == 422:
        return None
    assert created.status == 201, created
    read = cluster.send("GET", f"{path}/{body['metadata']['name']}").body
    read["metadata"]["name"] = made["metadata"]["name"]
    return read


def agree(
    cluster: Cluster, path: str, cases: Iterable[tuple[str, dict[str, Any], Any]]
) -> tuple[set[str], list[str]]:
    """Names of those that are refused, and those that were judged otherwise once stored."""
    impossible, otherwise = set(), []
    for name, made, judge in cases:
        read = stored(cluster, path, made)
        if read is None:
            impossible.add(name.partition(": ")[2])
            continue
        before, now = judge(made), judge(read)
        if (before.state, before.reason, before.refresh) != (now.state, now.reason, now.refresh):
            otherwise.append(f"{name}: {before} became {now}")
    return impossible, otherwise


def test_the_table_of_states_agrees(cluster: Cluster, applications: str) -> None:
    def judge(request: str | None) -> Any:
        return lambda made: readiness(made, WANTED, request, NOW, since=SINCE)

    cases = [(str(case.id), application(case.values[0]), judge(case.values[1])) for case in PLAIN]
    impossible, otherwise = agree(cluster, applications, cases)
    assert otherwise == []
    assert impossible <= IMPOSSIBLE, "the rest of the table can be there"


def test_the_table_of_times_agrees(cluster: Cluster, applications: str) -> None:
    def judge(minutes: float) -> Any:
        now = SINCE + timedelta(minutes=minutes)
        return lambda made: readiness(made, WANTED, REQUEST, now, since=SINCE)

    cases = [(str(case.id), application(case.values[0]), judge(case.values[1])) for case in TIMED]
    impossible, otherwise = agree(cluster, applications, cases)
    assert otherwise == []
    assert impossible <= IMPOSSIBLE, "the rest of the table can be there"


def test_the_evidence_of_our_request_survives_a_server(cluster: Cluster, applications: str) -> None:
    made = application({**others.asked(others.entry(4)), **others.SELF_HEALED})
    read = stored(cluster, applications, made)
    assert read is not None
    assert was_asked(read, REQUEST)
    assert done_after_asking(read, WANTED, REQUEST)
    assert spec_digest(read["spec"]) == spec_digest({**made["spec"], "project": "aicr"})


def test_a_status_is_written_by_parts_and_what_is_not_taken_away_stays(
    cluster: Cluster, applications: str
) -> None:
    """The merge patches of Argo CD's controller leave fields of an older operation: readiness sees them."""
    older = {"phase": "Succeeded", "startedAt": "2026-01-01T09:00:00Z", "finishedAt": "2026-01-01T09:01:00Z"}
    leak = {"sync": {"revision": WANTED, "resources": [{"group": "batch", "kind": "Job", "name": "x"}]}}
    made = application({"status/operationState": {**older, "operation": leak}})
    body = copy.deepcopy(made) | {"apiVersion": "argoproj.io/v1alpha1", "kind": "Application"}
    body["metadata"]["name"] = name = unique("leak")
    body["spec"]["project"] = "aicr"
    assert cluster.send("POST", applications, body).status == 201
    ours = {
        "operation": {"info": others.INFO, "sync": {"revision": WANTED}},
        "syncResult": {"revision": WANTED},
    }
    ours["syncResult"]["source"] = made["spec"]["source"]
    begun = {"phase": "Succeeded", "startedAt": "2026-01-01T10:00:00Z", "finishedAt": "2026-01-01T10:00:04Z"}

    def merge(patch: dict[str, Any]) -> Readiness:
        answer = cluster.send("PATCH", f"{applications}/{name}", patch, "application/merge-patch+json")
        assert answer.status == 200, answer
        at = parse_time("2026-01-01T10:00:30Z")
        return readiness(answer.body, WANTED, REQUEST, at, since=SINCE)

    found = merge({"status": {"operationState": {**begun, **ours}}})
    assert found.state == "waiting"
    assert "not finished at the wanted digest" in found.message
    merge({"status": {"operationState": None}})
    assert merge({"status": {"operationState": {**begun, **ours}}}).state == "ready"
