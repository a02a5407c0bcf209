"""Bearer tokens: Debian's docker-registry checks what a token service on loopback signs."""

import time
from collections.abc import Iterator

import pytest
from aicr_pipeline.adapters.mirror import Destination, mirror_chart
from aicr_pipeline.adapters.registry import Reference, Repository
from aicr_pipeline.adapters.registry_auth import FixedCredentials, StaticCredentials
from aicr_pipeline.adapters.registry_errors import DeniedError
from aicr_pipeline.decide.chart_package import digest_of
from aicr_pipeline.model.reasons import Reason

from local.upstream.standins import standin_chart
from tests.functional.registry.charts import chart_name, in_registry, indexed, pushed, upstream
from tests.functional.registry.conftest import Registry, patient
from tests.functional.registry.test_registry_repository import MANIFEST, push
from tests.functional.registry.test_registry_tokens import Rotated
from tests.functional.registry.token_service import TokenService, token_registry

ROBOT = FixedCredentials("robot", "right-password")


@pytest.fixture(scope="module")
def running(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, TokenService]]:
    with token_registry(tmp_path_factory.mktemp("token-registry")) as found:
        yield found


@pytest.fixture
def service(running: tuple[str, TokenService]) -> TokenService:
    running[1].lifetime, running[1].says = 300, 300
    running[1].asked.clear()
    return running[1]


@pytest.fixture
def host(running: tuple[str, TokenService], service: TokenService) -> str:
    return running[0]


def client(
    host: str, service: TokenService, name: str, credentials: FixedCredentials | None = ROBOT
) -> Repository:
    return Repository(patient(host, service.host).transport, Reference(host, name), credentials)


def test_a_push_and_a_pull_with_one_token_per_repository(host: str, service: TokenService) -> None:
    for name in ("aicr/token/one", "aicr/token/two"):
        repository = client(host, service, name)
        manifest, digest = push(repository)
        found = repository.get_manifest("1.0.0")
        assert found is not None
        assert (found.content, found.digest) == (manifest, digest)
    # The registry named the scope each time; the token with push reads, too.
    assert service.asked == [
        ("robot", "repository:aicr/token/one:pull,push"),
        ("robot", "repository:aicr/token/two:pull,push"),
    ]


def test_strangers_read_and_do_not_write(host: str, service: TokenService) -> None:
    push(client(host, service, "aicr/token/open"))
    anonymous = client(host, service, "aicr/token/open", None)
    assert anonymous.get_manifest("1.0.0") is not None
    with pytest.raises(DeniedError) as caught:
        anonymous.push_blob(digest_of(b"n"), 1, b"n")
    assert caught.value.reason == Reason.Unauthorized
    assert service.asked[1:] == [
        ("", "repository:aicr/token/open:pull"),
        ("", "repository:aicr/token/open:pull,push"),
    ]


@pytest.mark.parametrize("call", ["blob", "manifest"])
def test_a_scope_that_is_refused_is_a_denial_and_ends(host: str, service: TokenService, call: str) -> None:
    repository = client(host, service, "readonly/a")
    with pytest.raises(DeniedError, match="may do this in that repository") as caught:
        if call == "blob":
            repository.push_blob(digest_of(b"n"), 1, b"n")
        else:
            repository.push_manifest(b"{}", MANIFEST, "1")
    assert caught.value.reason == Reason.Unauthorized
    assert type(caught.value) is DeniedError
    assert repository.counters.requests == 3  # refused, a token without the right, refused


def test_a_wrong_password_is_a_denial(host: str, service: TokenService) -> None:
    repository = client(host, service, "aicr/token/wrong", FixedCredentials("robot", "wrong-word"))
    with pytest.raises(DeniedError) as caught:
        repository.get_manifest("1.0.0")
    assert "wrong-word" not in str(caught.value)
    assert repository.counters.requests == 2


def test_a_token_that_ends_between_two_requests_is_replaced(host: str, service: TokenService) -> None:
    repository = client(host, service, "aicr/token/ending")
    service.lifetime = 1  # though the client is told 300 seconds, so that its clock does not help
    content = b"a"
    repository.push_blob(digest_of(content), 1, content)
    service.lifetime = 300
    time.sleep(1.1)
    repository.push_blob(digest_of(b"b"), 1, b"b")
    assert len(service.asked) == 2
    assert repository.blob_exists(digest_of(content)) and repository.blob_exists(digest_of(b"b"))


def test_a_token_is_replaced_by_the_clock_before_it_ends(host: str, service: TokenService) -> None:
    repository = client(host, service, "aicr/token/clock")
    service.says = 100
    push(repository)
    assert len(service.asked) == 1
    repository._auth._clock = lambda: time.time() + 91
    requests = repository.counters.requests
    assert repository.head_manifest("1.0.0") is not None
    assert (len(service.asked), repository.counters.requests - requests) == (2, 3)


@pytest.mark.parametrize("make", [indexed, in_registry])
def test_a_chart_goes_over_and_a_second_run_pushes_nothing(
    host: str, service: TokenService, make: type[object]
) -> None:
    source = make(chart_name())  # type: ignore[call-arg]
    with upstream(source) as up:  # type: ignore[arg-type]
        plain = [address.partition("://")[2].partition("/")[0] for address in up.upstreams.values()]
        transport = patient(host, service.host, *plain).transport
        target = Destination(host, "aicr/token", transport, ROBOT, up.upstreams)
        first, again = (mirror_chart(source, target) for _ in range(2))  # type: ignore[arg-type]
        assert (first.pushed, again.pushed, again.requests) == (True, False, 4)
        assert first.manifest_digest == again.manifest_digest
        with_rights = Registry("docker-registry", host, "robot", "right-password")
        with_rights.repository = lambda name, transport=None: client(host, service, name)  # type: ignore[method-assign]
        chart = first.chart_name
        assert pushed(with_rights, first)[1] == standin_chart(chart, "1.2.3")


def test_a_password_that_was_rotated_is_read_again(host: str, service: TokenService) -> None:
    secrets = Rotated("robot")
    transport = patient(host, service.host).transport
    repository = Repository(
        transport, Reference(host, "aicr/token/rotated"), StaticCredentials(secrets, "login")
    )
    repository.push_blob(digest_of(b"x"), 1, b"x")
    # refused, no token, a token, opened, stored
    assert (repository.counters.requests, secrets.passwords) == (5, ["never-asked"])


def test_a_publisher_with_a_token_service_stays_within_eleven_requests(
    host: str, service: TokenService, memory_registry: Registry
) -> None:
    chart = chart_name()
    source = in_registry(chart)
    with upstream(source) as up:
        plain = [address.partition("://")[2].partition("/")[0] for address in up.upstreams.values()]
        theirs = Destination(
            host, "aicr/org", patient(host, service.host, *plain).transport, ROBOT, up.upstreams
        )
        published = mirror_chart(source, theirs)
    target = memory_registry.destination(
        host, service.host, upstreams={"oci://ghcr.example/org": f"oci://{host}/aicr/org/charts"}
    )
    service.asked.clear()
    first, again = (mirror_chart(source, target) for _ in range(2))
    assert (first.pushed, first.requests, again.pushed, again.requests) == (True, 11, False, 4)
    assert first.manifest_digest == published.manifest_digest
    assert service.asked == [("", f"repository:aicr/org/charts/{chart}:pull")] * 2
