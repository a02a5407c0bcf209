"""Who we are: tokens per repository, ECR's passwords that end, an administrator's secret."""

import base64
import json
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from aicr_pipeline.adapters.ecr import EcrCredentials
from aicr_pipeline.adapters.registry import Reference, Repository
from aicr_pipeline.adapters.registry_auth import Credentials, StaticCredentials
from aicr_pipeline.adapters.registry_errors import (
    DeniedError,
    TokenExpiredError,
)
from aicr_pipeline.decide.chart_package import digest_of
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

from tests.functional.registry.conftest import patient
from tests.functional.registry.fake import Fake, Reply, Seen
from tests.functional.registry.test_registry_answers import EXPIRED, client, error


def tokens(fake: Fake, realm_host: str, seen_scopes: list[str], lifetime: int = 300) -> None:
    """A registry that gives a token for one repository, as publishers' registries do."""

    def manifest(seen: Seen) -> Reply:
        repository = seen.path.split("/v2/")[1].split("/manifests")[0]
        if seen.headers.get("Authorization") == f"Bearer for-{repository}":
            return Reply(200, b"{}", {"Docker-Content-Digest": digest_of(b"{}")})
        scope = f"repository:{repository}:pull"
        challenge = f'Bearer realm="http://{realm_host}/token",service="registry.example",scope="{scope}"'
        return Reply(401, error("UNAUTHORIZED"), {"WWW-Authenticate": challenge})

    def token(seen: Seen) -> Reply:
        scope = seen.path.partition("scope=")[2].replace("%3A", ":").replace("%2F", "/")
        seen_scopes.append(scope)
        body = {"token": f"for-{scope.split(':')[1]}", "expires_in": lifetime}
        return Reply(200, json.dumps(body).encode())

    fake.on("/v2/", manifest)
    fake.on("/token", token)


def test_each_repository_gets_its_own_token_and_keeps_it(fake: Fake) -> None:
    scopes: list[str] = []
    tokens(fake, fake.host, scopes)
    via = patient(fake.host)
    for repository in ("one/a", "two/b"):
        found = Repository(via.transport, Reference(fake.host, repository))
        assert found.get_manifest("1") is not None
        assert found.get_manifest("1") is not None
        assert found.counters.requests == 4  # challenged, token, read; read
    assert scopes == ["repository:one/a:pull", "repository:two/b:pull"]


def test_a_token_service_that_refuses_is_a_denial(fake: Fake) -> None:
    fake.on("/token", Reply(403))
    fake.on(".", Reply(401, headers={"WWW-Authenticate": f'Bearer realm="http://{fake.host}/token"'}))
    with pytest.raises(DeniedError):
        client(fake, anonymous=True).get_manifest("1")
    assert fake.lines() == ["GET /v2/aicr/a/manifests/1", "GET /token"]


def test_a_token_service_must_be_https_too(fake: Fake) -> None:
    fake.on(".", Reply(401, headers={"WWW-Authenticate": 'Bearer realm="http://example.invalid/token"'}))
    with pytest.raises(PipelineError, match="not an https address"):
        client(fake).get_manifest("1")


class Ecr:
    """GetAuthorizationToken with passwords p1, p2, …"""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.asked = 0

    def get_authorization_token(self) -> dict[str, Any]:
        self.asked += 1
        return {
            "authorizationData": [
                {
                    "authorizationToken": base64.b64encode(f"AWS:p{self.asked}".encode()).decode(),
                    "expiresAt": self.now + timedelta(hours=12),
                    "proxyEndpoint": "https://123456789012.dkr.ecr.eu-central-1.amazonaws.eu",
                }
            ]
        }


