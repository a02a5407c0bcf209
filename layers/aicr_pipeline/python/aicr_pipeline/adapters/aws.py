"""AWS clients: one session, short timeouts, bounded retries with jitter."""

from functools import cache
from typing import Any


@cache
def client(service: str, region: str | None = None) -> Any:
    """A boto3 client, of the function's region unless another is named.

    Standard mode retries throttles and faults with full jitter, at most 4 attempts.
    """
    import boto3
    from botocore.config import Config

    config = Config(connect_timeout=3, read_timeout=15, retries={"mode": "standard", "total_max_attempts": 4})
    return boto3.client(service, region_name=region, config=config)


def error_code(error: Exception) -> str:
    """The code of a botocore ClientError, ``""`` for others."""
    response = getattr(error, "response", None)
    return str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""
