"""Read bundle, Mirror chart and Write plan for every captured profile: real registry, publishers, stores."""

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml
from aicr_pipeline import reproduce
from aicr_pipeline.actions.mirror_chart import mirror_chart
from aicr_pipeline.actions.read_bundle import read_bundle
from aicr_pipeline.actions.write_plan import write_plan
from aicr_pipeline.adapters.http import Transport
from aicr_pipeline.adapters.mirror import Destination
from aicr_pipeline.adapters.registry_auth import FixedCredentials
from aicr_pipeline.model.config import ClusterConfig, load_cluster_config
from aicr_pipeline.model.plan import plan_key

from local.aicr.artifact import Files, Reference, pack, push, read_folder
from local.aicr.bundle import checksums
from local.pipeline import wanted_charts
from local.registry import LocalRegistry, TokenIssuer
from local.upstream import UpstreamCharts
from tests.functional.actions.support import LEDGER, Place, step
from tests.unit.test_bundle_captured import FIRST, PROFILES
from tests.workflow.machine import ROOT


class Resolver:
    """The later half of a resolve: what AICR rendered goes in, a plan comes out."""

    def __init__(self, place: Place, captured: Path, config: ClusterConfig, registry: Destination) -> None:
        self.place, self.captured, self.config, self.registry = place, captured, config, registry
        self.runs = 0

    def bundle(self, profile: str) -> Files:
        return read_folder(self.captured / profile / "bundle-helm")

    def snapshot(self, when: str = "pre") -> bytes:
        """Of the reference cluster, as AICR wrote it."""
        return (self.captured / FIRST / "snapshot" / f"snapshot-{when}-install.yaml").read_bytes()

    def resolve(self, files: Files, snapshot: bytes, **spec: Any) -> tuple[dict[str, Any], Any]:
        """Returns what Read bundle said, and the plan document."""
        self.runs += 1
        place, run = self.place, f"captured-{self.runs}"
        host = self.config.registry.host
        reference = Reference(host, f"{self.config.registry.prefix}/bundles/captured", run)
        push(pack(files, "AICR Bundle"), reference, scheme="http")
        place.ledger.put_once(f"resolves/{run}/snapshot.yaml", snapshot)
        given: dict[str, Any] = {
            "run": run,
            "runtimeVersion": place.submit(**spec),
            "rendering": {"tag": run},
        }
        read = read_bundle(
            step("Read bundle", input=given), self.config, place.inbox, place.ledger, self.registry
        )
        mirrored = [
            mirror_chart(step("Mirror chart", input=given, item=item), place.ledger, self.registry)
            for item in read["releases"]
        ]
        last = step("Write plan", input={**given, "mirror": mirrored})
        written = write_plan(last, self.config, place.inbox, place.ledger, place.clock)
        assert written["releases"] == len(read["releases"])
        return read, json.loads(place.ledger.get(plan_key(written["digest"])) or b"")


