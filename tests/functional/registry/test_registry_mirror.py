"""Mirroring: what goes over, what a second run costs, and what is refused."""

import json
import subprocess
import uuid
from pathlib import Path

import pytest
import yaml
from aicr_pipeline.adapters.http import Counters
from aicr_pipeline.adapters.mirror import Destination, mirror_chart, mirror_wrapper
from aicr_pipeline.decide.chart_package import (
    CONFIG_TYPE,
    PROVENANCE_TYPE,
    digest_of,
    helm_config,
    pack,
)
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.plan import UpstreamSource
from aicr_pipeline.model.reasons import Reason

from local.helm import helm_binary
from local.registry import LocalRegistry, TokenIssuer
from local.upstream.standins import standin_chart
from tests.functional.registry.charts import chart_name, destination, in_registry, indexed, pushed, upstream
from tests.functional.registry.conftest import Registry, patient


@pytest.mark.parametrize(("make", "requests"), [(indexed, 9), (in_registry, 9)])
@pytest.mark.parametrize("version", ["1.2.3", "v1.2.3", "1.2.3+build.4"])
def test_a_chart_goes_over_once(
    registry: Registry, make: type[UpstreamSource], requests: int, version: str
) -> None:
    chart = chart_name()
    source = make(chart, version)  # type: ignore[call-arg]
    with upstream(source) as up:
        first = mirror_chart(source, destination(registry, up))
        assert (first.pushed, first.requests) == (True, requests)
        assert first.repository == f"aicr/demo/charts/{chart}"
        assert (first.tag, first.chart_version) == (version.replace("+", "_"), version)
        assert pushed(registry, first)[1] == standin_chart(chart, version)
        again = mirror_chart(source, destination(registry, up))
        assert (again.pushed, again.requests) == (False, 2)
        keep = ("repository", "tag", "manifest_digest", "content_digest", "chart_name", "chart_version")
        assert [getattr(first, key) for key in keep] == [getattr(again, key) for key in keep]


