"""Who calls the embedded cluster, and what a role may do in the local registry: read from the template.

The template's own EKS access entries and IAM statements decide, so a right that the stack forgot is
missing here too.
"""

import base64
import re
from collections.abc import Iterable
from datetime import UTC, datetime, timedelta
from typing import Any
from urllib.parse import parse_qs, urlsplit

from local.aws import EcrToken, LocalAws
from local.kube import Identity
from local.registry import Scope, TokenIssuer

_PREFIX = "k8s-aws-v1."
#: What the server grants whatever X-Amz-Expires says (aws-iam-authenticator, pkg/token).
_LIFE = timedelta(minutes=15)
_REPOSITORY = re.compile(r":repository/(.+?)/?\*?$")


class Identities:
    """Reads EKS tokens as aws-iam-authenticator does, but asks the engine instead of STS."""

    def __init__(self) -> None:
        self.aws: LocalAws | None = None

    def authenticate(self, token: str | None) -> Identity | None:
        """The caller of a bearer token, None for 401."""
        if self.aws is None or token is None or not token.startswith(_PREFIX):
            return None
        query = self._query(token.removeprefix(_PREFIX))
        if query is None:
            return None
        role = self.aws.identity_of(query["X-Amz-Credential"].split("/")[0])
        groups = self.aws.access_entries.get(role or "")
        return None if role is None or groups is None else Identity(role, (*groups, "system:authenticated"))

    @staticmethod
    def _query(encoded: str) -> dict[str, str] | None:
        try:
            url = urlsplit(base64.urlsafe_b64decode(encoded + "=" * (-len(encoded) % 4)).decode())
            query = {name: values[0] for name, values in parse_qs(url.query).items() if len(values) == 1}
            signed = datetime.strptime(query["X-Amz-Date"], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC)
        except (ValueError, KeyError):
            return None
        fits = (
            url.scheme == "https"
            and url.path == "/"
            and (url.hostname or "").startswith("sts.")
            and query.get("Action") == "GetCallerIdentity"
            and "x-k8s-aws-id" in query.get("X-Amz-SignedHeaders", "").split(";")
            and datetime.now(UTC) < signed + _LIFE
        )
        return query if fits else None


class EcrTokens:
    """ECR's GetAuthorizationToken: a password with exactly the rights of the role that asks."""

    def __init__(self, issuer: TokenIssuer, endpoint: str, template: dict[str, Any]) -> None:
        self._issuer = issuer
        self._endpoint = endpoint
        self._scopes = dict(_scopes_by_role(template))

    def __call__(self, role_arn: str) -> EcrToken:
        user, password, expires_at = self._issuer.issue(self._scopes.get(role_arn.rpartition("/")[2], ()))
        return EcrToken(user, password, self._endpoint, expires_at)


def _scopes_by_role(template: dict[str, Any]) -> Iterable[tuple[str, list[Scope]]]:
    resources = template["Resources"]
    for policy in resources.values():
        if policy["Type"] != "AWS::IAM::Policy":
            continue
        scopes = list(_scopes(policy["Properties"]["PolicyDocument"]["Statement"]))
        for role in policy["Properties"]["Roles"]:
            name = resources[role["Ref"]]["Properties"].get("RoleName")
            if name is not None:  # our functions' roles are named; AWS's own helpers' are not
                yield name, scopes


def _scopes(statements: list[dict[str, Any]]) -> Iterable[Scope]:
    for statement in statements:
        actions = statement["Action"] if isinstance(statement["Action"], list) else [statement["Action"]]
        allowed = {"pull"} if "ecr:BatchGetImage" in actions else set()
        allowed |= {"push"} if "ecr:PutImage" in actions else set()
        resources = (
            statement["Resource"] if isinstance(statement["Resource"], list) else [statement["Resource"]]
        )
        for resource in resources if allowed else ():
            match = _REPOSITORY.search(_text(resource))
            if match:
                yield Scope(match[1], frozenset(allowed))


def _text(value: Any) -> str:
    """The literal parts of an ARN; pseudo parameters stand for themselves."""
    if isinstance(value, dict) and "Fn::Join" in value:
        return "".join(part if isinstance(part, str) else "x" for part in value["Fn::Join"][1])
    return value if isinstance(value, str) else ""