def test_an_expired_ecr_token_is_renewed_once(fake: Fake) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    ecr = Ecr(now)
    credentials = EcrCredentials(ecr, lambda: now)
    second = "Basic " + base64.b64encode(b"AWS:p2").decode()

    def manifest(seen: Seen) -> Reply:
        return Reply(200, b"{}") if seen.headers["Authorization"] == second else Reply(403, EXPIRED)

    fake.on(".", manifest)
    repository = Repository(patient(fake.host).transport, Reference(fake.host, "a"), credentials)
    assert repository.get_manifest("1") is not None
    assert (ecr.asked, len(fake.seen)) == (2, 2)
    assert credentials.token().host == "123456789012.dkr.ecr.eu-central-1.amazonaws.eu"


def test_a_token_that_stays_expired_is_not_asked_for_again_and_again(fake: Fake) -> None:
    now = datetime(2030, 1, 1, tzinfo=UTC)
    ecr = Ecr(now)
    fake.on(".", Reply(403, EXPIRED))
    repository = Repository(
        patient(fake.host).transport, Reference(fake.host, "a"), EcrCredentials(ecr, lambda: now)
    )
    started = time.monotonic()
    with pytest.raises(TokenExpiredError):
        repository.get_manifest("1")
    assert (ecr.asked, len(fake.seen)) == (2, 2)
    assert time.monotonic() - started < 5


def test_an_ecr_token_is_renewed_before_it_ends() -> None:
    now = [datetime(2030, 1, 1, tzinfo=UTC)]
    ecr = Ecr(now[0])
    credentials = EcrCredentials(ecr, lambda: now[0])
    assert credentials.get() == credentials.get() == ("AWS", "p1")
    now[0] += timedelta(hours=11, minutes=49)
    assert credentials.get() == ("AWS", "p1")
    now[0] += timedelta(minutes=2)
    ecr.now = now[0]
    assert credentials.get() == ("AWS", "p2")
    assert "p2" not in repr(credentials.token())


@pytest.mark.parametrize("text", ["no json", "[]", '{"username":"u"}', "secret-word"])
def test_a_secret_of_another_form_is_named_but_not_shown(text: str) -> None:
    class Secrets:
        def get_secret_value(self, SecretId: str) -> dict[str, str]:
            return {"SecretString": text}

    with pytest.raises(PipelineError, match="registry-login") as caught:
        StaticCredentials(Secrets(), "registry-login").get()
    assert caught.value.reason == Reason.RegistryCredentialsUnavailable
    assert "secret-word" not in str(caught.value)
    assert caught.value.__cause__ is None


def test_static_credentials_are_read_once_and_again_after_a_refusal() -> None:
    class Secrets:
        asked = 0

        def get_secret_value(self, SecretId: str) -> dict[str, str]:
            self.asked += 1
            return {"SecretString": json.dumps({"username": "u", "password": f"p{self.asked}"})}

    credentials = StaticCredentials(Secrets(), "registry-login")
    assert credentials.get() == credentials.get() == ("u", "p1")
    credentials.renew()
    assert credentials.get() == ("u", "p2")


class SlowSecrets:
    """A secret whose reading takes a while, with passwords p1, p2, …"""

    def __init__(self) -> None:
        self.asked = 0

    def get_secret_value(self, SecretId: str) -> dict[str, str]:
        self.asked += 1
        found = {"username": "u", "password": f"p{self.asked}"}
        time.sleep(0.05)
        return {"SecretString": json.dumps(found)}


class SlowEcr(Ecr):
    def get_authorization_token(self) -> dict[str, Any]:
        found = super().get_authorization_token()
        time.sleep(0.05)
        return found


NOW = datetime(2030, 1, 1, tzinfo=UTC)
SLOW: dict[str, Callable[[], tuple[Any, Credentials]]] = {
    "ecr": lambda: (ecr := SlowEcr(NOW), EcrCredentials(ecr, lambda: NOW)),
    "secret": lambda: (secrets := SlowSecrets(), StaticCredentials(secrets, "registry-login")),
}


