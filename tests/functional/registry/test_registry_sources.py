"""Publishers that are not what they seem: every answer is the test's."""

import gzip
import uuid

import pytest
import yaml
from aicr_pipeline.adapters.mirror import Destination, MirrorResult, mirror_chart
from aicr_pipeline.adapters.registry_auth import FixedCredentials
from aicr_pipeline.decide.chart_package import (
    CONFIG_TYPE,
    CONTENT_TYPE,
    digest_of,
)
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.reasons import Reason

from local.registry import LocalRegistry, TokenIssuer
from local.upstream.standins import standin_chart
from tests.functional.registry.charts import (
    in_registry,
    indexed,
    upstream,
)
from tests.functional.registry.conftest import Registry, patient
from tests.functional.registry.fake import Fake, Reply
from tests.functional.registry.test_registry_tokens import tokens


class Publisher:
    """A Helm repository on a fake host."""

    def __init__(self, fake: Fake, registry: Registry) -> None:
        self.fake = fake
        self.registry = registry
        self.prefix = f"aicr/{uuid.uuid4().hex[:8]}"

    def mirror(self, chart: str = "app", version: str = "1.2.3", *plain: str) -> MirrorResult:
        host = self.registry.host
        transport = patient(host, self.fake.host, *plain).transport
        upstreams = {"https://charts.example.com": f"http://{self.fake.host}"}
        target = Destination(host, self.prefix, transport, self.registry.credentials, upstreams)
        return mirror_chart(indexed(chart, version), target)

    def index(self, *entries: dict[str, object], chart: str = "app") -> None:
        text = yaml.safe_dump({"apiVersion": "v1", "entries": {chart: list(entries)}})
        self.fake.on("^GET /stable/index.yaml", Reply(200, text.encode()))

    def entry(self, **more: object) -> dict[str, object]:
        archive = standin_chart("app", "1.2.3")
        return {
            "name": "app",
            "version": "1.2.3",
            "digest": digest_of(archive)[7:],
            "urls": ["app.tgz"],
            **more,
        }


@pytest.fixture
def publisher(fake: Fake, memory_registry: Registry) -> Publisher:
    return Publisher(fake, memory_registry)


ARCHIVE = standin_chart("app", "1.2.3")


@pytest.mark.parametrize("prefix", ["", "sha256:", "SHA256:"])
def test_digests_come_with_and_without_their_algorithm(publisher: Publisher, prefix: str) -> None:
    publisher.index(publisher.entry(digest=prefix.lower() + digest_of(ARCHIVE)[7:].upper()))
    publisher.fake.on("^GET /stable/app.tgz", Reply(200, ARCHIVE))
    assert publisher.mirror().content_digest == digest_of(ARCHIVE)


@pytest.mark.parametrize(
    ("written", "asked"),
    [
        ("app.tgz", "/stable/app.tgz"),
        ("sub/app.tgz", "/stable/sub/app.tgz"),
        ("/app.tgz", "/app.tgz"),
        ("https://charts.example.com/else/app.tgz", "/else/app.tgz"),
    ],
)
def test_addresses_are_joined_and_rewritten(publisher: Publisher, written: str, asked: str) -> None:
    publisher.index(publisher.entry(urls=[written]))
    publisher.fake.on(f"^GET {asked}$", Reply(200, ARCHIVE))
    assert publisher.mirror().pushed
    assert [one.headers["Accept-Encoding"] for one in publisher.fake.seen] == ["identity"] * 3


def test_relative_addresses_follow_the_index_to_where_it_moved(publisher: Publisher, other: Fake) -> None:
    publisher.fake.on(
        "^GET /stable/index.yaml", Reply(301, headers={"Location": f"http://{other.host}/new/index.yaml"})
    )
    other.on("index.yaml", Reply(200, yaml.safe_dump({"entries": {"app": [publisher.entry()]}}).encode()))
    other.on("^GET /new/app.tgz", Reply(200, ARCHIVE))
    assert publisher.mirror("app", "1.2.3", other.host).requests == 10


