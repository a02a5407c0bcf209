"""What ECR and publishers' registries say that no registry at hand can be made to say."""

import io
import json
import math

import pytest
from aicr_pipeline.adapters.http import ThrottledError, retry_after
from aicr_pipeline.adapters.registry import Reference, Repository
from aicr_pipeline.adapters.registry_auth import FixedCredentials
from aicr_pipeline.adapters.registry_errors import (
    DeniedError,
    DigestMismatchError,
    RepositoryMissingError,
    TagImmutableError,
    TokenExpiredError,
    UnsupportedError,
)
from aicr_pipeline.decide.chart_package import digest_of
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.reasons import Reason

from tests.functional.registry.conftest import Patient, patient
from tests.functional.registry.fake import Fake, Reply

EXPIRED = b'{"errors":[{"code":"DENIED","message":"Your authorization token has expired. Reauthenticate."}]}'
MANIFEST = "application/vnd.oci.image.manifest.v1+json"


def error(code: str, message: str = "said") -> bytes:
    return json.dumps({"errors": [{"code": code, "message": message}]}).encode()


def client(fake: Fake, *more: str, via: Patient | None = None, anonymous: bool = False) -> Repository:
    via = via or patient(fake.host, *more)
    credentials = None if anonymous else FixedCredentials("AWS", "secret-word")
    return Repository(via.transport, Reference(fake.host, "aicr/a"), credentials)


@pytest.mark.parametrize("verb", ["HEAD", "GET", "POST", "PUT"])
@pytest.mark.parametrize("status", [429, 500, 502, 503, 504])
def test_every_verb_is_tried_again_after_a_passing_refusal(fake: Fake, verb: str, status: int) -> None:
    via = patient(fake.host)
    repository = client(fake, via=via)
    good = {"Docker-Content-Digest": digest_of(b"{}"), "Location": "/upload"}
    final = Reply(202 if verb == "POST" else 200, b"{}", good)
    fake.on(f"^{verb} ", Reply(status), Reply(status, headers={"Retry-After": "3"}), final)
    fake.on(".", Reply(201, b"", good))
    call = {
        "HEAD": lambda: repository.head_manifest("1"),
        "GET": lambda: repository.get_manifest("1"),
        "POST": lambda: repository.push_blob(digest_of(b"x"), 1, io.BytesIO(b"x")),
        "PUT": lambda: repository.push_manifest(b"{}", MANIFEST, "1"),
    }[verb]
    call()
    assert repository.counters.retries == 2
    assert [line.split()[0] for line in fake.lines()][:3] == [verb] * 3
    assert via.slept == [0.6, 1.2 + 3]
    assert all(one.body == fake.seen[0].body for one in fake.seen[:3])


def test_patience_ends(fake: Fake) -> None:
    via = patient(fake.host, attempts=3)
    fake.on(".", Reply(429))
    with pytest.raises(ThrottledError, match=r"throttling us \(429\), 3 times"):
        client(fake, via=via).head_manifest("1")
    assert len(fake.seen) == 3


def test_a_wait_beyond_the_budget_is_left_to_the_state_machine(fake: Fake) -> None:
    via = patient(fake.host)
    fake.on(".", Reply(429, headers={"Retry-After": "600"}))
    with pytest.raises(TransientError):
        client(fake, via=via).head_manifest("1")
    assert via.slept == []


def test_a_host_that_is_not_there_is_unreachable() -> None:
    via = patient("127.0.0.1:1", attempts=2)
    with pytest.raises(TransientError, match="cannot be reached") as caught:
        Repository(via.transport, Reference("127.0.0.1:1", "a")).head_manifest("1")
    assert caught.value.reason == Reason.RegistryUnreachable


def test_a_blob_that_is_cut_off_is_read_again_from_its_start(fake: Fake) -> None:
    content = b"z" * 400_000
    fake.on(".", Reply(200, content, cut=300_000), Reply(200, content))
    sink = io.BytesIO()
    client(fake).get_blob(digest_of(content), len(content), sink)
    assert sink.getvalue() == content


def test_a_manifest_that_is_cut_off_may_come_whole_later(fake: Fake) -> None:
    fake.on(".", Reply(200, b"{}" * 1000, cut=100))
    with pytest.raises(TransientError, match="broke off"):
        client(fake).get_manifest("1")


