"""The other processes of the mirror bench, the same for all contenders: registries, nginx, delays."""

import re
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tests.bench.imports import ROOT

USER, PASSWORD = "bench", "bench-password"
# bcrypt of the password at its lowest cost: the registry checks it with every request.
_HTPASSWD = "bench:$2y$04$abcdefghijklmnopqrstuujVDM8HfkdesWUJGE0gJ0aJeLMzUO8De\n"
_NGINX = """\
daemon off; pid {folder}/pid; error_log {folder}/errors; worker_processes 1;
events {{ worker_connections 256; }}
http {{
  access_log {folder}/access; client_body_temp_path {folder}/t1; proxy_temp_path {folder}/t2;
  fastcgi_temp_path {folder}/t3; uwsgi_temp_path {folder}/t4; scgi_temp_path {folder}/t5;
  server {{ listen 127.0.0.1:{port}; root {folder}/www; keepalive_requests 100000; }}
}}
"""


def program(name: str) -> str | None:
    """The path of a program of Debian's, some of which live where only root looks."""
    return shutil.which(name) or shutil.which(name, path="/usr/sbin")


class Requests:
    """Counts requests by a server's own access log."""

    def __init__(self, log: Path) -> None:
        self._log = log
        self._before = 0

    def restart(self) -> None:
        """Count from here."""
        self._before = self._lines()

    def count(self) -> int:
        """Requests since ``restart``."""
        return self._lines() - self._before

    def _lines(self) -> int:
        return len(re.findall(rb' HTTP/1\.[01]" \d{3} ', self._log.read_bytes())) if self._log.exists() else 0


@contextmanager
def registry(folder: Path, guarded: bool) -> Iterator[tuple[str, Requests]]:
    """Debian's docker-registry with an empty store: its address and its requests.

    Parameters
    ----------
    guarded:
        Ask for a password; a publisher's registry asks for none.
    """
    folder.mkdir(parents=True)
    auth = f"auth: {{htpasswd: {{realm: bench, path: {folder}/htpasswd}}}}\n" if guarded else ""
    (folder / "htpasswd").write_text(_HTPASSWD)
    (folder / "config.yml").write_text(
        f"version: 0.1\nlog: {{level: info}}\nstorage: {{filesystem: {{rootdirectory: {folder}/data}}}}\n"
        f"http: {{addr: '127.0.0.1:0'}}\n{auth}"
    )
    log, access = folder / "log", folder / "access"
    with log.open("w") as errors, access.open("w") as out:
        command = [program("docker-registry") or "docker-registry", "serve", str(folder / "config.yml")]
        process = subprocess.Popen(command, stdout=out, stderr=errors)
    with _ended(process):
        deadline = time.monotonic() + 15
        while not (found := re.search(r"listening on (127\.0\.0\.1:\d+)", log.read_text())):
            if process.poll() is not None or time.monotonic() > deadline:
                raise RuntimeError(f"docker-registry did not start: {log.read_text()[-500:]}")
            time.sleep(0.01)
        yield found[1], Requests(access)


@contextmanager
def chart_repository(folder: Path, files: dict[str, bytes]) -> Iterator[tuple[str, Requests]]:
    """nginx over some files: its address and its requests."""
    for path, content in files.items():
        target = folder / "www" / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes(content)
    folder.chmod(0o755)
    for _ in range(20):
        port = _free_port()
        (folder / "nginx.conf").write_text(_NGINX.format(folder=folder, port=port))
        command = [program("nginx") or "nginx", "-c", str(folder / "nginx.conf"), "-p", str(folder)]
        process = subprocess.Popen(command, stderr=subprocess.DEVNULL)
        with _ended(process):
            if _answers(port, process):
                yield f"127.0.0.1:{port}", Requests(folder / "access")
                return
    raise RuntimeError(f"nginx did not start: {(folder / 'errors').read_text()[-500:]}")


@contextmanager
def delayed(milliseconds: float, *targets: str) -> Iterator[list[str]]:
    """The targets, that many milliseconds away in each direction; 0: themselves."""
    if not milliseconds:
        yield list(targets)
        return
    command = [sys.executable, "-m", "tests.bench.delay", "--milliseconds", str(milliseconds), *targets]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True)
    with _ended(process):
        assert process.stdout is not None
        yield [process.stdout.readline().strip() for _ in targets]


@contextmanager
def _ended(process: subprocess.Popen[str] | subprocess.Popen[bytes]) -> Iterator[None]:
    try:
        yield
    finally:
        process.terminate()
        process.wait(timeout=10)
        if process.stdout:
            process.stdout.close()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def _answers(port: int, process: subprocess.Popen[bytes]) -> bool:
    deadline = time.monotonic() + 5
    while process.poll() is None and time.monotonic() < deadline:
        try:
            socket.create_connection(("127.0.0.1", port), timeout=1).close()
        except OSError:
            time.sleep(0.01)
        else:
            return True
    return False
