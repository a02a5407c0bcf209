"""Publishers that answer whatever they like: each ends in a ``PipelineError``, and nothing is pushed."""

import gzip
import io
import json
import socket
import tarfile
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import yaml
from aicr_pipeline.adapters.http import Counters
from aicr_pipeline.adapters.mirror import Destination, mirror_chart
from aicr_pipeline.adapters.registry import parse_reference
from aicr_pipeline.decide.chart_package import CONFIG_TYPE, CONTENT_TYPE, digest_of
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.plan import UpstreamSource
from aicr_pipeline.model.reasons import Reason
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from local.upstream.standins import standin_chart
from tests.functional.registry.charts import in_registry, indexed
from tests.functional.registry.conftest import patient
from tests.functional.registry.fake import Fake, Reply

ARCHIVE = standin_chart("app", "1.2.3")
#: One server for all examples of a property.
SHARED = settings(max_examples=70, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


def target(fake: Fake) -> Destination:
    """Publisher and registry in one; pushes are seen, whatever they would be."""
    upstreams = {
        "https://charts.example.com": f"http://{fake.host}",
        "oci://ghcr.example": f"oci://{fake.host}",
    }
    return Destination(fake.host, "aicr/x", patient(fake.host, attempts=1).transport, None, upstreams)


def refused(fake: Fake, source: UpstreamSource) -> PipelineError | None:
    """The refusal; None when the chart went over."""
    try:
        mirror_chart(source, target(fake))
    except PipelineError as error:
        assert not [line for line in fake.lines() if line.startswith(("PUT", "POST"))]
        return error
    return None


def answer(fake: Fake, *rules: tuple[str, Reply]) -> None:
    """Other answers than before."""
    fake._rules.clear()
    fake.seen.clear()
    for pattern, reply in rules:
        fake.on(pattern, reply)


def index(*urls: object, **more: object) -> bytes:
    entry = {"version": "1.2.3", "urls": list(urls), **more}
    return yaml.safe_dump({"entries": {"app": [entry]}}).encode()


@pytest.mark.parametrize(
    "url",
    [
        "https://[::1", "//[", "https://h:99999999/app.tgz", "https://h:port/app.tgz", "https://exa\u2100mple/a",
        "https://a b/app.tgz", "https://.../app.tgz", "https://" + "a" * 70 + ".com/app.tgz",
        "https://user:secret-word@127.0.0.1/app.tgz", "file:///etc/passwd", "data:,x", "oci://h/app", "http://h/a",
        "javascript:1", "https://", "gopher://127.0.0.1:25/x",
    ],
)  # fmt: skip
def test_addresses_that_are_none_are_refused_and_do_not_hide_the_next(fake: Fake, url: str) -> None:
    answer(fake, ("index.yaml", Reply(200, index(url))))
    error = refused(fake, indexed("app"))
    assert error is not None
    assert (type(error), error.reason) == (PipelineError, Reason.ChartSourceUnsupported)
    assert "secret-word" not in error.message
    answer(
        fake,
        ("index.yaml", Reply(200, index(url, "app.tgz"))),
        ("^GET /stable/app.tgz$", Reply(200, ARCHIVE)),
        ("^POST", Reply(202, headers={"Location": "/upload"})),
        ("^PUT", Reply(201)),
        ("^HEAD", Reply(404)),
    )
    with pytest.raises(PipelineError) as mirrored:
        mirror_chart(indexed("app"), target(fake))
    # The fake keeps nothing, so that only reading back fails: everything was pushed by then.
    assert "Pushing the manifest" in mirrored.value.message


@pytest.mark.parametrize(
    "repo", ["https://[", "https://user:secret-word@charts.example.com", "https://h:x/", "https://a b"]
)
def test_a_repository_that_is_no_address_is_refused_without_its_password(fake: Fake, repo: str) -> None:
    error = refused(fake, UpstreamSource(chart="app", repo=repo, version="1.2.3"))
    assert error is not None
    assert (type(error), error.reason) == (PipelineError, Reason.ChartSourceUnsupported)
    assert "secret-word" not in error.message
    assert [one.path for one in fake.seen] in (
        [],
        ["/v2/aicr/x/charts/app/manifests/1.2.3"],
    )  # ours, beside it


@pytest.mark.parametrize("location", ["https://[::1", "//[", "http://h:99999999/", "https://exa\u2100mple/"])
def test_a_redirect_or_an_upload_to_no_address_is_refused(fake: Fake, location: str) -> None:
    named = {"Location": location.encode().decode("latin-1")}
    answer(fake, ("index.yaml", Reply(302, headers=named)))
    error = refused(fake, indexed("app"))
    assert error is not None
    assert (type(error), error.reason) == (PipelineError, Reason.ChartSourceUnsupported)
    answer(fake, ("^POST", Reply(202, headers=named)))
    repository = target(fake).repository("charts", "app", Counters())
    with pytest.raises(PipelineError) as caught:
        repository.push_blob("sha256:" + "0" * 64, 1, b"x")
    assert (type(caught.value), caught.value.reason) == (PipelineError, Reason.ChartSourceUnsupported)


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.text(max_size=8)
    | st.just("sha256:" + "a" * 64),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["config", "layers", "mediaType", "digest", "size", "x"]), inner, max_size=4
        )
    ),
    max_leaves=12,
)


