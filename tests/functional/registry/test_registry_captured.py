"""All charts at once: those that captured AICR bundles name, and seventeen generated ones of real sizes.

Each goes from an https index and from a registry into the registry of one machine and into docker-registry;
what helm pulls then is what the publisher serves.
"""

import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
from aicr_pipeline.adapters.chart_sources import plain_hosts
from aicr_pipeline.adapters.mirror import Destination, MirrorResult, mirror_chart, mirror_wrapper
from aicr_pipeline.decide.bundle import read_bundle
from aicr_pipeline.decide.chart_package import digest_of
from aicr_pipeline.model.config import Registry as RegistryConfig
from aicr_pipeline.model.plan import UpstreamSource

from local.helm import helm_binary
from local.upstream import UpstreamCharts
from tests.functional.registry.charts import upstream
from tests.functional.registry.conftest import Registry, patient
from tests.functional.registry.generated import SIZES, generated
from tests.unit.test_bundle_captured import PROFILES, files

#: New from an index: index, our tag, archive, no provenance, two blobs, manifest. From a registry: one more.
NEW, UNCHANGED = {"https": 9, "oci": 9}, 2


@dataclass(frozen=True)
class Collection:
    """Sources with their publishers' servers."""

    sources: tuple[UpstreamSource, ...]
    up: UpstreamCharts

    def archive(self, source: UpstreamSource) -> bytes:
        """What the publisher serves."""
        chart = source.chart.rpartition("/")[2]
        content, _ = self.up._archive(chart, source.version)
        return content

    def manifest(self, source: UpstreamSource) -> bytes | None:
        """The publisher's own manifest, for charts of a registry."""
        if not source.chart.startswith("oci://"):
            return None
        found = self.up._store.manifest(source.chart.removeprefix("oci://"), source.version.replace("+", "_"))
        assert found is not None
        return found[0]


def both(name: str, version: str) -> list[UpstreamSource]:
    return [
        UpstreamSource(chart=name, repo="https://charts.example.com/all", version=version),
        UpstreamSource(chart=f"oci://ghcr.example/all/{name}", repo="", version=version),
    ]


@pytest.fixture(scope="module")
def seventeen(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Collection]:
    folder = tmp_path_factory.mktemp("generated")
    contents = {key: generated(*key) for key in SIZES}
    sizes = sorted(map(len, contents.values()))
    assert (len(sizes), sizes[0] > 10_000, sizes[-1] < 2_100_000) == (17, True, True)
    assert 4_200_000 < sum(sizes) < 4_700_000
    for (name, version), content in contents.items():
        (folder / f"{name}-{version}.tgz").write_bytes(content)
    sources = [source for key in SIZES for source in both(*key)]
    with upstream(*sources, charts_dir=folder) as up:
        yield Collection(tuple(sources), up)


@pytest.fixture(scope="module")
def named(captured: Path) -> Iterator[Collection]:
    """Every chart that a captured profile names, from where it names it."""
    bundles = [read_bundle(files(captured / profile / "bundle-helm")) for profile in PROFILES]
    sources = {
        release.source.model_dump_json(): release.source
        for bundle in bundles
        for release in bundle.releases
        if release.source is not None
    }
    assert len(sources) == 18
    with upstream(*sources.values()) as up:
        yield Collection(tuple(sources.values()), up)


def destination(registry: Registry, up: UpstreamCharts, prefix: str) -> Destination:
    config = RegistryConfig.model_validate(
        {"repository": f"oci://{registry.host}/{prefix}", "plainHttp": True, "upstreams": up.upstreams}
    )
    transport = patient(*plain_hosts(config)).transport
    return Destination(config.host, config.prefix, transport, registry.credentials, config.upstreams)