def test_addresses_are_tried_in_order(publisher: Publisher) -> None:
    publisher.index(publisher.entry(urls=["gone.tgz", "page.tgz", "oci://ghcr.example/app", "app.tgz"]))
    publisher.fake.on("gone.tgz", Reply(410))
    publisher.fake.on("page.tgz", Reply(200, b"<html>sign in</html>", {"Content-Type": "text/html"}))
    publisher.fake.on("app.tgz", Reply(200, ARCHIVE))
    assert publisher.mirror().pushed
    asked = publisher.fake.lines()[1:]
    asked.remove("GET /stable/gone.tgz.prov")  # looked for beside the first address, at the same time
    assert asked == [
        "GET /stable/gone.tgz",
        "GET /stable/page.tgz",
        "GET /stable/app.tgz",
        "GET /stable/app.tgz.prov",
    ]


def test_an_archive_that_is_not_the_one_listed_is_refused_not_passed_over(publisher: Publisher) -> None:
    publisher.index(publisher.entry(urls=["bad.tgz", "app.tgz"]))
    publisher.fake.on("bad.tgz", Reply(200, standin_chart("app", "6.6.6")))
    with pytest.raises(PipelineError, match="the index lists") as caught:
        publisher.mirror()
    assert caught.value.reason == Reason.ChartInvalid
    assert "GET /stable/app.tgz" not in publisher.fake.lines()


def test_an_archive_of_another_chart_is_refused_naming_both(publisher: Publisher) -> None:
    wrong = standin_chart("other", "1.2.3")
    publisher.index(publisher.entry(digest=digest_of(wrong)))
    publisher.fake.on("app.tgz", Reply(200, wrong))
    with pytest.raises(PipelineError, match=r"for chart app 1.2.3, but the archive holds other 1.2.3"):
        publisher.mirror()


def test_a_version_listed_twice_with_two_digests_is_held(publisher: Publisher) -> None:
    publisher.index(publisher.entry(), publisher.entry(digest="ab" * 32))
    with pytest.raises(PipelineError, match="more than once") as caught:
        publisher.mirror()
    assert caught.value.reason == Reason.Conflict
    assert "ab" * 32 in caught.value.message and digest_of(ARCHIVE)[7:] in caught.value.message


def test_a_version_listed_twice_alike_is_one(publisher: Publisher) -> None:
    publisher.index(publisher.entry(), publisher.entry())
    publisher.fake.on("app.tgz", Reply(200, ARCHIVE))
    assert publisher.mirror().pushed


@pytest.mark.parametrize(
    ("status", "body", "reason"),
    [
        (200, b"<!DOCTYPE html><html>", Reason.ChartSourceUnsupported),
        (200, b"", Reason.ChartSourceUnsupported),
        (200, b"just: yaml\n", Reason.ChartSourceUnsupported),
        (200, b"entries:\n  other:\n  - version: 1.2.3\n", Reason.ChartSourceUnsupported),
        (200, b"entries:\n  app:\n  - version: 1.2.4\n    urls: [a]\n", Reason.ChartSourceUnsupported),
        (200, b"entries:\n  app:\n  - version: 1.2.3\n", Reason.ChartSourceUnsupported),
        (
            200,
            b"entries:\n  app:\n  - {version: 1.2.3, urls: [a], digest: zz}\n",
            Reason.ChartSourceUnsupported,
        ),
        (200, b"entries:\n  app:\n  - version: 1.2.3\n    urls: [a\n", Reason.ChartSourceUnsupported),
        (404, b"", Reason.ChartSourceUnsupported),
        (403, b"", Reason.Unauthorized),
        (503, b"", Reason.RegistryUnreachable),
    ],
)
def test_what_is_no_index_is_refused(publisher: Publisher, status: int, body: bytes, reason: Reason) -> None:
    publisher.fake.on("index.yaml", Reply(status, body))
    with pytest.raises(PipelineError) as caught:
        publisher.mirror()
    assert caught.value.reason == reason
    assert isinstance(caught.value, TransientError) == (status == 503)


