"""A token service as publishers run beside their registries: its JSON Web Tokens are checked for real.

The form is the distribution project's ("Token Authentication Implementation"): RS256, the signing certificate
in ``x5c``, and what may be done in the claim ``access``.
"""

import base64
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.x509.oid import NameOID

from tests.functional.registry.conftest import docker_registry
from tests.functional.registry.fake import Reply, Seen, faking

ISSUER, SERVICE = "token-service.test", "registry.test"
#: docker-registry accepts a token this many seconds longer than it says.
LEEWAY = 60


@dataclass
class TokenService:
    """Gives tokens to a user, and to nobody for the repositories under ``open``.

    ``lifetime`` is what the next tokens are good for at the registry; ``says`` is what clients are told.
    """

    user: str
    password: str
    allowed: dict[str, set[str]] = field(default_factory=dict)
    lifetime: float = 300
    says: int = 300
    #: (user, scope) of every request.
    asked: list[tuple[str, str]] = field(default_factory=list)
    host: str = ""

    def __post_init__(self) -> None:
        self._key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
        name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, ISSUER)])
        now = datetime.now(UTC)
        self._certificate = (
            x509.CertificateBuilder()
            .subject_name(name).issuer_name(name).public_key(self._key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(hours=1)).not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
            .sign(self._key, hashes.SHA256())
        )  # fmt: skip

    @property
    def bundle(self) -> bytes:
        """The certificate that the registry trusts."""
        return self._certificate.public_bytes(serialization.Encoding.PEM)

    def answer(self, seen: Seen) -> Reply:
        """One request for a token; refused actions are left out of it, as the specification says."""
        query = parse_qs(urlsplit(seen.path).query)
        user = _user(seen.headers.get("Authorization", ""))
        for scope in query.get("scope", []):
            # The registry writes the actions in any order.
            name, _, actions = scope.rpartition(":")
            self.asked.append((user[0], f"{name}:{','.join(sorted(actions.split(',')))}"))
        if user[0] and user != (self.user, self.password):
            return Reply(401, b'{"errors":[{"code":"UNAUTHORIZED","message":"no such user"}]}')
        access = [self._granted(user[0], scope) for scope in query.get("scope", [])]
        body = {"token": self._token(user[0], access), "expires_in": self.says}
        return Reply(200, json.dumps(body).encode(), {"Content-Type": "application/json"})

    def _granted(self, user: str, scope: str) -> dict[str, object]:
        kind, _, rest = scope.partition(":")
        name, _, actions = rest.rpartition(":")
        known = next((can for prefix, can in self.allowed.items() if name.startswith(prefix)), set())
        wanted = set(actions.split(","))
        return {"type": kind, "name": name, "actions": sorted(wanted & known if user else wanted & {"pull"})}

    def _token(self, user: str, access: list[dict[str, object]]) -> str:
        now = time.time()
        leaf = base64.b64encode(self._certificate.public_bytes(serialization.Encoding.DER)).decode()
        header = {"typ": "JWT", "alg": "RS256", "x5c": [leaf]}
        claims = {
            "iss": ISSUER, "sub": user, "aud": SERVICE, "iat": int(now), "nbf": int(now) - 600,
            "exp": int(now + self.lifetime) - LEEWAY, "jti": str(len(self.asked)), "access": access,
        }  # fmt: skip
        signed = b".".join(_base64(json.dumps(part).encode()) for part in (header, claims))
        signature = self._key.sign(signed, padding.PKCS1v15(), hashes.SHA256())
        return (signed + b"." + _base64(signature)).decode()


@contextmanager
def token_registry(folder: Path) -> Iterator[tuple[str, TokenService]]:
    """docker-registry that takes the tokens of a service beside it."""
    service = TokenService("robot", "right-password", {"aicr/": {"pull", "push"}, "readonly/": {"pull"}})
    with faking() as fake:
        fake.on("^GET /token", service.answer)
        service.host = fake.host
        (folder / "bundle.pem").write_bytes(service.bundle)
        auth = (
            f"{{token: {{realm: 'http://{fake.host}/token', service: {SERVICE}, issuer: {ISSUER}, "
            f"rootcertbundle: {folder}/bundle.pem}}}}"
        )
        with docker_registry(folder, auth) as host:
            yield host, service


def _user(header: str) -> tuple[str, str]:
    scheme, _, value = header.partition(" ")
    user, _, password = base64.b64decode(value).decode().partition(":") if scheme == "Basic" else ("", "", "")
    return user, password


def _base64(content: bytes) -> bytes:
    return base64.urlsafe_b64encode(content).rstrip(b"=")
