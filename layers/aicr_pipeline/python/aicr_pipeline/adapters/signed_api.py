"""Requests to the pipeline's signed routes, with the credentials of the person who runs the command."""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NoReturn
from urllib.parse import urlsplit

from aicr_pipeline.adapters.aws import AwsSettingsError, settings_problem
from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.reasons import Reason

#: The stack's output that holds the API's address.
OUTPUT = "ApprovalUrl"
MOST_ANSWER_BYTES = 16 << 20

_GATEWAY = re.compile(r"[a-z0-9]+\.execute-api\.([a-z0-9-]+)\.amazonaws\.com(\.cn)?")
_LOOPBACK = re.compile(r"127\.0\.0\.1|localhost|::1")
_SERVICE_FAULTS = frozenset({429, 500, 502, 503, 504})


@dataclass(frozen=True)
class SignedApi:
    """The API at ``endpoint``. Nothing is retried: whoever asks sees what happened."""

    endpoint: str
    session: Any

    def ask(self, method: str, path: str, body: bytes = b"", content_type: str = "application/json") -> Any:
        """The JSON that a route answers with.

        Raises
        ------
        PipelineError
            With the reason and words of the pipeline; ``Unauthorized`` when API Gateway refused the caller.
        TransientError
            When the API cannot be reached, is busy, or failed.
        """
        from botocore.auth import SigV4Auth
        from botocore.awsrequest import AWSRequest
        from botocore.exceptions import BotoCoreError, ConnectionError, HTTPClientError
        from botocore.httpsession import URLLib3Session

        parts = urlsplit(self.endpoint)
        headers = {"Accept": "application/json"}
        if body:
            headers["Content-Type"] = content_type
        request = AWSRequest(method=method, url=f"{self.endpoint}{path}", headers=headers, data=body)
        try:
            credentials = self.session.get_credentials()
            if credentials is None:
                message = "No AWS credentials were found; set AWS_PROFILE, or log in (aws sso login)."
                raise PipelineError(Reason.Unauthorized, message)
            SigV4Auth(credentials.get_frozen_credentials(), "execute-api", self._region()).add_auth(request)
            # A proxy is for the world; the engine on this machine is not out there.
            proxies: dict[str, str] | None = {} if _LOOPBACK.fullmatch(parts.hostname or "") else None
            answer = URLLib3Session(timeout=30, proxies=proxies).send(request.prepare())
        except (ConnectionError, HTTPClientError) as error:
            message = f"{parts.netloc} cannot be reached ({type(error).__name__})."
            raise TransientError(Reason.RegistryUnreachable, message) from None
        except BotoCoreError as error:
            message = f"Signing the request: {type(error).__name__}; check AWS_PROFILE and its login."
            raise PipelineError(Reason.Unauthorized, message) from None
        return self._read(answer.status_code, answer.content)

    def _region(self) -> str:
        host = urlsplit(self.endpoint).hostname or ""
        found = _GATEWAY.fullmatch(host)
        region = found[1] if found else self.session.region_name
        if not region:
            message = f"The region of {host} is not known; set AWS_REGION."
            raise AwsSettingsError(Reason.InvalidConfiguration, message)
        return str(region)

    def _read(self, status: int, content: bytes) -> Any:
        try:
            document = json.loads(content[:MOST_ANSWER_BYTES])
        except (ValueError, RecursionError):
            document = None
        if 200 <= status < 300 and isinstance(document, Mapping):
            return document
        _refuse(status, document if isinstance(document, Mapping) else {}, urlsplit(self.endpoint).netloc)


def stack_outputs(cluster: str, session: Any) -> dict[str, str]:
    """The outputs of a cluster's stack.

    Raises
    ------
    PipelineError
        ``InvalidConfiguration`` when CloudFormation does not tell them; ``AwsSettingsError`` without region.
    """
    from botocore.exceptions import BotoCoreError, ClientError

    stack = f"aicr-pipeline-{cluster}"
    try:
        found = session.client("cloudformation").describe_stacks(StackName=stack)["Stacks"][0]
    except ClientError as error:
        code = error.response.get("Error", {}).get("Code", "")
        message = f"Looking up stack {stack}: CloudFormation answered {code}; or name the API with --api."
        raise PipelineError(Reason.InvalidConfiguration, message) from None
    except BotoCoreError as error:
        wrong = settings_problem(error, f"Looking up stack {stack}")
        if wrong is not None:
            raise wrong from None
        message = f"Looking up stack {stack}: {type(error).__name__}; check AWS_PROFILE and AWS_REGION."
        raise PipelineError(Reason.InvalidConfiguration, message) from None
    return {one["OutputKey"]: one["OutputValue"] for one in found.get("Outputs", [])}


def find_endpoint(address: str, cluster: str, session: Any) -> str:
    """The API's address: as given, or by the outputs of the cluster's stack.

    Raises
    ------
    PipelineError
        ``InvalidConfiguration`` for an address that is none, or a stack that has none.
    """
    if not address:
        address = stack_outputs(cluster, session).get(OUTPUT, "")
    try:
        parts = urlsplit(address)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        host, parts = "", urlsplit("")
    plain = parts.scheme == "http" and _LOOPBACK.fullmatch(host)
    if not host or parts.username or parts.query or not (parts.scheme == "https" or plain):
        message = "The API's address is https://… without user and query; plain http is for loopback only."
        raise PipelineError(Reason.InvalidConfiguration, message)
    return f"{parts.scheme}://{parts.netloc}{parts.path.rstrip('/')}"


def _refuse(status: int, document: Mapping[str, Any], where: str) -> NoReturn:
    message, told = str(document.get("message", "")), document.get("reason")
    reason = next((one for one in Reason if one == told), None)
    if reason is not None:
        raise (TransientError if document.get("status") == "transient" else PipelineError)(reason, message)
    if status in _SERVICE_FAULTS:
        raise TransientError(Reason.RegistryUnreachable, f"{where} answered {status}: {message}.")
    if status == 403:
        raise PipelineError(
            Reason.Unauthorized,
            f"{where} refused the signature or the caller ({message}): execute-api:Invoke on the route is "
            "needed, valid credentials, the right region and a clock that is right.",
        )
    raise PipelineError(
        Reason.InvalidConfiguration, f"{where} answered {status}, as no API of the pipeline does."
    )
