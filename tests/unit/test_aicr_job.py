"""AICR's Jobs: rights, flags and names. AICR's own Job, as captured, is the measure of the snapshot's."""

import base64
import json
import re
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from aicr_pipeline.decide.aicr_job import (
    PushTarget,
    Signing,
    input_config_map,
    registry_secret,
    render_job,
    snapshot_job,
    validate_job,
)
from aicr_pipeline.decide.names import job_name
from aicr_pipeline.model.aicr_generation import Generation
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.runtime import NodeGroup, Toleration

from local.kubelet.mounts import expand
from tests.unit.samples import IMAGE, refused, runtime

PUSH = PushTarget("registry.example/aicr/demo/bundles/demo:run-1", plain_http=False)
PLAIN = PushTarget("127.0.0.1:5000/aicr/demo/x", plain_http=True)
SIGNING = Signing("awskms:///alias/aicr-evidence", "us-west-2", transparency_log=False)


def validation(
    aicr: Generation = Generation.NAMED_ACCOUNT, signing: Signing | None = None, push: PushTarget = PUSH
) -> dict[str, Any]:
    return validate_job("run-validate-1", "run", IMAGE, aicr, SYSTEM, push, signing)


NODES = runtime().spec.placement.accelerated
SYSTEM = NodeGroup(node_selector={"pool": "system"}, tolerations=(Toleration(key="a", operator="Exists"),))
JOBS: dict[str, dict[str, Any]] = {
    "snapshot": snapshot_job("run-snapshot-1", "run", IMAGE, NODES),
    "render": render_job("run-render-1", "run", IMAGE, runtime(), PUSH),
    "validate": validation(),
}


def pod(job: dict[str, Any]) -> dict[str, Any]:
    return dict(job["spec"]["template"]["spec"])


def containers(job: dict[str, Any]) -> list[dict[str, Any]]:
    return [*pod(job).get("initContainers", []), *pod(job)["containers"]]


@pytest.mark.parametrize("kind", JOBS)
def test_every_job(kind: str) -> None:
    job = JOBS[kind]
    assert job["spec"]["backoffLimit"] == 0, "an attempt is a Job of its own"
    assert job["spec"]["activeDeadlineSeconds"] > 0
    assert job["spec"]["template"]["metadata"]["labels"] == job["metadata"]["labels"]
    assert pod(job)["restartPolicy"] == "Never"
    for container in containers(job):
        assert (container["image"], container["command"]) == (IMAGE, ["aicr"])
        assert container["resources"]["limits"]