@pytest.fixture
def resolver(
    place: Place, captured: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[Resolver]:
    issuer = TokenIssuer()
    folders = [captured / profile / "bundle-helm" for profile in PROFILES]
    wanted = {chart: None for folder in folders for chart in wanted_charts(folder)}
    with LocalRegistry(issuer) as local, UpstreamCharts(wanted) as upstream:
        wire = load_cluster_config(ROOT / "clusters" / "captured.yaml").wire()
        wire["registry"] |= {
            "repository": f"oci://{local.host}/aicr/captured",
            "plainHttp": True,
            "upstreams": upstream.upstreams,
        }
        config = ClusterConfig.model_validate_json(json.dumps(wire))
        plain = {local.host, *(url.split("/")[2] for url in upstream.upstreams.values())}
        transport = Transport(frozenset(plain))
        user, password, _ = issuer.issue()
        auth = {"auths": {local.host: {"auth": base64.b64encode(f"{user}:{password}".encode()).decode()}}}
        (tmp_path / "config.json").write_text(json.dumps(auth))
        monkeypatch.setenv("DOCKER_CONFIG", str(tmp_path))
        credentials = FixedCredentials(user, password)
        registry = Destination(local.host, "aicr/captured", transport, credentials, upstream.upstreams)
        yield Resolver(place, captured, config, registry)
        transport.close()


def wish_of(files: Files) -> dict[str, Any]:
    """The runtime's spec that the recipe in a bundle answers."""
    criteria = yaml.load(files["recipe.yaml"][0], yaml.CSafeLoader)["criteria"]
    asked = {name: criteria[name] for name in ("service", "accelerator", "os")}
    return {"criteria": asked, "intent": criteria["intent"], "platform": criteria["platform"]}


def changed(files: Files, name: str, content: bytes) -> Files:
    made = {**files, name: (content, files[name][1])}
    return {**made, "checksums.txt": (checksums(made).encode(), files["checksums.txt"][1])}


def test_every_captured_profile_becomes_a_plan(resolver: Resolver) -> None:
    digests = set()
    for profile in PROFILES:
        files = resolver.bundle(profile)
        read, plan = resolver.resolve(files, resolver.snapshot(), **wish_of(files))
        derived = json.loads((resolver.captured / profile / "releases.derived.json").read_text())
        releases = plan["desiredState"]["releases"]
        assert [(r["name"], r["component"], r["namespace"]) for r in releases] == [
            (item["release"], item["component"], item["namespace"]) for item in derived
        ]
        assert plan["desiredState"]["recipe"] == profile
        assert read["unchecked"] == (["NodeTopology.gpu-nodes.label"] if "gke" in profile else [])
        for release, item in zip(releases, derived, strict=True):
            wanted = item["targetRevision"].removeprefix("v") if item["kind"] != "local-chart" else None
            assert wanted in (None, release["chart"]["version"].removeprefix("v"))
        digests.add(plan["desiredStateDigest"])
    assert len(digests) == len(PROFILES)


def test_one_digest_for_what_does_not_matter(resolver: Resolver) -> None:
    """The install, the number of nodes, the order of measurements, file modes and files for people."""
    files = resolver.bundle(FIRST)
    wish = wish_of(files)
    _, first = resolver.resolve(files, resolver.snapshot(), **wish)
    recipe = yaml.load(files["recipe.yaml"][0], yaml.CSafeLoader)
    taken = yaml.load(resolver.snapshot(), yaml.CSafeLoader)
    for nodes in (4, 400):
        recipe["criteria"]["nodes"] = taken["fingerprint"]["nodeCount"]["value"] = nodes
        taken["measurements"].reverse()
        for measurement in taken["measurements"]:
            measurement.get("subtypes", []).reverse()
        scaled = changed(files, "recipe.yaml", json.dumps(recipe).encode())
        scaled = changed(scaled, "README.md", f"for {nodes} nodes".encode())
        scaled = {name: (content, 0o640) for name, (content, _) in scaled.items()}
        resolver.place.later(86400)
        _, other = resolver.resolve(scaled, json.dumps(taken).encode(), **wish)
        assert other["desiredState"] == first["desiredState"]
        assert other == first, "the plan is written once, by the first run"
    _, post = resolver.resolve(files, resolver.snapshot("post"), **wish)
    assert post["desiredStateDigest"] == first["desiredStateDigest"]
    changed_value = changed(files, "001-aws-ebs-csi-driver/values.yaml", b"surprise: true\n")
    _, another = resolver.resolve(changed_value, resolver.snapshot(), **wish)
    assert another["desiredStateDigest"] != first["desiredStateDigest"]
    assert len(resolver.place.ledger_keys("plans/")) == 2


def test_what_a_run_leaves_is_enough_to_render_its_plan_again(
    resolver: Resolver, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    files = resolver.bundle(FIRST)
    _, plan = resolver.resolve(files, resolver.snapshot(), **wish_of(files))
    monkeypatch.setattr("aicr_pipeline.adapters.aws.client", lambda _: resolver.place.s3)
    line = [plan["desiredStateDigest"], "--ledger", LEDGER, "--dir", str(tmp_path / "again")]
    bundle = resolver.captured / FIRST / "bundle-helm"
    assert reproduce.main([*line, "--bundle", str(bundle), "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert (said["equal"], said["differences"], said["notes"]) == (True, [], [])
    assert said["rendering"]["missing"] == []
    for name in ("recipe.yaml", "content.sha256"):
        assert (tmp_path / "again" / name).is_file()
    run = plan["recorded"]["run"]
    assert (tmp_path / "again" / "runtime.yaml").read_bytes() == resolver.place.ledger.get(
        f"resolves/{run}/runtime.yaml"
    )
