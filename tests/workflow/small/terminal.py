"""What a person at a terminal sees of the small machine."""

import io
import os
from contextlib import redirect_stderr, redirect_stdout
from typing import Any

import boto3
from aicr_pipeline import status

from tests.workflow import exhibits
from tests.workflow.machine import Machine

OPERATOR = "arn:aws:sts::111122223333:assumed-role/operators/sam"


def run(small: Machine, module: Any, *arguments: str) -> str:
    """What a command prints; it must end well."""
    aws, out, err = small.pipeline.aws, io.StringIO(), io.StringIO()
    before = dict(os.environ)
    os.environ |= {**aws.person(OPERATOR), "AICR_PIPELINE_API": aws.api_url}
    boto3.DEFAULT_SESSION = None
    try:
        with redirect_stdout(out), redirect_stderr(err):
            code = module.main(list(arguments))
    finally:
        os.environ.clear()
        os.environ |= before
        boto3.DEFAULT_SESSION = None
    assert code == 0, err.getvalue()
    return out.getvalue()


def told(small: Machine) -> str:
    """``python -m aicr_pipeline.status --rebuild``."""
    text = run(small, status, "--rebuild")
    exhibits.told(small, text)
    return text
