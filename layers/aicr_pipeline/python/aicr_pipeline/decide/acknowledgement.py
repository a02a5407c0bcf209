"""Whether a ``manual`` step may run: a person must have said that its upgrade record was followed."""

from aicr_pipeline.model.rollout import Acknowledgement, Step


def acknowledgement_missing(step: Step, record: Acknowledgement | None, request_digest: str) -> str | None:
    """Why the step still waits for a person; None when it need not.

    A component's guidance stands at the first of its releases that changes, and is acknowledged there once.
    ``record`` is what the ledger holds for the step's release, ``request_digest`` what the report and the
    deadline come to now: an acknowledgement of another request is none.
    """
    if not step.must_be_acknowledged:
        return None
    came = f" from {step.from_version}" if step.from_version else ""
    move = f"{step.release}{came} to {step.to_version}"
    if record is None:
        return (
            f"{move} is manual: its upgrade record asks for work in the cluster first. Do what it says, then "
            "acknowledge the step."
        )
    if (record.release, record.request_digest) != (step.release, request_digest):
        return f"The acknowledgement of {record.by} is for another request; {move} waits for one of its own."
    return None