@pytest.mark.parametrize("kind", SLOW)
def test_two_requests_under_way_share_one_pair(kind: str) -> None:
    service, credentials = SLOW[kind]()
    with ThreadPoolExecutor(8) as threads:
        assert len(set(threads.map(lambda _: credentials.get(), range(8)))) == 1
    assert service.asked == 1


@pytest.mark.parametrize("kind", SLOW)
def test_two_requests_refused_together_ask_for_one_new_pair(kind: str) -> None:
    service, credentials = SLOW[kind]()
    refused = credentials.get()

    def again(_: int) -> tuple[str, str]:
        credentials.renew(refused)
        return credentials.get()

    with ThreadPoolExecutor(8) as threads:
        assert set(threads.map(again, range(8))) == {(refused[0], "p2")}
    assert service.asked == 2
    credentials.renew()
    assert credentials.get() == (refused[0], "p3")


@pytest.mark.parametrize("realm", ["Basic", "Bearer"])
def test_a_changed_password_needs_no_restart(fake: Fake, realm: str) -> None:
    """A registry says 401 to the old one, at once or at its token service; functions live for hours."""
    passwords = iter(["old", "new", "newer"])

    class Secrets:
        def get_secret_value(self, SecretId: str) -> dict[str, str]:
            return {"SecretString": json.dumps({"username": "me", "password": next(passwords)})}

    right = "Basic " + base64.b64encode(b"me:new").decode()
    bearer = f'Bearer realm="http://{fake.host}/token",service="here"'

    def answer(seen: Seen) -> Reply:
        said = seen.headers.get("Authorization")
        if said == ("Bearer good" if realm == "Bearer" else right):
            return Reply(200, b"{}")
        challenge = bearer if realm == "Bearer" else 'Basic realm="here"'
        return Reply(401, error("UNAUTHORIZED"), {"WWW-Authenticate": challenge})

    fake.on(
        "/token",
        lambda seen: (
            Reply(200, b'{"token":"good"}') if seen.headers["Authorization"] == right else Reply(401)
        ),
    )
    fake.on("/v2/", answer)
    credentials = StaticCredentials(Secrets(), "registry-login")
    found = Repository(patient(fake.host).transport, Reference(fake.host, "one/a"), credentials)
    assert found.get_manifest("1") is not None
    assert next(passwords) == "newer"  # read twice


def test_a_wrong_password_is_not_tried_again(fake: Fake) -> None:
    fake.on("/v2/", Reply(401, error("UNAUTHORIZED"), {"WWW-Authenticate": 'Basic realm="here"'}))
    with pytest.raises(DeniedError):
        client(fake).get_manifest("1")
    assert len(fake.seen) == 1


class Rotated:
    """Secrets Manager with a password that was changed since it was read."""

    def __init__(self, user: str) -> None:
        self.user = user
        self.passwords = ["old-word", "right-password", "never-asked"]

    def get_secret_value(self, SecretId: str) -> dict[str, str]:
        return {"SecretString": json.dumps({"username": self.user, "password": self.passwords.pop(0)})}


def test_a_password_that_was_rotated_is_read_again(docker_host: str) -> None:
    secrets = Rotated("AWS")
    repository = Repository(
        patient(docker_host).transport,
        Reference(docker_host, "aicr/rotated"),
        StaticCredentials(secrets, "login"),
    )
    repository.push_blob(digest_of(b"x"), 1, b"x")
    assert (repository.counters.requests, secrets.passwords) == (3, ["never-asked"])


def test_a_password_that_stays_wrong_is_read_again_once(fake: Fake) -> None:
    fake.on(".", Reply(401, headers={"WWW-Authenticate": 'Basic realm="x"'}))
    secrets = Rotated("AWS")
    reference = Reference(fake.host, "a")
    repository = Repository(patient(fake.host).transport, reference, StaticCredentials(secrets, "login"))
    for requests in (2, 3):
        with pytest.raises(DeniedError):
            repository.get_manifest("1")
        assert (len(fake.seen), secrets.passwords) == (requests, ["never-asked"])
