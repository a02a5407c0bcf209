"""What the commands that talk to the pipeline's API share: options, who asks, lines for a terminal."""

import argparse
import os
from typing import Any

from aicr_pipeline.adapters.signed_api import SignedApi, find_endpoint

API_VARIABLE = "AICR_PIPELINE_API"
DONE, REFUSED, TRY_AGAIN = 0, 1, 3


def add_api_options(parser: argparse.ArgumentParser) -> None:
    """``--api``, ``--cluster``, ``--json``."""
    where = parser.add_mutually_exclusive_group()
    where.add_argument(
        "--api", metavar="URL", default="", help=f"the stack's output ApprovalUrl; else {API_VARIABLE}"
    )
    where.add_argument("--cluster", metavar="NAME", default="", help="ask the stack aicr-pipeline-NAME")
    parser.add_argument("--json", action="store_true", help="print one JSON object, refused or not")


def open_api(options: argparse.Namespace) -> SignedApi:
    """The API that the options name, asked with the AWS credentials of who runs the command."""
    session = session_of()
    address = options.api or ("" if options.cluster else os.environ.get(API_VARIABLE, ""))
    return SignedApi(find_endpoint(address, options.cluster, session), session)


def session_of() -> Any:
    """The AWS credentials and region of who runs the command."""
    import boto3

    # As aws does; boto3 itself reads AWS_DEFAULT_REGION alone.
    return boto3.Session(region_name=os.environ.get("AWS_REGION") or None)


def require_api(parser: argparse.ArgumentParser, options: argparse.Namespace) -> None:
    """Ends with usage when nothing names the API."""
    if not (options.api or options.cluster or os.environ.get(API_VARIABLE)):
        parser.error(f"name the API: --api URL, --cluster NAME or {API_VARIABLE}")


def shown(line: str) -> str:
    """A line for a terminal: what people wrote may hold its control characters."""
    return "".join(one if one.isprintable() else ascii(one)[1:-1] for one in line)
