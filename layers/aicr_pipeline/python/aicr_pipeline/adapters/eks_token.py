"""The bearer token that EKS takes: a presigned STS GetCallerIdentity, made without a call.

Rules of the server are in aws-iam-authenticator's pkg/token: https, path ``/``, a known STS host, the
cluster's name as signed header. It is good for 15 minutes whatever X-Amz-Expires says.
"""

import base64
from typing import Any

_HEADER = "x-k8s-aws-id"
_LIFE_SECONDS = 60


def _domain(region: str) -> str:
    """The partition's domain; the server takes STS hosts of its own partition only."""
    return {"cn": "amazonaws.com.cn", "eusc": "amazonaws.eu"}.get(region.partition("-")[0], "amazonaws.com")


def eks_token(session: Any, region: str, cluster: str) -> str:
    """``k8s-aws-v1.`` + base64url of the presigned URL, without padding.

    Parameters
    ----------
    session:
        A botocore session with credentials.
    cluster:
        The cluster's name in EKS.
    """
    from botocore.signers import RequestSigner

    sts = session.create_client("sts", region_name=region)
    host = f"https://sts.{region}.{_domain(region)}"
    signer = RequestSigner(
        sts.meta.service_model.service_id,
        region,
        "sts",
        "v4",
        session.get_credentials(),
        session.get_component("event_emitter"),
    )
    url: str = signer.generate_presigned_url(
        {
            "method": "GET",
            "url": f"{host}/?Action=GetCallerIdentity&Version=2011-06-15",
            "body": {},
            "headers": {_HEADER: cluster},
            "context": {},
        },
        region_name=region,
        expires_in=_LIFE_SECONDS,
        operation_name="",
    )
    return "k8s-aws-v1." + base64.urlsafe_b64encode(url.encode()).decode().rstrip("=")
