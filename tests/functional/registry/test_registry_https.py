"""Helm repositories over https, served by Debian's nginx with an authority that only these tests trust."""

import gzip
from collections.abc import Iterator

import pytest
import yaml
from aicr_pipeline.adapters.mirror import Destination, MirrorResult, mirror_chart
from aicr_pipeline.adapters.registry_auth import FixedCredentials
from aicr_pipeline.decide.chart_package import digest_of
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.plan import UpstreamSource
from aicr_pipeline.model.reasons import Reason

from local.upstream.standins import standin_chart
from tests.functional.registry.conftest import Registry, patient
from tests.functional.registry.nginx import Nginx, nginx

ARCHIVE = standin_chart("app", "1.2.3")
_USED = iter(range(10_000))


def index(*urls: str, digest: bool = True) -> bytes:
    entry: dict[str, object] = {"name": "app", "version": "1.2.3", "urls": list(urls)}
    if digest:
        entry["digest"] = digest_of(ARCHIVE)[7:]
    return yaml.safe_dump({"apiVersion": "v1", "entries": {"app": [entry]}}).encode()


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Nginx]:
    with nginx(tmp_path_factory.mktemp("nginx")) as found:
        found.put("stable/app.tgz", ARCHIVE)
        found.put("stable/index.yaml", index("app.tgz"))
        found.put("sign-in.html", b"<!DOCTYPE html><title>Sign in</title>")
        yield found


@pytest.fixture
def web(running: Nginx, monkeypatch: pytest.MonkeyPatch) -> Nginx:
    monkeypatch.setenv("SSL_CERT_FILE", str(running.authority))
    running.asked(0)
    return running


def mirror(web: Nginx, registry: Registry, path: str = "stable", *plain: str) -> MirrorResult:
    """Each into a prefix of its own."""
    transport = patient(registry.host, *plain).transport
    target = Destination(registry.host, f"aicr/https-{next(_USED)}", transport, registry.credentials)
    source = UpstreamSource(chart="app", repo=f"https://{web.host}/{path}", version="1.2.3")
    return mirror_chart(source, target)


def lines(web: Nginx, count: int) -> list[str]:
    """``host path status``"""
    found = [line.split() for line in web.asked(count)]
    told = [f"{line[0]} {line[2]} {line[4]}" for line in found]
    return told[:-2] + sorted(told[-2:])  # archive and provenance are asked for at the same time


def test_an_authority_of_the_site_s_own_is_trusted_when_it_is_named(
    web: Nginx, memory_registry: Registry
) -> None:
    result = mirror(web, memory_registry)
    assert (result.pushed, result.content_digest, result.requests) == (True, digest_of(ARCHIVE), 9)
    first, *beside = web.asked(3)
    assert [first, *sorted(beside)] == [
        f'127.0.0.1 GET /stable/{name} "identity" "-"'.replace(
            ' "identity', " HTTP/1.1 " + status + ' "identity'
        )
        for name, status in (("index.yaml", "200"), ("app.tgz", "200"), ("app.tgz.prov", "404"))
    ]


