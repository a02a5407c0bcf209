"""Keys and signatures by a real gpg, in a home of their own, made when a test asks."""

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest


class Gnupg:
    """gpg with a keyring; names are user ids, ``at`` is the time it believes (``20250101T000000``)."""

    def __init__(self, home: Path, program: str) -> None:
        self.home = home
        self._program = program

    def key(
        self, name: str, *, kind: str = "ed25519", use: str = "sign", expires: str = "never", at: str = ""
    ) -> str:
        """Make a key; returns its fingerprint."""
        self.run("--quick-gen-key", f"{name} <{name}@example.com>", kind, use, expires, at=at)
        return self.fingerprint(name)

    def subkey(
        self, fingerprint: str, *, kind: str = "ed25519", expires: str = "never", at: str = ""
    ) -> None:
        self.run("--quick-add-key", fingerprint, kind, "sign", expires, at=at)

    def fingerprint(self, name: str) -> str:
        listed = self.run("--list-keys", "--with-colons", f"={name} <{name}@example.com>").decode()
        return next(line.split(":")[9] for line in listed.splitlines() if line.startswith("fpr:"))

    def public(self, *names: str) -> str:
        """The armored public keys, in one block."""
        return self.run("--armor", "--export", *map(self.fingerprint, names)).decode()

    def secret(self, name: str) -> str:
        return self.run("--armor", "--export-secret-keys", self.fingerprint(name)).decode()

    def revoke(self, name: str, reason: int) -> None:
        """0: no reason, 1: compromised, 2: superseded, 3: no longer used."""
        answers = f"y\n{reason}\n\ny\n".encode()
        certificate = self.run(
            "--command-fd", "0", "--gen-revoke", self.fingerprint(name), given=answers, batch=()
        )
        self.run("--import", given=certificate)

    def sign(self, text: str, name: str, *options: str, at: str = "") -> bytes:
        """A clear-signed message."""
        return self.run(
            *options, "-u", f"={name} <{name}@example.com>", "--clearsign", given=text.encode(), at=at
        )

    def keyrings(self) -> tuple[Path, Path]:
        """Files with all public and all secret keys, as helm reads them."""
        public, secret = self.home / "all.gpg", self.home / "secret.gpg"
        public.write_bytes(self.run("--export"))
        secret.write_bytes(self.run("--export-secret-keys"))
        return public, secret

    def run(
        self, *arguments: str, given: bytes = b"", at: str = "", batch: tuple[str, ...] = ("--batch",)
    ) -> bytes:
        command = [self._program, *batch, "--yes", "--no-tty", "--quiet"]
        command += ["--pinentry-mode", "loopback", "--passphrase", ""]
        command += ["--faked-system-time", at] if at else []
        command += arguments
        done = subprocess.run(command, input=given, capture_output=True, timeout=30, env=self._environment())
        assert done.returncode == 0, done.stderr.decode()
        return done.stdout

    def stop(self) -> None:
        subprocess.run(["gpgconf", "--kill", "all"], env=self._environment(), capture_output=True, timeout=30)

    def _environment(self) -> dict[str, str]:
        return {"GNUPGHOME": str(self.home), "PATH": os.environ["PATH"], "LC_ALL": "C.UTF-8"}


@contextmanager
def gnupg() -> Iterator[Gnupg]:
    program = shutil.which("gpg")
    if program is None or shutil.which("gpg-agent") is None:
        pytest.skip("gpg is not installed (apt-get install gpg gpg-agent): nothing is signed")
    # Short: the agent's socket lies in it, and its path may have 107 characters.
    with tempfile.TemporaryDirectory(prefix="gpg-", ignore_cleanup_errors=True) as home:
        found = Gnupg(Path(home), program)
        try:
            yield found
        finally:
            found.stop()
