"""Whether an ID token says who somebody is (OpenID Connect Core 1.0, 3.1.3.7). No I/O."""

import hmac
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from aicr_pipeline.decide.sign_in import Identity, is_address
from aicr_pipeline.model.approvers import Oidc

#: Signatures by the issuer's private key. Neither none nor a shared secret is among them.
ALGORITHMS = ("RS256", "PS256", "ES256")
LEEWAY_SECONDS = 30
#: A token that is older was not made for this sign-in.
OLDEST_SECONDS = 600
_MOST_GROUPS = 500


class IdTokenError(Exception):
    """The token is refused; ``why`` is one word for the log, and nothing of the token."""

    def __init__(self, why: str) -> None:
        super().__init__(why)
        self.why = why


class UnknownKeyError(IdTokenError):
    """None of the keys signed it: perhaps the issuer has new ones."""


def verify_id_token(token: str, keys: Mapping[str, Any], oidc: Oidc, nonce: str, now: datetime) -> Identity:
    """Check signature, algorithm, issuer, audience, times and nonce, in this order.

    Parameters
    ----------
    keys:
        The issuer's JWK set.
    nonce:
        The one that went to the issuer with this sign-in.

    Raises
    ------
    UnknownKeyError
        When no key fits.
    IdTokenError
        For whatever else does not hold.
    """
    from joserfc import jwt
    from joserfc.errors import InvalidKeyIdError, JoseError
    from joserfc.jwk import KeySet

    try:
        decoded = jwt.decode(token, KeySet.import_key_set(_signing(keys)), algorithms=ALGORITHMS)
    except InvalidKeyIdError:
        raise UnknownKeyError("key") from None
    except (JoseError, ValueError, TypeError, KeyError):
        raise IdTokenError("signature") from None
    claims = decoded.claims
    seconds = int(now.timestamp())
    registry = jwt.JWTClaimsRegistry(
        now=seconds,
        leeway=LEEWAY_SECONDS,
        iss={"essential": True, "value": oidc.issuer},
        aud={"essential": True, "value": oidc.client_id},
        sub={"essential": True},
        exp={"essential": True},
        iat={"essential": True},
        nonce={"essential": True},
    )
    try:
        registry.validate(claims)
    except JoseError as error:
        raise IdTokenError(str(getattr(error, "claim", None) or type(error).__name__)) from None
    audiences = claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]
    if claims.get("azp", oidc.client_id) != oidc.client_id or (len(audiences) > 1 and "azp" not in claims):
        raise IdTokenError("azp")
    if seconds - claims["iat"] > OLDEST_SECONDS:
        raise IdTokenError("iat")
    given = claims["nonce"]
    if not isinstance(given, str) or not hmac.compare_digest(given.encode(), nonce.encode()):
        raise IdTokenError("nonce")
    return _identity(claims, oidc)


def _signing(keys: Mapping[str, Any]) -> Any:
    """The set without keys for encryption and without kinds we take no signature of."""
    found = keys.get("keys")
    listed = found if isinstance(found, list) else []
    return {
        "keys": [
            key
            for key in listed
            if isinstance(key, dict) and key.get("kty") in ("RSA", "EC") and key.get("use", "sig") == "sig"
        ]
    }


def _identity(claims: Mapping[str, Any], oidc: Oidc) -> Identity:
    subject, email = claims["sub"], claims.get(oidc.email_claim)
    if not 0 < len(subject) <= 255 or not subject.isprintable():
        raise IdTokenError("sub")
    # A claim that is no address (a user name) names nobody here: it could be an approver's name.
    usable = isinstance(email, str) and len(email) <= 254 and email.isprintable() and is_address(email)
    address = email if usable else None
    groups = claims.get(oidc.groups_claim, [])
    listed = [groups] if isinstance(groups, str) else groups if isinstance(groups, list) else []
    return Identity(
        issuer=oidc.issuer,
        subject=subject,
        email=address if claims.get("email_verified") is True else None,
        groups=tuple(group for group in listed[:_MOST_GROUPS] if isinstance(group, str)),
    )
