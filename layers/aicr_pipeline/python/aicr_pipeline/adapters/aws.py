"""AWS clients: one session, short timeouts, bounded retries with jitter."""

from functools import cache
from typing import Any

from aicr_pipeline.errors import PipelineError, TransientError
from aicr_pipeline.model.reasons import Reason


@cache
def client(service: str, region: str | None = None) -> Any:
    """A boto3 client, of the function's region unless another is named.

    Standard mode retries throttles and faults with full jitter, at most 4 attempts.
    """
    import boto3
    from botocore.config import Config

    config = Config(connect_timeout=3, read_timeout=15, retries={"mode": "standard", "total_max_attempts": 4})
    return boto3.client(service, region_name=region, config=config)


class AwsSettingsError(PipelineError):
    """The region or the profile is missing or unknown: for people's commands a part of the command line."""


def settings_problem(error: Exception, doing: str) -> AwsSettingsError | None:
    """What boto3 raises before it asks AWS anything, as a sentence; None for what is no such error."""
    from botocore.exceptions import (
        ConfigNotFound,
        ConfigParseError,
        InvalidRegionError,
        NoRegionError,
        ProfileNotFound,
    )

    wrong = (ConfigNotFound, ConfigParseError, InvalidRegionError, NoRegionError, ProfileNotFound)
    if not isinstance(error, wrong):
        return None
    message = f"{doing}: {type(error).__name__}; set AWS_REGION, and AWS_PROFILE to one of your profiles."
    return AwsSettingsError(Reason.InvalidConfiguration, message)


def error_code(error: Exception) -> str:
    """The code of a botocore ClientError, ``""`` for others."""
    response = getattr(error, "response", None)
    return str(response.get("Error", {}).get("Code", "")) if isinstance(response, dict) else ""


def unread(error: Exception) -> PipelineError | None:
    """What boto3 raises while the ledger is read, as a sentence; None for what boto3 does not raise."""
    from botocore.exceptions import BotoCoreError, ClientError, ConnectionError, HTTPClientError

    wrong = settings_problem(error, "Making AWS's client")
    if wrong is not None:
        return wrong
    if isinstance(error, (ConnectionError, HTTPClientError)):
        return TransientError(Reason.PlanUnreadable, f"AWS cannot be reached ({type(error).__name__}).")
    if isinstance(error, ClientError):
        return PipelineError(
            Reason.PlanUnreadable,
            f"Reading the ledger: S3 answered {error_code(error)}; check --ledger and who you are "
            "(AWS_PROFILE).",
        )
    if isinstance(error, BotoCoreError):
        return PipelineError(
            Reason.PlanUnreadable,
            f"Reading the ledger: {type(error).__name__}; check AWS_PROFILE and region.",
        )
    return None