@pytest.mark.parametrize("kind", ["render", "validate"])
def test_jobs_that_read_no_hardware_run_restricted(kind: str) -> None:
    """What the restricted Pod Security standard asks for, and a root that cannot be written."""
    spec = pod(JOBS[kind])
    assert spec["securityContext"]["runAsNonRoot"] is True
    assert spec["securityContext"]["runAsUser"] != 0
    assert spec["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert not {"hostPID", "hostIPC", "hostNetwork"} & set(spec)
    assert {next(iter(set(volume) - {"name"})) for volume in spec["volumes"]} == {"emptyDir", "secret"}
    for container in containers(JOBS[kind]):
        assert container["securityContext"] == {
            "allowPrivilegeEscalation": False,
            "capabilities": {"drop": ["ALL"]},
            "readOnlyRootFilesystem": True,
        }
        assert {"name": "DOCKER_CONFIG", "value": "/auth"} in container["env"]
    secret = next(volume["secret"] for volume in spec["volumes"] if volume["name"] == "auth")
    assert secret["secretName"] == JOBS[kind]["metadata"]["name"]


def test_the_snapshots_pod_is_aicrs_own(captured: Path) -> None:
    theirs = json.loads(
        (captured / "h100-eks-ubuntu-training-kubeflow/snapshot/job.json").read_text()
    )["spec"]["template"]["spec"]  # fmt: skip
    ours = pod(JOBS["snapshot"])
    for field in ("hostPID", "hostIPC", "hostNetwork", "restartPolicy", "tolerations"):
        assert ours[field] == theirs[field], field
    own, their = ours["containers"][0], theirs["containers"][0]
    for field in ("command", "env", "securityContext"):
        assert own[field] == their[field], field
    assert own["args"] == ["snapshot", "-o", "cm://aicr-system/run-snapshot-1"]
    assert {m["mountPath"]: m.get("readOnly") for m in own["volumeMounts"]} == {
        m["mountPath"]: m.get("readOnly") for m in their["volumeMounts"]
    }
    assert [v.get("hostPath") for v in ours["volumes"]] == [v.get("hostPath") for v in theirs["volumes"]]


def test_what_needs_no_accelerator_runs_on_the_systems_nodes() -> None:
    """Also where all nodes of a cluster have taints."""
    toleration = {"key": "dedicated", "operator": "Exists", "effect": "NoSchedule"}
    wish = runtime(**{"placement.system.tolerations": [toleration]})
    for job, tolerated in (
        (render_job("n", "r", IMAGE, wish, PUSH), toleration),
        (JOBS["validate"], {"key": "a", "operator": "Exists"}),
    ):
        assert pod(job)["nodeSelector"] == {"pool": "system"}
        assert pod(job)["tolerations"] == [tolerated]


def test_accounts() -> None:
    assert {kind: pod(job)["serviceAccountName"] for kind, job in JOBS.items()} == {
        "snapshot": "aicr-snapshot",
        "render": "aicr-render",
        "validate": "aicr-validation",
    }
    assert JOBS["validate"]["metadata"]["namespace"] == "aicr-validation"
    assert JOBS["render"]["metadata"]["namespace"] == "aicr-system"


def test_the_flags_of_a_render() -> None:
    recipe, bundle = (container["args"] for container in containers(JOBS["render"]))
    assert recipe == [
        *("recipe", "--service", "eks", "--accelerator", "h100", "--os", "ubuntu"),
        *("--intent", "training", "--platform", "kubeflow", "-o", "/work/recipe.yaml"),
    ]
    assert bundle == [
        *("bundle", "-r", "/work/recipe.yaml", "-d", "helm", "--readiness-hooks"),
        *("--system-node-selector", "pool=system", "--accelerated-node-selector", "pool=gpu"),
        *("--accelerated-node-toleration", "nvidia.com/gpu:NoSchedule"),
        *("-o", f"oci://{PUSH.reference}"),
    ]


def test_the_flags_of_a_validation() -> None:
    assert containers(JOBS["validate"])[0]["args"] == [
        *("validate", "-r", "cm://aicr-validation/run-validate-1-recipe"),
        *("-s", "cm://aicr-validation/run-validate-1-snapshot"),
        *("--phase", "deployment", "--namespace", "aicr-validation"),
        *("--emit-attestation", "/work/evidence", "--push", PUSH.reference),
        *("--no-sign", "--no-cleanup", "-o", "cm://aicr-validation/run-validate-1"),
    ]


def test_the_older_aicr_takes_its_binding_to_cluster_admin_away_again() -> None:
    """What ``--no-cleanup`` leaves has no rights from 1.1.0 on; before, it would be a cluster-admin."""
    older = containers(validation(Generation.OWN_BINDING))[0]["args"]
    assert older == [arg for arg in containers(JOBS["validate"])[0]["args"] if arg != "--no-cleanup"]


@pytest.mark.parametrize(("log", "flags"), [(False, ["--tlog-upload=false"]), (True, [])])
def test_a_key_takes_the_place_of_no_sign(log: bool, flags: list[str]) -> None:
    """Signatures stay out of the public log unless the configuration says otherwise."""
    container = containers(validation(signing=replace(SIGNING, transparency_log=log)))[0]
    unsigned = containers(JOBS["validate"])[0]
    at = unsigned["args"].index("--no-sign")
    assert container["args"] == [
        *unsigned["args"][:at],
        *("--signing-key", "awskms:///alias/aicr-evidence", *flags),
        *unsigned["args"][at + 1 :],
    ]
    assert container["env"] == [*unsigned["env"], {"name": "AWS_REGION", "value": "us-west-2"}]


def test_plain_http_is_asked_for_on_loopback_only() -> None:
    for made in (render_job("n", "r", IMAGE, runtime(), PLAIN), validation(push=PLAIN)):
        assert sum(container["args"].count("--plain-http") for container in containers(made)) == 1
    assert not any("--plain-http" in container["args"] for container in containers(JOBS["render"]))


def rendered(**changes: Any) -> list[str]:
    return list(containers(render_job("n", "r", IMAGE, runtime(**changes), PUSH))[1]["args"])


def tolerating(**toleration: Any) -> list[str]:
    args = rendered(**{"placement.system.tolerations": [toleration]})
    return [after for flag, after in pairwise(args) if flag == "--system-node-toleration"]


@pytest.mark.parametrize(
    ("toleration", "flag"),
    [
        ({"key": "a", "operator": "Exists", "effect": "NoSchedule"}, "a:NoSchedule"),
        ({"key": "a/b", "value": "c", "effect": "NoExecute"}, "a/b=c:NoExecute"),
        (
            {"key": "a", "operator": "Equal", "value": "c", "effect": "PreferNoSchedule"},
            "a=c:PreferNoSchedule",
        ),
    ],
)
def test_tolerations(toleration: dict[str, Any], flag: str) -> None:
    assert tolerating(**toleration) == [flag]


@pytest.mark.parametrize(
    ("toleration", "said"),
    [
        ({"operator": "Exists"}, "key and effect are required"),
        ({"key": "a", "operator": "Exists"}, "key and effect are required"),
        ({"key": "a", "value": "b"}, "key and effect are required"),
        ({"operator": "Exists", "effect": "NoSchedule"}, "key and effect are required"),
        ({"key": "a", "effect": "NoSchedule"}, "operator Exists"),
        ({"key": "a", "value": "", "effect": "NoSchedule"}, "operator Exists"),
    ],
    ids=[
        "everything",
        "no effect",
        "value, no effect",
        "no key",
        "Equal without value",
        "Equal with empty value",
    ],
)
def test_tolerations_that_aicrs_flags_cannot_express(toleration: dict[str, Any], said: str) -> None:
    with refused(Reason.InvalidPlacement, "spec.placement.system.tolerations", said):
        tolerating(**toleration)


def test_selectors_are_sorted_and_may_be_empty() -> None:
    args = rendered(**{"placement.system.nodeSelector": {"z": "1", "a/b": ""}})
    assert args[6:10] == ["--system-node-selector", "a/b=", "--system-node-selector", "z=1"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("580", '"580"'),
        (580, "580"),
        (True, "true"),
        (None, "null"),
        ("a b; rm -rf / $(x) 'y' \"z\"", '"a b; rm -rf / $(x) \'y\' \\"z\\""'),
        ("a=b,c", '"a=b,c"'),
        (["x", {"b": 1, "a": 2}], '["x",{"a":2,"b":1}]'),
        ({"a.b": "c"}, '{"a.b":"c"}'),
        ("line\nbreak", '"line\\nbreak"'),
        ("--help", '"--help"'),
    ],
)
def test_overrides_are_json_in_one_argument(value: Any, text: str) -> None:
    args = rendered(overrides={"gpu-operator": {"driver.version": value}})
    args = [expand(argument, {}) for argument in args]
    at = args.index("--set-json")
    assert args[at + 1] == f"gpu-operator:driver.version={text}"
    assert json.loads(args[at + 1].partition("=")[2]) == value