@SHARED
@given(st.binary(max_size=60) | JSON.map(lambda value: json.dumps(value).encode()))
def test_any_manifest_is_refused(fake: Fake, content: bytes) -> None:
    answer(fake, ("^GET", Reply(200, content)))
    error = refused(fake, in_registry("app"))
    assert error is not None
    assert error.reason in (Reason.ChartSourceUnsupported, Reason.ContentTooLarge)
    assert not isinstance(error, TransientError)


@SHARED
@given(JSON)
def test_any_urls_and_digest_of_an_index_are_refused(fake: Fake, value: object) -> None:
    listed = {"entries": {"app": [{"version": "1.2.3", "urls": value}]}}
    answer(fake, ("index.yaml", Reply(200, json.dumps(listed).encode())))
    first = refused(fake, indexed("app"))
    answer(fake, ("index.yaml", Reply(200, index("app.tgz", digest=value))))
    second = refused(fake, indexed("app"))
    for error in (first, second):
        assert error is not None
        assert error.reason in (Reason.ChartSourceUnsupported, Reason.RegistryUnreachable)


@SHARED
@given(st.sampled_from([200, 201, 204, 206, 300, 304, 400, 404, 410, 418, 451]), st.binary(max_size=40))
def test_any_answer_for_an_archive_is_refused(fake: Fake, status: int, content: bytes) -> None:
    body = b"" if status in (204, 304) else content
    answer(fake, ("index.yaml", Reply(200, index("app.tgz"))), ("app.tgz", Reply(status, body)))
    error = refused(fake, indexed("app"))
    assert error is not None
    assert error.reason in (Reason.ChartSourceUnsupported, Reason.ChartInvalid)


@SHARED
@given(
    st.text(st.characters(codec="utf-8"), max_size=40), st.sampled_from(["oci://h.example/", "oci://", ""])
)
def test_any_text_is_an_address_without_tricks_or_none(prefix_free: str, start: str) -> None:
    try:
        found = parse_reference(start + prefix_free)
    except PipelineError as error:
        assert error.reason == Reason.ChartSourceUnsupported
        return
    url = f"https://{found.host}/v2/{found.repository}/manifests/1"
    assert not set(url) & set("?#\\%@ \t\r\n") and ".." not in found.repository.split("/")
    assert url.isascii() and found.repository == found.repository.lower()


@pytest.mark.parametrize(
    "address",
    [
        "oci://h.example/a/../b", "oci://h.example/a/./b", "oci://h.example/a//b", "oci://h.example/a?x=y",
        "oci://h.example/a#x", "oci://h.example/a%2e%2e", "oci://h.example/A", "oci://u@h.example/a",
        "oci://h.example?x/a", "oci://h .example/a", "oci://h.example/a b", "oci://h.example:port/a",
    ],
)  # fmt: skip
def test_addresses_that_a_url_would_read_otherwise_are_refused(address: str) -> None:
    with pytest.raises(PipelineError) as caught:
        parse_reference(address)
    assert caught.value.reason == Reason.ChartSourceUnsupported


@contextmanager
def raw(*answers: bytes) -> Iterator[str]:
    """Serve exact bytes, one answer a connection."""
    with socket.create_server(("127.0.0.1", 0)) as listener:

        def serve() -> None:
            for content in answers:
                connection, _ = listener.accept()
                with connection:
                    connection.recv(65536)
                    connection.sendall(content)

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"127.0.0.1:{listener.getsockname()[1]}"
        thread.join(5)
        assert not thread.is_alive()


