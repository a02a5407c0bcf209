"""Small corrections of moto, each tested against plain moto so that an upgrade tells when one may go."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from typing import Any

from local.aws.identity import Identities
from local.aws.lambdas import Lambdas
from local.aws.model import EcrToken, EngineError
from local.aws.patches import Patches

_DIGEST_BYTES = {"SHA_256": 32, "SHA_384": 48, "SHA_512": 64}


def install_account(patches: Patches, account: str) -> None:
    """Every request belongs to the stack's account; moto has one account number of its own."""
    from moto.core import responses

    patches.replace(responses.BaseResponse, "get_current_account", lambda response: account)


def install_kms_digest(patches: Patches) -> None:
    """Sign and Verify with MessageType=DIGEST take the message as the hash itself; moto hashes it again."""
    from moto.kms import responses
    from moto.kms.exceptions import ValidationException

    original_sign = responses.KmsResponse.sign
    original_verify = responses.KmsResponse.verify

    def digest_of(response: Any) -> tuple[Any, bytes, Any]:
        from cryptography.hazmat.primitives import hashes
        from cryptography.hazmat.primitives.asymmetric import ec, utils

        key_id = response._get_param("KeyId")
        response._validate_key_id(key_id)
        key = response.kms_backend.describe_key(key_id)
        algorithm = response._get_param("SigningAlgorithm")
        # moto has undone the base64 of the request already.
        message = response._get_param("Message")
        message = message.encode() if isinstance(message, str) else message
        wanted = next((n for name, n in _DIGEST_BYTES.items() if str(algorithm).endswith(name)), None)
        if algorithm not in (key.signing_algorithms or []):
            raise ValidationException(f"{algorithm} is not a signing algorithm of key {key.arn}")
        if wanted is None or len(message) != wanted:
            raise ValidationException("Digest is invalid length for algorithm " + str(algorithm))
        kinds = {32: hashes.SHA256(), 48: hashes.SHA384(), 64: hashes.SHA512()}
        return key, message, ec.ECDSA(utils.Prehashed(kinds[wanted]))

    def sign(response: Any) -> str:
        if response._get_param("MessageType") != "DIGEST":
            message = response._get_param("Message") or b""
            if len(message) > 4096:
                raise ValidationException("Message is longer than 4096 bytes: use MessageType DIGEST")
            return str(original_sign(response))
        key, message, ecdsa = digest_of(response)
        signature = key.private_key.private_key.sign(message, ecdsa)
        return json.dumps(
            {
                "KeyId": key.arn,
                "Signature": base64.b64encode(signature).decode(),
                "SigningAlgorithm": response._get_param("SigningAlgorithm"),
            }
        )

    def verify(response: Any) -> str:
        from cryptography.exceptions import InvalidSignature
        from moto.core.exceptions import JsonRESTError

        if response._get_param("MessageType") != "DIGEST":
            return str(original_verify(response))
        key, message, ecdsa = digest_of(response)
        signature = response._get_param("Signature")
        signature = base64.b64decode(signature) if isinstance(signature, str) else signature
        try:
            key.private_key.private_key.public_key().verify(signature, message, ecdsa)
        except InvalidSignature as error:
            raise JsonRESTError("KMSInvalidSignatureException", "") from error
        algorithm = response._get_param("SigningAlgorithm")
        return json.dumps({"KeyId": key.arn, "SignatureValid": True, "SigningAlgorithm": algorithm})

    patches.replace(responses.KmsResponse, "sign", sign)
    patches.replace(responses.KmsResponse, "verify", verify)


def install_ecr_token(
    patches: Patches, identities: Identities, ecr_token: Callable[[str], EcrToken] | None
) -> None:
    """GetAuthorizationToken answers with what the local registry accepts for the caller's role.

    Moto's tokens expired in 2015 and name a host on the internet. Without `ecr_token` moto's answer stays.
    """
    from moto.core.responses import ActionResult
    from moto.ecr import responses
    from moto.ecr.exceptions import InvalidParameterException

    if ecr_token is None:
        return

    def get_authorization_token(response: Any) -> Any:
        role = identities.identity_of(response.get_access_key())
        if role is None:
            raise InvalidParameterException("No role of this stack has the access key of this request.")
        token = ecr_token(role)
        encoded = base64.b64encode(f"{token.user}:{token.password}".encode()).decode()
        data = {
            "authorizationToken": encoded,
            "expiresAt": token.expires_at,
            "proxyEndpoint": token.proxy_endpoint,
        }
        return ActionResult({"authorizationData": [data]})

    patches.replace(responses.ECRResponse, "get_authorization_token", get_authorization_token)


def install_caller_identity(patches: Patches, identities: Identities) -> None:
    """GetCallerIdentity tells our roles apart; moto answers the same user for every key it did not make."""
    from moto.sts import models

    original = models.STSBackend.get_caller_identity

    def get_caller_identity(backend: Any, access_key_id: str, region: str) -> Any:
        arn = identities.caller_of(access_key_id)
        if arn is None:
            return original(backend, access_key_id, region)
        session = arn.rpartition("/")[2]
        return f"AROA{access_key_id[4:]}:{session}", arn, identities.account

    patches.replace(models.STSBackend, "get_caller_identity", get_caller_identity)


def install_lambda(patches: Patches, lambdas: Lambdas) -> None:
    """Invoke runs the real handler; moto would start a container."""
    from moto.awslambda import models

    def invoke(function: Any, body: Any, request_headers: Any, response_headers: Any) -> bytes:
        kind = request_headers.get("X-Amz-Invocation-Type") or "RequestResponse"
        event = body.encode() if isinstance(body, str) else (body or b"{}")
        if kind == "DryRun":
            return b""
        if kind == "Event":
            lambdas.invoke_async(function.function_name, event)
            return b""
        result = lambdas.invoke(function.function_name, event)
        response_headers["x-amz-executed-version"] = "$LATEST"
        if result.error:
            response_headers["x-amz-function-error"] = result.error
        return result.payload

    def refuse(function: Any, event: Any = None) -> Any:
        raise EngineError(f"Something called {function.function_name} past the local engine; moto changed.")

    patches.replace(models.LambdaFunction, "invoke", invoke)
    patches.replace(models.LambdaFunction, "_invoke_lambda", refuse)