def everything(
    collection: Collection, registry: Registry, prefix: str
) -> list[tuple[UpstreamSource, MirrorResult]]:
    """Mirror all, eight at a time; https and oci sources of one name go to places of their own."""
    targets = {each: destination(registry, collection.up, f"{prefix}/{each}") for each in ("https", "oci")}
    with ThreadPoolExecutor(8) as pool:
        results = pool.map(lambda one: mirror_chart(one, targets[kind(one)]), collection.sources)
        return list(zip(collection.sources, results, strict=True))


def kind(source: UpstreamSource) -> str:
    return "oci" if source.chart.startswith("oci://") else "https"


@pytest.mark.parametrize("collection", ["seventeen", "named"])
@pytest.mark.parametrize("at", ["memory_registry", "docker_registry"])
def test_all_charts_go_over_exactly_and_once(
    request: pytest.FixtureRequest, collection: str, at: str
) -> None:
    charts: Collection = request.getfixturevalue(collection)
    if at == "docker_registry":
        host = request.getfixturevalue("docker_host")
        registry = Registry("docker-registry", host, "AWS", "right-password")
    else:
        registry = request.getfixturevalue(at)
    prefix = f"all/{collection}"
    first, again = (everything(charts, registry, prefix) for _ in range(2))
    for (source, new), (_, same) in zip(first, again, strict=True):
        archive, manifest = charts.archive(source), charts.manifest(source)
        assert (new.pushed, new.requests) == (True, NEW[kind(source)]), source
        assert (same.pushed, same.requests, same.manifest_digest) == (False, UNCHANGED, new.manifest_digest)
        assert new.content_digest == digest_of(archive)
        assert new.tag == new.chart_version.replace("+", "_")
        held = registry.repository(new.repository).get_manifest(new.tag)
        assert held is not None
        assert held.digest == new.manifest_digest
        if manifest is not None:
            assert held.content == manifest


@pytest.mark.parametrize("collection", ["seventeen", "named"])
def test_helm_pulls_each_byte_for_byte(
    request: pytest.FixtureRequest, collection: str, docker_host: str, tmp_path: Path
) -> None:
    charts: Collection = request.getfixturevalue(collection)
    registry = Registry("docker-registry", docker_host, "AWS", "right-password")
    mirrored = everything(charts, registry, f"all/{collection}")
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin"}
    login = [helm_binary(), "registry", "login", docker_host, "--plain-http", "-u", "AWS", "--password-stdin"]
    subprocess.run(
        login, input=b"right-password", env=environment, check=True, capture_output=True, timeout=60
    )

    def pull(one: tuple[int, tuple[UpstreamSource, MirrorResult]]) -> bytes:
        number, (_, result) = one
        folder = tmp_path / str(number)
        folder.mkdir()
        address = f"oci://{docker_host}/{result.repository}"
        done = subprocess.run(
            [helm_binary(), "pull", address, "--version", result.chart_version, "--plain-http", "-d", folder],
            capture_output=True, text=True, timeout=60, env=environment,
        )  # fmt: skip
        assert done.returncode == 0, done.stderr
        (archive,) = folder.glob("*.tgz")
        return archive.read_bytes()

    with ThreadPoolExecutor(2) as pool:
        pulled = list(pool.map(pull, enumerate(mirrored)))
    assert [digest_of(content) for content in pulled] == [
        digest_of(charts.archive(source)) for source in charts.sources
    ]


@pytest.mark.parametrize("profile", PROFILES)
def test_captured_local_charts_become_wrappers(
    captured: Path, memory_registry: Registry, profile: str
) -> None:
    bundle = read_bundle(files(captured / profile / "bundle-helm"))
    wrappers = [release for release in bundle.releases if release.kind == "wrapper"]
    assert wrappers
    target = memory_registry.destination()
    for release in wrappers:
        first, again = (mirror_wrapper(release.name, release.files, target) for _ in range(2))
        assert (first.requests <= 6, again.pushed, again.requests) == (True, False, 1)
        assert first.manifest_digest == again.manifest_digest
