"""The same cases run against the registry of one machine and against Debian's docker-registry."""

import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from aicr_pipeline.adapters.http import Patience, Transport
from aicr_pipeline.adapters.mirror import Destination
from aicr_pipeline.adapters.registry import Reference, Repository
from aicr_pipeline.adapters.registry_auth import Credentials, FixedCredentials

from local.registry import FileStore, LocalRegistry, MemoryStore, Store, TokenIssuer
from tests.functional.registry.fake import Fake, faking

# bcrypt of "right-password"
_HTPASSWD = "AWS:$2y$05$LN7vGecRvvSDNm.b5oPWBOG3Qbf6Wxxbe88JUXsMfhOemp0LAqKeC\n"


@dataclass
class Registry:
    """A running registry and a way in."""

    kind: str
    host: str
    user: str
    password: str

    @property
    def credentials(self) -> Credentials:
        return FixedCredentials(self.user, self.password)

    def repository(self, name: str, transport: Transport | None = None) -> Repository:
        return Repository(
            transport or patient(self.host).transport, Reference(self.host, name), self.credentials
        )

    def destination(self, *plain: str, upstreams: dict[str, str] | None = None) -> Destination:
        transport = patient(self.host, *plain).transport
        return Destination(self.host, "aicr/demo", transport, self.credentials, upstreams or {})


@dataclass
class Patient:
    """A transport that writes down how long it would have slept."""

    transport: Transport
    slept: list[float] = field(default_factory=list)


def patient(*plain: str, attempts: int = 5) -> Patient:
    slept: list[float] = []
    transport = Transport(
        frozenset(plain), Patience(attempts=attempts, read=5), sleep=slept.append, pick=lambda low, high: high
    )
    return Patient(transport, slept)


@contextmanager
def docker_registry(folder: Path, auth: str = "") -> Iterator[str]:
    """Debian's docker-registry, with basic auth unless told else; it picks a free port and says which."""
    program = shutil.which("docker-registry")
    if program is None:
        pytest.skip(
            "docker-registry is not installed (apt-get install docker-registry): case not run against it"
        )
    (folder / "htpasswd").write_text(_HTPASSWD)
    auth = auth or f"{{htpasswd: {{realm: test, path: {folder}/htpasswd}}}}"
    (folder / "config.yml").write_text(
        f"version: 0.1\nlog: {{level: info}}\nstorage: {{filesystem: {{rootdirectory: {folder}/data}}}}\n"
        f"http: {{addr: '127.0.0.1:0'}}\nauth: {auth}\n"
    )
    log = folder / "log"
    with log.open("w") as sink:
        process = subprocess.Popen([program, "serve", str(folder / "config.yml")], stdout=sink, stderr=sink)
    try:
        deadline = time.monotonic() + 15
        while not (found := re.search(r"listening on (127\.0\.0\.1:\d+)", log.read_text())):
            if process.poll() is not None or time.monotonic() > deadline:
                pytest.fail(f"docker-registry did not start: {log.read_text()[-500:]}")
            time.sleep(0.02)
        yield found[1]
    finally:
        process.terminate()
        process.wait(timeout=10)


@pytest.fixture(scope="session")
def docker_host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with docker_registry(tmp_path_factory.mktemp("docker-registry")) as host:
        yield host


@contextmanager
def local_registry(store: Store) -> Iterator[Registry]:
    issuer = TokenIssuer()
    with LocalRegistry(issuer, store) as local:
        user, password, _ = issuer.issue()
        yield Registry(type(store).__name__, local.host, user, password)


@pytest.fixture(scope="session")
def memory_registry() -> Iterator[Registry]:
    with local_registry(MemoryStore()) as found:
        yield found


@pytest.fixture(scope="session")
def files_registry(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Registry]:
    with local_registry(FileStore(tmp_path_factory.mktemp("registry"))) as found:
        yield found


@pytest.fixture(params=["memory_registry", "files_registry", "docker_registry"])
def registry(request: pytest.FixtureRequest) -> Iterator[Registry]:
    """All registries, which tests share: each names its charts itself."""
    if request.param == "docker_registry":
        yield Registry("docker-registry", request.getfixturevalue("docker_host"), "AWS", "right-password")
    else:
        yield request.getfixturevalue(request.param)


@pytest.fixture
def fake() -> Iterator[Fake]:
    with faking() as found:
        yield found


@pytest.fixture
def other() -> Iterator[Fake]:
    """A second host."""
    with faking() as found:
        yield found