def test_connections_are_kept(fake: Fake) -> None:
    fake.on("^HEAD", Reply(404))
    fake.on("missing", Reply(404, error("MANIFEST_UNKNOWN")))
    fake.on("^GET", Reply(200, b"{}"))
    via = patient(fake.host)
    repository = client(fake, via=via)
    for _ in range(3):
        repository.head_manifest("1")
        repository.get_manifest("missing")
        repository.get_manifest("1")
    (kept,) = via.transport._connections._kept.values()
    assert len(kept) == 1


def test_wrong_bytes_are_never_left_behind(fake: Fake) -> None:
    fake.on(".", Reply(200, b"wrong bytes"))
    sink = io.BytesIO()
    with pytest.raises(DigestMismatchError):
        client(fake).get_blob(digest_of(b"right bytes"), 11, sink)
    assert sink.getvalue() == b""


def test_a_manifest_that_is_not_its_digest_is_refused(fake: Fake) -> None:
    fake.on(".", Reply(200, b"{}", {"Docker-Content-Digest": digest_of(b"{ }")}))
    with pytest.raises(DigestMismatchError):
        client(fake).get_manifest("1")
    with pytest.raises(DigestMismatchError):
        client(fake).get_manifest(digest_of(b"other"))


def test_a_manifest_without_a_type_has_the_one_inside_or_the_standard_one(fake: Fake) -> None:
    fake.on(
        ".", Reply(200, b'{"mediaType":"a/b"}', {"Content-Type": ""}), Reply(200, b"{}", {"Content-Type": ""})
    )
    types = [
        found.media_type
        for found in (client(fake).get_manifest("1"), client(fake).get_manifest("1"))
        if found
    ]
    assert types == ["a/b", MANIFEST]


def test_what_the_registry_stored_is_read_back(fake: Fake) -> None:
    fake.on("^PUT", Reply(201, headers={"Docker-Content-Digest": digest_of(b"other")}), Reply(201))
    fake.on("^HEAD", Reply(200, headers={"Docker-Content-Digest": digest_of(b"other")}))
    for _ in range(2):  # said in the answer; or only when asked
        with pytest.raises(DigestMismatchError):
            client(fake).push_manifest(b"{}", MANIFEST, "1")


@pytest.mark.parametrize(
    ("status", "body", "kind", "reason"),
    [
        (403, EXPIRED, TokenExpiredError, Reason.RegistryCredentialsStale),
        (401, EXPIRED, TokenExpiredError, Reason.RegistryCredentialsStale),
        (403, error("DENIED"), DeniedError, Reason.Unauthorized),
        (401, b"<html>", DeniedError, Reason.Unauthorized),
        (404, error("NAME_UNKNOWN"), RepositoryMissingError, Reason.ChartSourceUnsupported),
        (405, error("UNSUPPORTED"), UnsupportedError, Reason.ChartSourceUnsupported),
        (400, b"", PipelineError, Reason.ChartSourceUnsupported),
    ],
)
def test_a_refused_look_up_says_why(
    fake: Fake, status: int, body: bytes, kind: type[PipelineError], reason: Reason
) -> None:
    fake.on(".", Reply(status, body))
    with pytest.raises(kind) as caught:
        client(fake).get_manifest("1")
    assert caught.value.reason == reason
    assert "secret-word" not in str(caught.value)
    assert type(caught.value) is kind


@pytest.mark.parametrize(
    ("status", "body", "kind", "reason"),
    [
        (404, error("NAME_UNKNOWN"), RepositoryMissingError, Reason.InvalidConfiguration),
        (404, b"", RepositoryMissingError, Reason.InvalidConfiguration),
        (400, error("TAG_INVALID", "cannot be overwritten because the repository is immutable"),
         TagImmutableError, Reason.Conflict),
        (409, error("ImageTagAlreadyExistsException"), TagImmutableError, Reason.Conflict),
        (400, error("MANIFEST_INVALID"), UnsupportedError, Reason.ChartSourceUnsupported),
        (400, error("DIGEST_INVALID"), DigestMismatchError, Reason.ChartInvalid),
        (400, error("TOOMANYREQUESTS"), ThrottledError, Reason.RegistryUnreachable),
    ],
)  # fmt: skip
def test_a_refused_push_says_why(
    fake: Fake, status: int, body: bytes, kind: type[PipelineError], reason: Reason
) -> None:
    fake.on(".", Reply(status, body))
    with pytest.raises(kind) as caught:
        client(fake).push_manifest(b"{}", MANIFEST, "1")
    assert (type(caught.value), caught.value.reason) == (kind, reason)


