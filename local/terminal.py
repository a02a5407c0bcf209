"""The signed routes from another terminal: a file for the shell that makes somebody an approver here."""

import shlex
from pathlib import Path

from local.aws import LocalAws

_LAYER = Path(__file__).resolve().parents[1] / "layers" / "aicr_pipeline" / "python"


def write(aws: LocalAws, arn: str, file: Path) -> None:
    """Keys of a user of this run, and where its API is.

    The keys are of the stand-in for AWS and end with it. They are nobody else's to read all the same, as real
    ones would be.
    """
    settings = {**aws.person(arn), "AICR_PIPELINE_API": aws.api_url, "PYTHONPATH": str(_LAYER)}
    file.unlink(missing_ok=True)
    file.touch(mode=0o600)
    file.write_text("".join(f"export {name}={shlex.quote(value)}\n" for name, value in settings.items()))


def lines(python: str, file: Path, rollout: str) -> str:
    """What to type: in a shell of its own, so that nobody's real credentials are replaced."""
    asked = ("status --rebuild", f"approvals describe {rollout}")
    return "\n".join(f"( . {shlex.quote(str(file))}; {python} -m aicr_pipeline.{what} )" for what in asked)
