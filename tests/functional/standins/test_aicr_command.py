"""The stand-in for the command, run as a Job would run it."""

import gzip
import io
import json
import os
import subprocess
import sys
import tarfile
from pathlib import Path

import pytest
import yaml
from aicr_pipeline.decide.bundle import read_bundle
from aicr_pipeline.decide.upgrade_records import read_records

from local.argocd.manifests import target
from local.helm import helm_binary
from tests.functional.standins.support import Registry
from tests.unit import upgrades

ROOT = Path(__file__).resolve().parents[3]
CRITERIA = (
    *("--service", "eks", "--accelerator", "h100", "--os", "ubuntu"),
    *("--intent", "training", "--platform", "kubeflow"),
)
PLACEMENT = (
    *("--system-node-selector", "eks.amazonaws.com/nodegroup=system"),
    *("--accelerated-node-selector", "eks.amazonaws.com/nodegroup=gpu"),
    *("--accelerated-node-toleration", "nvidia.com/gpu:NoSchedule"),
)


def aicr(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    clean = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "HOME": "/nonexistent"}
    return subprocess.run(
        [sys.executable, "-m", "local.aicr", *arguments],
        env=clean | environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=30,
    )


@pytest.fixture
def recipe(tmp_path: Path) -> Path:
    path = tmp_path / "recipe.yaml"
    done = aicr("recipe", *CRITERIA, "-o", str(path))
    assert done.returncode == 0, done.stderr
    return path


def render(recipe: Path, output: str, *more: str, **environment: str) -> subprocess.CompletedProcess[str]:
    return aicr(
        *("bundle", "-r", str(recipe), "-d", "helm", "--readiness-hooks"),
        *PLACEMENT,
        *("-o", output),
        *more,
        **environment,
    )


def files_of(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes() for path in folder.rglob("*") if path.is_file()
    }


def docker_config(folder: Path, registry: Registry, password: str) -> str:
    folder.mkdir(exist_ok=True)
    entry = {"username": registry.user, "password": password}
    (folder / "config.json").write_text(json.dumps({"auths": {registry.host: entry}}))
    return str(folder)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("recipe", *CRITERIA, "--surprise"), 2),
        (("recipe", *CRITERIA[:-1], "spreadsheet"), 2),
        (("recipe", *CRITERIA[:2], "--accelerator", "gb200", *CRITERIA[4:]), 3),
        (("recipe", *CRITERIA[:8]), 3),
        (("bundle", "-r", "/nonexistent/recipe.yaml"), 3),
        (("bundle", "-r", "x", "--plain"), 2),
        (("snapshot", "--privileged"), 2),
    ],
)
def test_a_call_it_does_not_know_ends_with_the_commands_code(arguments: tuple[str, ...], code: int) -> None:
    assert aicr(*arguments).returncode == code


def test_the_sample_bundle_is_one_the_pipeline_reads(recipe: Path, tmp_path: Path) -> None:
    done = render(recipe, str(tmp_path / "bundle"))
    assert done.returncode == 0, done.stderr
    bundle = read_bundle(files_of(tmp_path / "bundle"))
    assert bundle.recipe_name == "h100-eks-ubuntu-training-kubeflow"
    assert len(bundle.releases) == 17
    assert [release.name for release in bundle.releases][8:10] == ["gpu-operator", "gpu-operator-readiness"]
    assert {release.name for release in bundle.releases if release.kind == "wrapper"} == {
        "nodewright-customizations",
        "gpu-operator-readiness",
        "kubeflow-trainer-post",
    }
    assert bundle.info is not None
    assert (
        bundle.info["build"]["recipe"]["digest"] == f"sha256:{bundle.recipe_digest.removeprefix('sha256:')}"
    )
    assert {release.namespace for release in bundle.releases} <= {
        "kube-system",
        "cert-manager",
        "node-feature-discovery",
        "nodewright",
        "monitoring",
        "gpu-operator",
        "kai-scheduler",
        "kubeflow",
        "nvidia-dra-driver",
        "nvsentinel",
    }