def test_helm_pulls_what_was_mirrored(registry: Registry, tmp_path: Path) -> None:
    source = indexed(chart_name(), "v2.0.0+x")
    with upstream(source) as up:
        result = mirror_chart(source, destination(registry, up))
        helm_env = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
        access = ["--plain-http", "--username", registry.user, "--password", registry.password]
        address = f"oci://{registry.host}/{result.repository}@{result.manifest_digest}"
        done = subprocess.run(
            [helm_binary(), "pull", address, *access, "-d", tmp_path],
            capture_output=True, text=True, timeout=60, env=helm_env,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        (archive,) = tmp_path.glob("*.tgz")
        assert archive.read_bytes() == standin_chart(source.chart, "v2.0.0+x")


def test_what_helm_pushed_goes_over_exactly_with_its_provenance(registry: Registry, tmp_path: Path) -> None:
    chart, issuer = chart_name(), TokenIssuer()
    (tmp_path / "c.tgz").write_bytes(standin_chart(chart, "1.0.0"))
    with LocalRegistry(issuer) as publisher:
        user, password, _ = issuer.issue()
        access = ["--plain-http", "--username", user, "--password", password]
        done = subprocess.run(
            [helm_binary(), "push", tmp_path / "c.tgz", f"oci://{publisher.host}/org", *access],
            capture_output=True, text=True, timeout=60, env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        theirs = Registry("publisher", publisher.host, user, password).repository(f"org/{chart}")
        manifest = theirs.get_manifest("1.0.0")
        assert manifest is not None
        document = json.loads(manifest.content)
        theirs.push_blob(digest_of(b"signed"), 6, b"signed")
        document["layers"].append({"mediaType": PROVENANCE_TYPE, "digest": digest_of(b"signed"), "size": 6})
        signed = json.dumps(document, indent=3).encode()
        theirs.push_manifest(signed, manifest.media_type, "1.0.1")

        from local.registry.app import RegistryApp
        from local.registry.server import serving

        with serving(RegistryApp(publisher.store, None).asgi()) as port:  # the same content, for everybody
            open_host = f"127.0.0.1:{port}"
            target = registry.destination(open_host, upstreams={"oci://ghcr.example": f"oci://{open_host}"})
            result = mirror_chart(in_registry(chart, "1.0.0"), target)
            assert (result.manifest_digest, result.requests) == (manifest.digest, 9)
            assert "mediaType" not in json.loads(manifest.content)
            with pytest.raises(PipelineError, match=r"Asked .* 1.0.1, but the archive holds .* 1.0.0"):
                mirror_chart(in_registry(chart, "1.0.1"), target)
            theirs.push_manifest(signed, manifest.media_type, "v1.0.0")
            ours = registry.repository(f"aicr/demo/charts/{chart}")
            # Under v1.0.0 is other content than under our 1.0.0: held, both named.
            with pytest.raises(PipelineError) as caught:
                mirror_chart(in_registry(chart, "v1.0.0"), target)
            assert caught.value.reason == Reason.Conflict
            assert manifest.digest in caught.value.message and digest_of(signed) in caught.value.message
            assert ours.head_manifest("1.0.0") == manifest.digest


def test_provenance_goes_where_the_chart_goes(registry: Registry) -> None:
    chart = chart_name()
    with upstream(in_registry(chart)) as up:
        place = f"ghcr.example/org/{chart}"
        held = up._store.manifest(place, "1.2.3")
        assert held is not None
        document = json.loads(held[0])
        digest = up._store.put_blob(place, b"-----BEGIN PGP SIGNED MESSAGE-----")
        document["layers"].append({"mediaType": PROVENANCE_TYPE, "digest": digest, "size": 34})
        signed = json.dumps(document).encode()
        up._store.put_manifest(place, "1.2.3", signed, held[1])
        result = mirror_chart(in_registry(chart), destination(registry, up))
        assert (result.manifest_digest, result.requests) == (digest_of(signed), 12)
        assert registry.repository(result.repository).blob_exists(digest)


def test_a_tag_with_another_archive_is_never_overwritten(registry: Registry) -> None:
    source = indexed(chart_name())
    with upstream(source) as up:
        first = mirror_chart(source, destination(registry, up))
        changed = "ab" * 32
        up._indexes["charts.example.com/stable"][source.chart][0]["digest"] = changed
        with pytest.raises(PipelineError) as caught:
            mirror_chart(source, destination(registry, up))
    assert caught.value.reason == Reason.Conflict
    assert first.content_digest in caught.value.message and changed in caught.value.message
    assert registry.repository(first.repository).head_manifest("1.2.3") == first.manifest_digest


def test_a_tag_with_another_manifest_is_never_overwritten(registry: Registry) -> None:
    source = in_registry(chart_name())
    with upstream(source) as up:
        first = mirror_chart(source, destination(registry, up))
        place = source.chart.removeprefix("oci://")
        content, media_type, _ = up._store.manifest(place, "1.2.3") or (b"", "", "")
        up._store.put_manifest(place, "1.2.3", content + b"\n", media_type)
        with pytest.raises(PipelineError) as caught:
            mirror_chart(source, destination(registry, up))
    assert caught.value.reason == Reason.Conflict
    assert first.manifest_digest in caught.value.message
    assert digest_of(content + b"\n") in caught.value.message
    assert registry.repository(first.repository).head_manifest("1.2.3") == first.manifest_digest


def test_an_index_without_digests_costs_one_request_more(registry: Registry) -> None:
    source = indexed(chart_name())
    with upstream(source) as up:
        del up._indexes["charts.example.com/stable"][source.chart][0]["digest"]
        first = mirror_chart(source, destination(registry, up))
        again = mirror_chart(source, destination(registry, up))
        assert (first.requests, first.pushed, again.requests, again.pushed) == (9, True, 3, False)


@pytest.mark.parametrize("make", [indexed, in_registry])
@pytest.mark.parametrize(("asked", "theirs"), [("v1.2.3", "1.2.3"), ("1.2.3", "v1.2.3")])
def test_a_leading_v_is_ignored_and_the_chart_keeps_its_own_version(
    registry: Registry, make: type[UpstreamSource], asked: str, theirs: str
) -> None:
    chart = chart_name()
    with upstream(make(chart, theirs)) as up:  # type: ignore[call-arg]
        result = mirror_chart(make(chart, asked), destination(registry, up))  # type: ignore[call-arg]
        assert (result.tag, result.chart_version) == (theirs, theirs)
        assert result.requests <= 11


def test_wrappers_are_the_same_bytes_and_one_request_when_there(registry: Registry) -> None:
    release = f"gpu-operator-{uuid.uuid4().hex[:6]}"
    files = {
        "templates/b.yaml": b"a: 1\n",
        "Chart.yaml": b"apiVersion: v2\nname: wrapper\nversion: 0.1.0\n",
        "templates/a.yaml": b"a: 2\n",
    }
    target = registry.destination()
    first = mirror_wrapper(release, files, target)
    again = mirror_wrapper(release, dict(reversed(files.items())), target)
    other = mirror_wrapper(release, files | {"templates/a.yaml": b"a: 3\n"}, target)
    assert (first.requests, first.pushed, again.requests, again.pushed) == (6, True, 1, False)
    assert first.tag == f"0.1.0-{first.content_digest[7:19]}"
    assert first.repository == f"aicr/demo/wrappers/{release}"
    assert first.manifest_digest == again.manifest_digest != other.manifest_digest
    assert other.pushed and other.tag != first.tag
    document, archive = pushed(registry, first)
    assert archive == pack("wrapper", files)
    assert document["config"] == {
        "mediaType": CONFIG_TYPE,
        "digest": digest_of(helm_config({"apiVersion": "v2", "name": "wrapper", "version": "0.1.0"})),
        "size": 54,
    }


def test_somebody_faster_is_no_conflict() -> None:
    issuer = TokenIssuer()
    with LocalRegistry(issuer) as local:
        registry = Registry("memory", local.host, *issuer.issue()[:2])
        files = {"Chart.yaml": b"apiVersion: v2\nname: wrapper\nversion: 0.1.0\n"}
        target = registry.destination()
        mirror_wrapper("a", files, target)
        store, answers = local.store, [None]
        held = store.manifest
        # The first look happens before the other writer's tag, the rest after.
        store.manifest = lambda *at: answers.pop() if answers else held(*at)  # type: ignore[method-assign]
        late = mirror_wrapper("a", files, target)
        assert not late.pushed


@pytest.mark.parametrize("source", ["http://charts.example.com", "file:///charts", ""])
def test_only_https_and_oci_sources_are_mirrored(source: str) -> None:
    target = Destination("127.0.0.1:1", "aicr/demo", patient().transport, None)
    with pytest.raises(PipelineError) as caught:
        mirror_chart(UpstreamSource(chart="app", repo=source, version="1.0.0"), target)
    assert caught.value.reason == Reason.ChartSourceUnsupported


@pytest.mark.parametrize("name", ["App", "a/../b", "a b", "-a", ""])
def test_a_name_no_registry_takes_is_refused(name: str) -> None:
    target = Destination("127.0.0.1:1", "aicr/demo", patient().transport, None)
    with pytest.raises(PipelineError) as caught:
        target.repository("charts", name, Counters())
    assert caught.value.reason == Reason.ChartSourceUnsupported


# The publishers of one machine.


def test_real_archives_take_the_place_of_stand_ins(tmp_path: Path) -> None:
    real = pack("app", {"Chart.yaml": b"apiVersion: v2\nname: app\nversion: v1.2.3\n", "README.md": b"real"})
    (tmp_path / "anything.tgz").write_bytes(real)
    issuer = TokenIssuer()
    with LocalRegistry(issuer) as local, upstream(indexed("app"), indexed("b"), charts_dir=tmp_path) as up:
        registry = Registry("memory", local.host, *issuer.issue()[:2])
        assert mirror_chart(indexed("app"), destination(registry, up)).content_digest == digest_of(real)
        assert pushed(registry, mirror_chart(indexed("b"), destination(registry, up)))[1] == standin_chart(
            "b", "1.2.3"
        )


def test_a_stand_in_renders_in_the_release_namespace_with_any_values(tmp_path: Path) -> None:
    (tmp_path / "c.tgz").write_bytes(standin_chart("gpu-operator", "v26.3.3"))
    (tmp_path / "values.yaml").write_text("driver: {version: 1}\nreplicaCount: {not: a number}\nimage: [1]\n")
    done = subprocess.run(
        [
            helm_binary(), "template", "rel", tmp_path / "c.tgz", "-n", "gpu-operator",
            "-f", tmp_path / "values.yaml",
        ],
        capture_output=True, text=True, timeout=60, env={"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    objects = [found for found in yaml.safe_load_all(done.stdout) if found]
    assert {found["kind"] for found in objects} == {"ServiceAccount", "ConfigMap", "Deployment"}
    assert {found["metadata"]["namespace"] for found in objects} == {"gpu-operator"}
    values = next(found for found in objects if found["kind"] == "ConfigMap")["data"]["values.json"]
    assert json.loads(values)["driver"] == {"version": 1}


def test_stand_ins_are_the_same_bytes_everywhere() -> None:
    assert digest_of(standin_chart("gpu-operator", "v26.3.3")) == (
        "sha256:410b2b4352247603ebd4e7c723e8113224db016b206f33ef71e6ad658c036d78"
    )