@pytest.mark.parametrize("value", ["$(HOME)", "$$(HOME)", "$HOME", "a$$b", "$", "$(", "x$$$(TMPDIR)"])
def test_kubernetes_puts_no_variable_into_an_override(value: str) -> None:
    bundle = containers(render_job("n", "r", IMAGE, runtime(overrides={"a": {"b": value}}), PUSH))[1]
    variables = {variable["name"]: variable["value"] for variable in bundle["env"]}
    assert f"a:b={json.dumps(value)}" in [expand(argument, variables) for argument in bundle["args"]]


def test_overrides_come_in_one_order() -> None:
    one = rendered(overrides={"b": {"y": 1, "x": 2}, "a": {"z": 3}})
    assert [arg for arg in one if ":" in arg and "=" in arg and not arg.startswith("oci")] == [
        "a:z=3",
        "b:x=2",
        "b:y=1",
    ]
    assert one == rendered(overrides={"a": {"z": 3}, "b": {"x": 2, "y": 1}})


@pytest.mark.parametrize(
    "run", ["r", "demo-12345678-1", "d" * 80, "Demo_X-" + "y" * 60, "a" * 52 + "-" + "b" * 9]
)
@pytest.mark.parametrize("purpose", ["snapshot", "render", "validate", "confirm"])
@pytest.mark.parametrize("attempt", [1, 9])
def test_names_and_labels_are_what_kubernetes_takes(run: str, purpose: str, attempt: int) -> None:
    name = job_name(run, purpose, attempt)
    assert len(name) <= 63
    assert re.fullmatch(r"[a-z0-9]([-a-z0-9]*[a-z0-9])?", name)
    assert name.endswith(f"{purpose}-{attempt}")
    for value in snapshot_job(name, run, IMAGE, NODES)["metadata"]["labels"].values():
        assert re.fullmatch(r"[A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?", value)


STARTED = {**JOBS["validate"], "metadata": {**JOBS["validate"]["metadata"], "uid": "u-1"}}
OWNER = [{"apiVersion": "batch/v1", "kind": "Job", "name": "run-validate-1", "uid": "u-1"}]


def test_the_registry_secret_is_dockers_and_goes_with_its_job() -> None:
    secret = registry_secret(STARTED, "registry.example", "AWS", "p:w")
    assert secret["type"] == "kubernetes.io/dockerconfigjson"
    assert secret["metadata"]["ownerReferences"] == OWNER
    assert secret["metadata"]["name"] == "run-validate-1"
    found = json.loads(base64.b64decode(secret["data"][".dockerconfigjson"]))
    assert base64.b64decode(found["auths"]["registry.example"]["auth"]) == b"AWS:p:w"


def test_inputs_are_owned_and_bounded() -> None:
    made = input_config_map(STARTED, "recipe", "kind: x")
    assert made["metadata"]["name"] == "run-validate-1-recipe"
    assert made["metadata"]["ownerReferences"] == OWNER
    assert made["data"] == {"snapshot.yaml": "kind: x", "format": "yaml"}
    input_config_map(STARTED, "recipe", "x" * 1_000_000)
    with refused(Reason.ContentTooLarge, "The recipe"):
        input_config_map(STARTED, "recipe", "é" * 500_001)