def test_records_go_into_the_bundle_and_are_read_back_both_ways(recipe: Path, tmp_path: Path) -> None:
    named = tmp_path / "records.yaml"
    beyond = upgrades.transition("<99.0.0", ">=99.0.0 <=99.1.0")
    reach = upgrades.transition(
        "<25.0.0", ">=25.0.0 <=26.9.0", precondition="Nothing is in a rollout.", reversible=False,
        references=["https://example.com/notes"],
    )  # fmt: skip
    safe = upgrades.transition("<0.1.0", ">=0.1.0 <=0.99.0", verdict="safe")
    named.write_bytes(upgrades.text(upgrades.document(gpu_operator=[beyond, reach], kai_scheduler=[safe])))
    done = render(recipe, str(tmp_path / "bundle"), AICR_SAMPLE_UPGRADES=str(named))
    assert done.returncode == 0, done.stderr
    files = files_of(tmp_path / "bundle")
    plain = render(recipe, str(tmp_path / "plain"))
    assert plain.returncode == 0
    bundle, without = read_bundle(files), read_bundle(files_of(tmp_path / "plain"))
    assert bundle.content_digest == without.content_digest, "records are no part of the desired state"
    assert without.upgrades == ()
    found = {record.component: record for record in bundle.upgrades}
    assert [one.verdict for one in found["gpu-operator"].boundaries] == ["manual", "manual"]
    assert found["kai-scheduler"].boundaries[0].verdict == "safe"
    # What the guide says of it, where only the guide is there; it has the steps of its own deployer.
    (guided,) = read_records({"UPGRADING.md": files["UPGRADING.md"]}, {"gpu-operator"})
    (only,) = guided.boundaries
    assert (only.verdict, only.guidance.applies_to) == ("manual", ">=25.0.0 <=26.9.0")
    assert (only.guidance.deployer, only.guidance.steps[0].id) == ("helm", "helm-only")
    assert (only.guidance.precondition, only.guidance.reversible) == ("Nothing is in a rollout.", False)
    assert only.guidance.references == ("https://example.com/notes",)
    assert render(recipe, str(tmp_path / "x"), AICR_SAMPLE_UPGRADES="/nonexistent").returncode != 0


def test_overrides_change_one_component_and_an_unknown_one_is_refused(recipe: Path, tmp_path: Path) -> None:
    render(recipe, str(tmp_path / "plain"))
    done = render(recipe, str(tmp_path / "changed"), "--set-json", 'gpu-operator:driver.version="570.1"')
    assert done.returncode == 0, done.stderr
    plain, changed = files_of(tmp_path / "plain"), files_of(tmp_path / "changed")
    different = {name for name in plain if plain[name] != changed[name]}
    assert different == {
        "009-gpu-operator/values.yaml",
        "010-gpu-operator-readiness/values.yaml",
        "checksums.txt",
    }
    values = yaml.safe_load(changed["009-gpu-operator/values.yaml"])
    assert values["driver"] == {"enabled": True, "version": "570.1"}
    assert render(recipe, str(tmp_path / "x"), "--set-json", "gpu-oprator:a=1").returncode == 2
    assert render(recipe, str(tmp_path / "x"), "--set-json", "gpu-operator:a={").returncode == 2


def test_pushes_are_shaped_like_the_real_ones_and_do_not_depend_on_the_tag(
    recipe: Path, tmp_path: Path, registry: Registry
) -> None:
    auth = docker_config(tmp_path / "auth", registry, registry.password)
    digests = []
    for tag in ("run-1", "run-2"):
        target = f"oci://{registry.host}/aicr/demo/bundles/demo:{tag}"
        done = render(recipe, target, "--plain-http", DOCKER_CONFIG=auth)
        assert done.returncode == 0, done.stderr
        answer = registry.request("HEAD", f"aicr/demo/bundles/demo/manifests/{tag}")
        digests.append(answer.headers["Docker-Content-Digest"])
    assert digests[0] == digests[1]
    manifest = json.loads(registry.request("GET", "aicr/demo/bundles/demo/manifests/run-1").data)
    assert manifest["artifactType"] == "application/vnd.nvidia.aicr.artifact"
    layer = manifest["layers"][0]
    content = registry.request("GET", f"aicr/demo/bundles/demo/blobs/{layer['digest']}").data
    with tarfile.open(fileobj=io.BytesIO(gzip.decompress(content))) as archive:
        members = {member.name: member for member in archive.getmembers()}
        assert {member.mtime for member in members.values()} == {0}
        assert members["001-aws-ebs-csi-driver/values.yaml"].mode == 0o600
        assert members["deploy.sh"].mode == 0o755
        assert members["006-nodewright-customizations/templates"].isdir()