def test_a_certificate_that_is_not_trusted_is_named_and_not_tried_again(
    web: Nginx, memory_registry: Registry, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("SSL_CERT_FILE")
    with pytest.raises(PipelineError, match=r"certificate that is not trusted .*SSL_CERT_FILE") as caught:
        mirror(web, memory_registry)
    assert caught.value.reason == Reason.RegistryUnreachable
    assert web.host in caught.value.message
    assert not isinstance(caught.value, TransientError)


def test_a_certificate_for_another_name_is_refused(web: Nginx, memory_registry: Registry) -> None:
    transport = patient(memory_registry.host).transport
    target = Destination(memory_registry.host, "aicr/name", transport, memory_registry.credentials)
    repo = f"https://127.0.0.2:{web.port}/stable"
    with pytest.raises(PipelineError, match=r"not trusted \(IP address mismatch") as caught:
        mirror_chart(UpstreamSource(chart="app", repo=repo, version="1.2.3"), target)
    assert caught.value.reason == Reason.RegistryUnreachable


@pytest.mark.parametrize(
    ("urls", "asked"),
    [
        (["sub/app.tgz"], "127.0.0.1 /addresses/sub/app.tgz"),
        (["../stable/app.tgz"], "127.0.0.1 /stable/app.tgz"),
        (["/stable/app.tgz?signature=s"], "127.0.0.1 /stable/app.tgz?signature=s"),
        (["https://localhost:{port}/stable/app.tgz"], "localhost /stable/app.tgz"),
        (["//localhost:{port}/stable/app.tgz"], "localhost /stable/app.tgz"),
        (["https://localhost:1/app.tgz", "missing.tgz", "sub/app.tgz"], "127.0.0.1 /addresses/sub/app.tgz"),
    ],
)
def test_addresses_relative_and_absolute(
    web: Nginx, memory_registry: Registry, urls: list[str], asked: str
) -> None:
    web.put("addresses/sub/app.tgz", ARCHIVE)
    web.put("addresses/index.yaml", index(*(url.format(port=web.port) for url in urls)))
    assert mirror(web, memory_registry, "addresses").content_digest == digest_of(ARCHIVE)
    seen = lines(web, len(urls) + 2 - ("localhost:1/" in urls[0]))
    # A signature is looked for beside the archive that was taken, with the same query.
    path, mark, query = asked.partition("?")
    assert seen[-2:] == sorted([f"{asked} 200", f"{path}.prov{mark}{query} 404"])


def test_a_repository_that_moved_to_another_host_and_path(web: Nginx, memory_registry: Registry) -> None:
    web.put("deep/er/index.yaml", index("charts/app.tgz"))
    web.put("deep/er/charts/app.tgz", ARCHIVE)
    assert mirror(web, memory_registry, "moved/").requests == 10
    assert lines(web, 4) == [
        "127.0.0.1 /moved/index.yaml 301",
        "localhost /deep/er/index.yaml 200",
        "localhost /deep/er/charts/app.tgz 200",
        "localhost /deep/er/charts/app.tgz.prov 404",
    ]


def test_five_redirects_are_followed(web: Nginx, memory_registry: Registry) -> None:
    assert mirror(web, memory_registry, "hops/5").requests == 14
    assert [line.split()[2] for line in lines(web, 8)] == ["302"] * 5 + ["200", "200", "404"]


@pytest.mark.parametrize("name", ["index.yaml", "app.tgz"])
def test_a_sixth_redirect_is_not(web: Nginx, memory_registry: Registry, name: str) -> None:
    path = "hops/6"
    if name == "app.tgz":
        path = "long"
        web.put("long/index.yaml", index("/hops/6/app.tgz"))
    with pytest.raises(PipelineError, match=f"more than 5 redirects, the last to {web.host}") as caught:
        mirror(web, memory_registry, path)
    assert type(caught.value) is PipelineError
    assert caught.value.reason == Reason.ChartSourceUnsupported


def test_a_redirect_to_plain_http_is_not_followed(web: Nginx, memory_registry: Registry) -> None:
    with pytest.raises(PipelineError, match=f"http://{web.host} is not an https address") as caught:
        mirror(web, memory_registry, "down")
    assert caught.value.reason == Reason.ChartSourceUnsupported
    assert lines(web, 1) == ["127.0.0.1 /down/index.yaml 302"]


def test_encodings_nobody_asked_for(web: Nginx, memory_registry: Registry) -> None:
    web.put("zipped/index.yaml.gz", gzip.compress(index("app.tgz"), mtime=0))
    web.put("zipped/app.tgz.gz", ARCHIVE)  # one gzip, named twice: the archive's own
    result = mirror(web, memory_registry, "zipped")
    assert result.content_digest == digest_of(ARCHIVE)


def test_an_archive_that_was_zipped_once_more_is_refused(web: Nginx, memory_registry: Registry) -> None:
    web.put("zipped/index.yaml.gz", gzip.compress(index("twice.tgz"), mtime=0))
    web.put("zipped/twice.tgz.gz", gzip.compress(ARCHIVE, mtime=0))
    with pytest.raises(PipelineError, match="the index lists") as caught:
        mirror(web, memory_registry, "zipped")
    assert caught.value.reason == Reason.ChartInvalid


@pytest.mark.parametrize(
    ("path", "reason", "said"),
    [
        ("people", Reason.ChartSourceUnsupported, "answered an HTML page where an index was expected"),
        ("missing", Reason.ChartSourceUnsupported, "answered 404"),
        ("closed", Reason.Unauthorized, r"refuses us \(403\)"),
        ("basic", Reason.Unauthorized, r"refuses us \(401\)"),
        ("busy", Reason.RegistryUnreachable, "answered 503, 5 times"),
    ],
)
def test_what_is_no_index_is_refused(
    web: Nginx, memory_registry: Registry, path: str, reason: Reason, said: str
) -> None:
    with pytest.raises(PipelineError, match=said) as caught:
        mirror(web, memory_registry, path)
    assert caught.value.reason == reason
    assert isinstance(caught.value, TransientError) == (path == "busy")
    # The same for the archive of an index that is sound.
    web.put("sound/index.yaml", index(f"/{path}/app.tgz", digest=False))
    with pytest.raises(PipelineError) as again:
        mirror(web, memory_registry, "sound")
    assert again.value.reason == reason


def test_one_page_for_people_does_not_hide_the_next_address(web: Nginx, memory_registry: Registry) -> None:
    web.put("several/index.yaml", index("/people/app.tgz", "/closed/app.tgz", "/stable/app.tgz"))
    assert mirror(web, memory_registry, "several").pushed


def test_a_large_index_and_archive_arrive_in_many_pieces(web: Nginx, memory_registry: Registry) -> None:
    padding = b"".join(b"  pad-%d:\n  - version: 1.2.3\n    urls: [x]\n" % number for number in range(40_000))
    head, entries = index("app.tgz").split(b"entries:\n")
    web.put("large/index.yaml", head + b"entries:\n" + padding + entries)
    web.put("large/app.tgz", ARCHIVE)
    assert mirror(web, memory_registry, "large").content_digest == digest_of(ARCHIVE)


@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_repository_s_password_stays_with_its_host(
    web: Nginx, memory_registry: Registry, elsewhere: bool
) -> None:
    web.put("basic/app.tgz", ARCHIVE)
    web.put("basic/index.yaml", index(f"https://{web.other}/stable/app.tgz" if elsewhere else "app.tgz"))
    target = Destination(
        memory_registry.host,
        f"aicr/https-{next(_USED)}",
        patient(memory_registry.host).transport,
        memory_registry.credentials,
        publishers=lambda host: FixedCredentials("reader", "right-password"),
    )
    source = UpstreamSource(chart="app", repo=f"https://{web.host}/basic", version="1.2.3")
    assert mirror_chart(source, target).pushed
    sent = [line.split()[-1] != '"-"' for line in web.asked(3)]
    assert sent == ([True, False, False] if elsewhere else [True, True, True])