@pytest.mark.parametrize(
    "body",
    [b"<html></html>", b"", b"plain text", ARCHIVE[:-9], gzip.compress(b"no tar, but long" * 99, mtime=0)],
    ids=["page", "empty", "text", "cut", "no tar"],
)
def test_what_is_no_archive_is_refused(publisher: Publisher, body: bytes) -> None:
    publisher.index(publisher.entry(digest=None))
    publisher.fake.on("app.tgz", Reply(200, body))
    with pytest.raises(PipelineError) as caught:
        publisher.mirror()
    assert caught.value.reason in (Reason.ChartSourceUnsupported, Reason.ChartInvalid)
    assert all(not line.startswith("PUT") for line in publisher.fake.lines())


def test_an_index_that_is_compressed_all_the_same_is_read(publisher: Publisher) -> None:
    text = yaml.safe_dump({"entries": {"app": [publisher.entry()]}}).encode()
    publisher.fake.on("index.yaml", Reply(200, gzip.compress(text), {"Content-Encoding": "gzip"}))
    publisher.fake.on(
        "app.tgz", Reply(200, ARCHIVE, {"Content-Encoding": "gzip"})
    )  # it names what the file is
    assert publisher.mirror().content_digest == digest_of(ARCHIVE)


@pytest.mark.parametrize(
    "document",
    [
        b"{",
        b"[]",
        b'{"manifests":[]}',
        b'{"config":{"mediaType":"application/vnd.oci.image.config.v1+json","digest":"D","size":2},"layers":[]}',
        b'{"config":{"mediaType":"%b","digest":"D","size":2},"layers":[]}' % CONFIG_TYPE.encode(),
        # Which of the two Helm takes for the chart depends on their order.
        b'{"config":{"mediaType":"%b","digest":"D","size":2},"layers":[{"mediaType":"%b","digest":"D","size":2},'
        b'{"mediaType":"application/tar+gzip","digest":"D","size":2}]}'
        % (CONFIG_TYPE.encode(), CONTENT_TYPE.encode()),
        b'{"config":{"mediaType":"%b","digest":"sha256:../x","size":2},"layers":[]}' % CONFIG_TYPE.encode(),
    ],
)
def test_what_is_no_chart_in_a_registry_is_refused(fake: Fake, document: bytes) -> None:
    body = document.replace(b'"D"', b'"%b"' % digest_of(b"{}").encode())
    fake.on("^GET", Reply(200, body, {"Content-Type": "application/vnd.oci.image.index.v1+json"}))
    transport = patient(fake.host).transport
    target = Destination(
        fake.host, "aicr/demo", transport, None, {"oci://ghcr.example": f"oci://{fake.host}"}
    )
    with pytest.raises(PipelineError) as caught:
        mirror_chart(in_registry("app"), target)
    assert caught.value.reason == Reason.ChartSourceUnsupported


def test_a_source_with_a_token_service_stays_within_eleven_requests(fake: Fake) -> None:
    scopes: list[str] = []
    chart, issuer = "app", TokenIssuer()
    with upstream(in_registry(chart)) as up, LocalRegistry(issuer) as local:
        store = up._store

        def serve(seen: object) -> Reply:
            path = seen.path  # type: ignore[attr-defined]
            name, kind, reference = path.removeprefix("/v2/").rsplit("/", 2)
            if seen.headers.get("Authorization") != f"Bearer for-{name}":  # type: ignore[attr-defined]
                realm = f'Bearer realm="http://{fake.host}/token",scope="repository:{name}:pull"'
                return Reply(401, headers={"WWW-Authenticate": realm})
            if kind == "manifests":
                found = store.manifest(f"ghcr.example/{name}", reference)
                return Reply(200, found[0], {"Content-Type": found[1]}) if found else Reply(404)
            return Reply(200, store.blob(f"ghcr.example/{name}", reference) or b"")

        fake.on("^GET /v2/", serve)
        tokens(fake, fake.host, scopes)
        transport = patient(fake.host, local.host).transport
        target = Destination(
            local.host, "aicr/demo", transport, FixedCredentials(*issuer.issue()[:2]),
            {"oci://ghcr.example": f"oci://{fake.host}"},
        )  # fmt: skip
        assert mirror_chart(in_registry(chart), target).requests == 11
        assert mirror_chart(in_registry(chart), target).requests == 4