def test_push_without_credentials_and_with_wrong_ones(
    recipe: Path, tmp_path: Path, registry: Registry
) -> None:
    target = f"oci://{registry.host}/aicr/demo/bundles/demo:run-1"
    assert render(recipe, target, "--plain-http").returncode == 8
    wrong = docker_config(tmp_path / "auth", registry, "wrong")
    assert render(recipe, target, "--plain-http", DOCKER_CONFIG=wrong).returncode == 4
    unreachable = "oci://127.0.0.1:1/aicr/demo/bundles/demo:run-1"
    assert render(recipe, unreachable, "--plain-http", DOCKER_CONFIG=wrong).returncode == 6


def test_manifest_keys_are_those_of_the_captured_one(
    recipe: Path, tmp_path: Path, registry: Registry, captured: Path
) -> None:
    auth = docker_config(tmp_path / "auth", registry, registry.password)
    target = f"oci://{registry.host}/aicr/demo/bundles/demo:run-1"
    assert render(recipe, target, "--plain-http", DOCKER_CONFIG=auth).returncode == 0
    ours = json.loads(registry.request("GET", "aicr/demo/bundles/demo/manifests/run-1").data)
    real = json.loads(next(captured.rglob("h100-eks-ubuntu-training*/oci/manifest-helm.json")).read_text())
    for document in (ours, real):
        document["layers"][0] |= {"digest": "", "size": 0}
        document["layers"][0]["annotations"]["io.deis.oras.content.digest"] = ""
        document["annotations"]["org.opencontainers.image.version"] = ""
    assert json.dumps(ours) == json.dumps(real)


def test_a_folder_of_the_real_command_is_handed_out_as_it_is(tmp_path: Path, captured: Path) -> None:
    folder = next(captured.rglob("h100-eks-ubuntu-training*/bundle-helm"))
    environment = {"AICR_SAMPLE_BUNDLE": str(folder)}
    recipe = tmp_path / "recipe.yaml"
    assert aicr("recipe", *CRITERIA, "-o", str(recipe), **environment).returncode == 0
    assert yaml.safe_load(recipe.read_text()) == yaml.safe_load((folder / "recipe.yaml").read_text())
    done = render(recipe, str(tmp_path / "bundle"), **environment)
    assert done.returncode == 0, done.stderr
    assert files_of(tmp_path / "bundle") == files_of(folder)
    changed = render(
        recipe, str(tmp_path / "changed"), "--set-json", "gpu-operator:cdi.default=true", **environment
    )
    assert changed.returncode == 0, changed.stderr
    assert len(read_bundle(files_of(tmp_path / "changed")).releases) == 17


def test_wrappers_render_with_helm_into_declared_namespaces(recipe: Path, tmp_path: Path) -> None:
    render(recipe, str(tmp_path / "bundle"))
    bundle = read_bundle(files_of(tmp_path / "bundle"))
    wrappers = [release for release in bundle.releases if release.kind == "wrapper"]
    for release in wrappers:
        folder = next((tmp_path / "bundle").glob(f"*-{release.name}"))
        done = subprocess.run(
            [helm_binary(), "template", release.name, folder, "--namespace", str(release.namespace)],
            capture_output=True,
            check=False,
            timeout=30,
        )
        assert done.returncode == 0, done.stderr
        rendered = target("", yaml.safe_load_all(done.stdout), str(release.namespace))
        assert rendered.resources
        assert {item.namespace for item in rendered.resources} <= {"", release.namespace}
