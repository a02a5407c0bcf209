"""Resolves that are refused before anything runs: the status says the same as console and mail."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from local.kube import NAMESPACES
from tests.workflow import exhibits
from tests.workflow.machine import runtime
from tests.workflow.small.machine import SmallMachine
from tests.workflow.small.terminal import told
from tests.workflow.small.test_reasons import project

DIGEST = "sha256:" + "6" * 64


def refused(small: SmallMachine, reason: str, words: str) -> None:
    """A submission ends with this reason; status, console and mail have the same sentence."""
    sent = len(small.pipeline.aws.messages)
    ended = small.resolve(runtime(paused=True))
    assert (ended.status, ended.error) == ("FAILED", reason), ended.cause
    assert words in (ended.cause or "")
    assert any(words in message.message for message in small.pipeline.aws.messages[sent:])
    said = told(small)
    assert f"Stalled          True    {reason}" in said
    assert f"Resolved         False   {reason}" in said
    assert words in said


@contextmanager
def configured(small: SmallMachine, function: str, **changes: dict[str, Any]) -> Iterator[None]:
    """Another configuration for one function, for a while."""
    aws = small.pipeline.aws
    name = f"aicr-pipeline-{small.pipeline.config.cluster.name}-{function}"
    before = aws.functions[name]
    document = small.pipeline.config.wire()
    for part, fields in changes.items():
        document[part] = {**document[part], **fields}
    file = small.pipeline.options.workdir / f"{function}.json"
    file.write_text(json.dumps(document))
    aws.set_environment(name, {"CLUSTER_CONFIG": str(file)})
    try:
        yield
    finally:
        aws.functions[name] = before


def test_a_namespace_is_missing(small: SmallMachine) -> None:
    store = small.pipeline.kube.store
    found = store.get(NAMESPACES, "kubeflow")
    store.delete(NAMESPACES, "kubeflow")
    try:
        refused(small, "NamespaceMissing", "Namespaces are missing: kubeflow. Apply the cluster manifests")
    finally:
        store.create(NAMESPACES, {"metadata": {key: found["metadata"][key] for key in ("name", "labels")}})


def test_the_project_is_missing(small: SmallMachine) -> None:
    with project(small):
        refused(small, "ProjectMissing", "AppProject aicr is missing in argocd. Apply the cluster manifests")


@pytest.mark.parametrize(
    ("changes", "reason", "words"),
    [
        (
            # A key that nothing would sign with is refused before that.
            {"validation": {"enabled": False, "signingKey": None, "transparencyLog": False}},
            "ValidationUnavailable",
            "validation.enabled is false",
        ),
        ({"engine": {"surprise": 1}}, "InvalidConfiguration", "engine.surprise: unknown field"),
        (
            {
                "registry": {
                    "auth": {"provider": "static", "secretArn": "arn:aws:secretsmanager:us-west-2:1:x"}
                }
            },
            "RegistryCredentialsUnavailable",
            "secret",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_what_the_configuration_lacks(
    small: SmallMachine, changes: dict[str, Any], reason: str, words: str
) -> None:
    with configured(small, "check_prerequisites", **changes):
        refused(small, reason, words)


def test_a_tag_of_our_registry_holds_another_chart(small: SmallMachine) -> None:
    """Somebody pushed under our prefix; nothing is overwritten."""
    store = small.pipeline.registry.store
    name = f"{small.pipeline.config.registry.prefix}/charts/cert-manager"
    tag = store.tags(name)[0]
    found = store.manifest(name, tag)
    assert found is not None
    other = json.loads(found[0])
    next(layer for layer in other["layers"] if "chart.content" in layer["mediaType"])["digest"] = DIGEST
    store.put_manifest(name, tag, json.dumps(other).encode(), found[1])
    try:
        refused(small, "Conflict", "under that version; nothing was overwritten")
    finally:
        store.put_manifest(name, tag, found[0], found[1])


def test_a_registry_that_does_not_speak_https(small: SmallMachine) -> None:
    """It is the same the next time, so nothing is tried again; an outage stalls the execution instead."""
    with configured(small, "mirror_chart", registry={"plainHttp": False}):
        refused(small, "RegistryUnreachable", "does not speak https")


def test_the_cluster_cannot_be_reached(small: SmallMachine) -> None:
    with configured(small, "update_status", cluster={"endpoint": "http://127.0.0.1:9"}):
        said = told(small)
    words = "The cluster's API at http://127.0.0.1:9 cannot be reached"
    assert f"Ready=False (ClusterUnreachable)\n  {words}" in said
    assert "EngineAvailable  Unknown  ClusterUnreachable" in said


def test_a_runtime_that_is_being_resolved(small: SmallMachine) -> None:
    said = told(small)
    assert "Resolved         False   Resolving" in said
    assert "of the runtime is being resolved." in said
    exhibits.seen(
        small, "Resolving", "Version" + said.partition("Resolved         Version")[2].partition("\n")[0]
    )