def test_an_upload_whose_session_is_lost_starts_over(fake: Fake) -> None:
    fake.on("^POST", Reply(202, headers={"Location": "/v2/aicr/a/blobs/uploads/1?_state=x"}))
    fake.on("^HEAD", Reply(404))
    fake.on("^PUT", Reply(404, error("BLOB_UPLOAD_UNKNOWN")), Reply(201))
    client(fake).push_blob(digest_of(b"x"), 1, b"x")
    assert [line.split()[0] for line in fake.lines()] == ["POST", "PUT", "HEAD", "POST", "PUT"]
    assert fake.seen[1].path == f"/v2/aicr/a/blobs/uploads/1?_state=x&digest={digest_of(b'x')}"


# Redirects


def test_a_password_does_not_follow_a_redirect_to_another_host(fake: Fake, other: Fake) -> None:
    fake.on("/v2/back", Reply(200, b"content"))
    fake.on(".", Reply(307, headers={"Location": f"http://{other.host}/storage?signature=s"}))
    other.on("^GET /storage", Reply(307, headers={"Location": "/again"}))
    other.on("^GET /again", Reply(307, headers={"Location": f"http://{fake.host}/v2/back"}))
    client(fake, other.host).get_blob(digest_of(b"content"), 7, io.BytesIO())
    assert "Authorization" in fake.seen[0].headers
    assert ["Authorization" in one.headers for one in [*other.seen, fake.seen[1]]] == [False] * 3


def test_an_upload_elsewhere_does_not_get_the_password_even_when_it_asks(fake: Fake, other: Fake) -> None:
    fake.on("^POST", Reply(202, headers={"Location": f"http://{other.host}/upload"}))
    other.on(".", Reply(401, headers={"WWW-Authenticate": 'Basic realm="x"'}))
    with pytest.raises(DeniedError):
        client(fake, other.host).push_blob(digest_of(b"x"), 1, b"x")
    assert ["Authorization" in one.headers for one in other.seen] == [False]


def test_who_is_redirected_to_cannot_name_who_gets_the_password(fake: Fake, other: Fake) -> None:
    fake.on(".", Reply(307, headers={"Location": f"http://{other.host}/storage"}))
    other.on(
        "^GET /storage", Reply(401, headers={"WWW-Authenticate": f'Bearer realm="http://{other.host}/t"'})
    )
    other.on("^GET /t", Reply(200, b'{"token":"t"}'))
    with pytest.raises(DeniedError):
        client(fake, other.host).get_manifest("1")
    assert [one.path for one in other.seen] == ["/storage"]


@pytest.mark.parametrize(
    "target",
    [
        "http://example.invalid/x",
        "ftp://example.invalid/x",
        "https://user@example.invalid/x",
        "file:///etc/x",
    ],
)
def test_only_https_and_named_hosts_are_followed(fake: Fake, target: str) -> None:
    fake.on(".", Reply(302, headers={"Location": target}))
    with pytest.raises(PipelineError, match="not an https address") as caught:
        client(fake).head_manifest("1")
    assert not isinstance(caught.value, TransientError)


def test_plain_http_is_for_named_hosts_only(fake: Fake) -> None:
    via = patient()
    with pytest.raises(PipelineError, match="not an https address"):
        via.transport.send("GET", f"http://{fake.host}/", doing="Reading", counters=client(fake).counters)
    assert fake.seen == []


def test_redirects_end(fake: Fake) -> None:
    fake.on(".", Reply(302, headers={"Location": "/v2/round"}))
    with pytest.raises(PipelineError, match="more than 5 redirects"):
        client(fake).head_manifest("1")
    assert len(fake.seen) == 6


@pytest.mark.parametrize(
    ("value", "seconds"),
    [(None, None), ("", None), ("7", 7.0), ("soon", None), ("\xb2", None), ("9" * 400, math.inf),
     ("Thu, 01 Jan 99999999999999 00:00:00 GMT", None), ("Thu, 01 Jan 1970 00:01:40 GMT", 90.0),
     ("Thu, 01 Jan 1970 00:00:01 GMT", 0.0)],
)  # fmt: skip
def test_retry_after_is_a_number_or_a_date(value: str | None, seconds: float | None) -> None:
    assert retry_after(value, now=lambda: 10.0) == seconds


def test_a_host_that_speaks_plain_http_only_is_named_and_not_tried_again(fake: Fake) -> None:
    fake.on(".", Reply(200))
    via = patient()
    with pytest.raises(PipelineError, match=f"{fake.host} does not speak https") as caught:
        Repository(via.transport, Reference(fake.host, "a")).head_manifest("1")
    assert (caught.value.reason, caught.value.retry, via.slept) == (Reason.RegistryUnreachable, False, [])
