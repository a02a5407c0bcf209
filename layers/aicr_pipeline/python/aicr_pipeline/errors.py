"""One base class for everything the program refuses or fails at.

An error names what was being done, to what, and what to do next. ``TransientError`` is the one
class that a state machine retries; its class name is what ``Retry`` matches.
"""

from aicr_pipeline.model.reasons import Reason

#: Of a message in a state: hundreds of held charts, or Argo CD's own words, must not make one larger than
#: Step Functions takes.
MOST_CHARACTERS = 8000


class PipelineError(Exception):
    """A failure with a reason of the closed set.

    Parameters
    ----------
    reason:
        Why, for machines and for the runbook.
    message:
        One sentence for the person: what was being done, to what, what to do next. Never a secret.
    """

    retry = False

    def __init__(self, reason: Reason, message: str) -> None:
        super().__init__(f"{reason}: {message}")
        self.reason = reason
        self.message = message

    def outcome(self) -> dict[str, dict[str, str]]:
        """The error as the data a state returns: ``{"outcome": {"reason", "message"}}``."""
        return {"outcome": {"reason": str(self.reason), "message": self.message[:MOST_CHARACTERS]}}


class TransientError(PipelineError):
    """May go away by itself: throttling, a connection cut, a conflict with another writer."""

    retry = True
