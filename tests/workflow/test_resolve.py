"""The resolve machine on a whole machine: the straight path, the digest, and every bad input."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from local.argocd.installed import controller
from local.kube import NODES
from tests.workflow.machine import Machine, machine, runtime

pytestmark = pytest.mark.xdist_group("workflow-resolve")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Machine]:
    with machine(tmp_path_factory.mktemp("resolve")) as found:
        for name, instance, system in (
            ("old", "p4d.24xlarge", "Ubuntu 22.04.5 LTS"),
            ("new", "p5.48xlarge", "Ubuntu 24.04.3 LTS"),
        ):
            labels = {"eks.amazonaws.com/nodegroup": "mixed", "node.kubernetes.io/instance-type": instance}
            node = {"metadata": {"name": name, "labels": labels}, "status": {"nodeInfo": {"osImage": system}}}
            found.pipeline.kube.store.create(NODES, node)
        yield found


@pytest.mark.parametrize(
    ("wish", "reason", "words"),
    [
        (runtime(surprise=1), "InvalidRuntime", "spec.surprise: unknown field"),
        (runtime(paused="yes"), "InvalidRuntime", "spec.paused"),
        (runtime(placement=None), "InvalidRuntime", "spec.placement: required, but missing"),
        (runtime().replace(b"name: cluster", b"name: other"), "InvalidRuntime", "metadata.name"),
        (b"apiVersion: [", "InvalidRuntime", "not valid YAML"),
        (b"# " + b"x" * (2 << 20), "ContentTooLarge", "2097154 bytes"),
        (
            runtime(aicr={"version": "v2.0.0", "image": "ghcr.io/nvidia/aicr@sha256:" + "1" * 64}),
            "AICRVersionMismatch",
            "v2.0.0",
        ),
    ],
    ids=[
        "unknown field",
        "wrong type",
        "no placement",
        "another name",
        "no YAML",
        "two megabytes",
        "AICR 2",
    ],
)
def test_bad_runtime_stalls_with_its_reason(running: Machine, wish: bytes, reason: str, words: str) -> None:
    ended = running.resolve(wish)
    assert (ended.status, ended.error) == ("FAILED", reason)
    assert words in (ended.cause or "")
    # Nothing is half-written, and people were told: that mark is all there is of it.
    keys = [key for key in _ledger_keys(running) if ended.name in key]
    assert keys == [f"resolves/{ended.name}/told.json"]
    assert reason in (running.pipeline.aws.messages[-1].subject or "")


def placed(
    system: dict[str, str], accelerated: dict[str, str], *tolerations: dict[str, str]
) -> dict[str, Any]:
    group = {"nodeSelector": accelerated, "tolerations": list(tolerations)}
    return {"placement": {"system": {"nodeSelector": system}, "accelerated": group}}


GROUP = "eks.amazonaws.com/nodegroup"
ANYTHING = {"key": "nvidia.com/gpu", "operator": "Exists", "effect": "NoSchedule"}


@pytest.mark.parametrize(
    ("spec", "reason", "words"),
    [
        (
            placed({GROUP: "system"}, {GROUP: "none"}),
            "NodeGroupEmpty",
            "spec.placement.accelerated.nodeSelector",
        ),
        (
            placed({GROUP: "system"}, {"kubernetes.io/os": "linux"}, ANYTHING),
            "PlacementOverlap",
            "Node ip-10-0-1-11.us-west-2.compute.internal is in both groups",
        ),
        (
            placed({GROUP: "system"}, {GROUP: "gpu"}),
            "InvalidPlacement",
            "not tolerated: nvidia.com/gpu=present:NoSchedule (2 of 2 nodes",
        ),
        (
            placed({GROUP: "gpu"}, {GROUP: "mixed"}, ANYTHING),
            "InvalidPlacement",
            "spec.placement.system.tolerations fit no node",
        ),
        (
            placed({GROUP: "system"}, {GROUP: "mixed"}, ANYTHING),
            "AcceleratedGroupHeterogeneous",
            "a100 with ubuntu 22.04 (1, old for one); h100 with ubuntu 24.04 (1, new for one)",
        ),
        (
            {"criteria": {"service": "eks", "accelerator": "gb200", "os": "ubuntu"}},
            "CriteriaConflict",
            "spec.criteria.accelerator is 'gb200', the snapshot says h100",
        ),
        (
            {"overrides": {"no-such-component": {"a": 1}}},
            "InvalidOverride",
            "refuses one of spec.overrides.no-such-component.a",
        ),
        (
            {"overrides": {"aws-ebs-csi-driver": {"controller.nodeSelector": {"pool": "mine"}}}},
            "InvalidOverride",
            "spec.overrides.aws-ebs-csi-driver.controller.nodeSelector.pool",
        ),
    ],
    ids=[
        "no node",
        "overlap",
        "taints",
        "system taints",
        "two kinds",
        "criteria",
        "unknown component",
        "placement has the last word",
    ],
)
def test_wish_that_the_cluster_or_aicr_refuses(
    running: Machine, spec: dict[str, Any], reason: str, words: str
) -> None:
    ended = running.resolve(runtime(**spec))
    assert (ended.status, ended.error) == ("FAILED", reason)
    assert words in (ended.cause or "")


def test_same_wish_same_digest_and_one_value_changes_it(running: Machine) -> None:
    # Paused: resolved, but nothing is rolled out.
    first = running.resolve(runtime(paused=True))
    assert first.status == "SUCCEEDED", first.cause
    paused = {"announced": False, "event": "Plan Paused", "because": "spec.paused is true"}
    assert first.output["announcement"] == paused
    again = running.resolve(runtime(paused=True) + b"# submitted again\n")
    assert again.output["plan"] == first.output["plan"] | {"isNew": False}
    # The second mirror found every chart: nothing was pushed, in at most two requests a chart.
    assert {chart["status"] for chart in again.output["mirror"]} == {"unchanged"}
    assert max(chart["requests"] for chart in again.output["mirror"]) <= 2
    overrides = {"gpu-operator": {"driver.enabled": False}, "aws-efa": {"enabled": False}}
    other = running.resolve(runtime(paused=True, overrides=overrides))
    assert other.status == "SUCCEEDED", other.cause
    assert other.output["plan"]["digest"] != first.output["plan"]["digest"]
    plan = json.loads(running.pipeline.ledger(f"plans/{other.output['plan']['digest'][7:]}.json") or b"")
    values = {release["name"]: release.get("values") for release in plan["desiredState"]["releases"]}
    assert values["gpu-operator"]["driver"]["enabled"] is False
    assert "aws-efa" not in values
    assert len(values) == 16
    assert running.pipeline.aws.executions(running.pipeline.machine("rollout")) == []


def test_a_plan_that_was_changed_after_it_was_written_is_never_taken(running: Machine) -> None:
    first = running.resolve(runtime(paused=True) + b"# whose plan is changed\n")
    key = f"plans/{first.output['plan']['digest'][7:]}.json"
    s3, bucket = running.pipeline.aws.client("s3"), running.pipeline.aws.outputs["LedgerBucket"]
    good = running.pipeline.ledger(key) or b""
    # The ledger's policy lets nobody do this; an administrator takes it away.
    policy = s3.get_bucket_policy(Bucket=bucket)["Policy"]
    s3.delete_bucket_policy(Bucket=bucket)
    s3.put_object(Bucket=bucket, Key=key, Body=good.replace(b'"kubeflow"', b'"dynamo"'))
    ended = running.resolve(runtime(paused=True) + b"# after that\n")
    s3.put_object(Bucket=bucket, Key=key, Body=good)
    s3.put_bucket_policy(Bucket=bucket, Policy=policy)
    assert (ended.status, ended.error) == ("FAILED", "PlanUnreadable")
    assert "was changed after it was written" in (ended.cause or "")


def test_an_engine_that_is_too_old(running: Machine) -> None:
    store, namespace = running.pipeline.kube.store, running.pipeline.config.engine.namespace
    store.apply(controller(namespace, "quay.io/argoproj/argocd:v2.14.11"), namespace)
    ended = running.resolve(runtime(paused=True) + b"# on an old engine\n")
    store.apply(controller(namespace), namespace)
    assert (ended.status, ended.error) == ("FAILED", "EngineMissing")
    assert "Argo CD v2.14.11; 3.1 or later is needed" in (ended.cause or "")


def test_history_stays_small(running: Machine) -> None:
    ended = running.resolve(runtime(paused=True) + b"# once more\n")
    assert ended.events < 250
    assert len(json.dumps(ended.output)) < 8 << 10


def _ledger_keys(running: Machine) -> list[str]:
    s3, bucket = running.pipeline.aws.client("s3"), running.pipeline.aws.outputs["LedgerBucket"]
    pages = s3.get_paginator("list_objects_v2").paginate(Bucket=bucket)
    return [item["Key"] for page in pages for item in page.get("Contents", [])]


def test_nothing_was_lost_on_the_way(running: Machine) -> None:
    assert running.pipeline.aws.problems == []
    assert running.pipeline.aws.report.unknown == {}
    assert Path(running.pipeline.options.workdir).is_dir()