HEAD = b"HTTP/1.1 200 OK\r\nConnection: close\r\nTransfer-Encoding: chunked\r\n\r\n"


def pieces(content: bytes, *sizes: int) -> bytes:
    """A chunked body whose first pieces have these sizes."""
    found, at = b"", 0
    for size in (*sizes, len(content) - sum(sizes)):
        found += b"%x\r\n%b\r\n" % (size, content[at : at + size])
        at += size
    return HEAD + found + b"0\r\n\r\n"


def test_an_archive_whose_first_piece_is_one_byte(fake: Fake) -> None:
    answer(fake, ("/manifests/", Reply(404)), ("^POST", Reply(418)))
    with raw(pieces(index("app.tgz"), 1, 1), *[pieces(ARCHIVE, 1, 1)] * 2) as host:
        transport = patient(fake.host, host, attempts=1).transport
        there = Destination(
            fake.host, "aicr/x", transport, None, {"https://charts.example.com": f"http://{host}"}
        )
        with pytest.raises(PipelineError, match="418"):  # the archive was taken, the push refused
            mirror_chart(indexed("app"), there)


def test_an_archive_that_never_ends_is_left_at_the_limit(fake: Fake, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aicr_pipeline.adapters.chart_sources.MAX_TOTAL", 300_000)
    body = ARCHIVE + bytes(400_000)
    answer(fake, ("index.yaml", Reply(200, index("app.tgz"))), ("app.tgz", Reply(200, body)))
    error = refused(fake, indexed("app"))
    assert error is not None
    assert (type(error), error.reason) == (PipelineError, Reason.ContentTooLarge)


def packed(*entries: tuple[tarfile.TarInfo, bytes]) -> bytes:
    buffer = io.BytesIO()
    with tarfile.open(fileobj=buffer, mode="w") as archive:
        for info, content in entries:
            info.size = len(content)
            archive.addfile(info, io.BytesIO(content))
    return gzip.compress(buffer.getvalue(), mtime=0)


def entry(name: str, kind: bytes = tarfile.REGTYPE, link: str = "") -> tarfile.TarInfo:
    info = tarfile.TarInfo(name)
    info.type, info.linkname = kind, link
    return info


CHART = (entry("app/Chart.yaml"), b"apiVersion: v2\nname: app\nversion: 1.2.3\n")


@pytest.mark.parametrize(
    ("archive", "reason"),
    [
        (packed(CHART, (entry("app/x", tarfile.SYMTYPE, "/etc/passwd"), b"")), Reason.ChartInvalid),
        (packed(CHART, (entry("app/../../x"), b"x")), Reason.ChartInvalid),
        (packed(CHART, (entry("/etc/x"), b"x")), Reason.ChartInvalid),
        (packed(CHART, (entry("b/x"), b"x")), Reason.ChartInvalid),
        (packed(CHART, (entry("app/x"), bytes(6_000_000))), Reason.ContentTooLarge),
        (packed(CHART)[:-6], Reason.ChartInvalid),
        (packed(CHART) + b"tail", Reason.ChartInvalid),
        (packed((entry("app/values.yaml"), b"a: 1")), Reason.ChartInvalid),
    ],
    ids=["link", "dots", "absolute", "two folders", "large", "cut", "tail", "no Chart.yaml"],
)
@pytest.mark.parametrize("source", [indexed("app"), in_registry("app")], ids=["https", "oci"])
def test_a_hostile_archive_is_never_pushed_from_either_source(
    fake: Fake, source: UpstreamSource, archive: bytes, reason: Reason
) -> None:
    document = {
        "config": {"mediaType": CONFIG_TYPE, "digest": digest_of(b"{}"), "size": 2},
        "layers": [{"mediaType": CONTENT_TYPE, "digest": digest_of(archive), "size": len(archive)}],
    }
    answer(
        fake,
        ("index.yaml", Reply(200, index("app.tgz"))),
        ("app.tgz$", Reply(200, archive)),
        (f"/blobs/{digest_of(b'{}')}", Reply(200, b"{}")),
        ("/org/app/blobs/", Reply(200, archive)),
        ("^GET /v2/org/app/manifests/", Reply(200, json.dumps(document).encode())),
        ("/manifests/", Reply(404)),
    )
    error = refused(fake, source)
    assert error is not None
    assert (type(error), error.reason) == (PipelineError, reason)
