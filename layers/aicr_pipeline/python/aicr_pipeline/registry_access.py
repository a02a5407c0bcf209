"""Registries for the commands: who we are there comes from AWS for ECR, else from Docker's files."""

import os

from aicr_pipeline.adapters.docker_config import config_files, find_credentials
from aicr_pipeline.adapters.http import Transport
from aicr_pipeline.adapters.registry import Repository, parse_reference
from aicr_pipeline.adapters.registry_auth import Credentials
from aicr_pipeline.decide.ecr_host import parse_ecr_host
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.addresses import is_loopback
from aicr_pipeline.model.reasons import Reason


def credentials_of(host: str) -> Credentials | None:
    """Who we are at a host: ECR's token with our own AWS identity, else what the files say, else nobody.

    Raises
    ------
    PipelineError
        ``RegistryCredentialsUnavailable`` when AWS's client cannot be made; ``AwsSettingsError`` for a
        profile that does not exist.
    """
    ecr = parse_ecr_host(host)
    if ecr is None:
        return find_credentials(host, config_files(os.environ))
    from botocore.exceptions import BotoCoreError

    from aicr_pipeline.adapters import aws
    from aicr_pipeline.adapters.ecr import EcrCredentials

    try:
        return EcrCredentials(aws.client("ecr", ecr.region))
    except BotoCoreError as error:
        wrong = aws.settings_problem(error, f"Preparing AWS's client for {host}")
        if wrong is not None:
            raise wrong from None
        raise PipelineError(
            Reason.RegistryCredentialsUnavailable,
            f"Preparing AWS's client for {host}: {type(error).__name__}; check AWS_PROFILE and its settings.",
        ) from error


def open_repository(address: str) -> Repository:
    """A repository by its whole address. Plain HTTP only on this machine."""
    reference = parse_reference(address)
    host = reference.host
    plain = frozenset({host}) if is_loopback(host) else frozenset[str]()
    return Repository(Transport(plain), reference, credentials_of(host))
