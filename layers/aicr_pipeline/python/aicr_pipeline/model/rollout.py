"""A rollout's records: the rollout, its report, what was asked, what was decided, how it ended.

Each is written once under ``rollouts/<name>/`` in the ledger.
"""

from enum import StrEnum
from typing import Annotated, Literal

from pydantic import Field, StringConstraints

from aicr_pipeline.model.base import Document
from aicr_pipeline.model.plan import Digest, ReleaseName
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.upgrades import Guidance

RolloutName = Annotated[str, StringConstraints(pattern=r"^[0-9A-Za-z][0-9A-Za-z_-]{0,79}$")]


class Action(StrEnum):
    """What a step does to its release."""

    Install = "Install"
    Upgrade = "Upgrade"
    Reconfigure = "Reconfigure"
    Move = "Move"
    Unchanged = "Unchanged"


class Verdict(StrEnum):
    """Whether a transition is known to be safe. Only ``safe`` needs nobody."""

    safe = "safe"
    manual = "manual"
    blocked = "blocked"
    unknown = "unknown"
    unversioned = "unversioned"


class Outcome(StrEnum):
    """How a rollout ended; written once."""

    Succeeded = "Succeeded"
    Failed = "Failed"
    Expired = "Expired"
    Revoked = "Revoked"
    Rejected = "Rejected"
    Superseded = "Superseded"


class Rollout(Document):
    """``rollout.json``: one change between two plans. Immutable."""

    name: RolloutName
    cluster: str
    from_plan: Digest | None = None
    to_plan: Digest
    #: False when a rollout after the from-plan's ended half-way: the cluster may be between two plans.
    from_is_whole: bool = True
    number: Annotated[int, Field(ge=1)]
    created_at: str
    deadline: str
    runtime_version: str
    submitter: str = "unknown"
    #: The earlier rollout whose approval may stand for this one too, when the very same is asked.
    inherits: RolloutName | None = None


class Step(Document):
    """One release of the report."""

    index: int
    release: str
    component: str
    namespace: str
    action: Action
    verdict: Verdict | None = None
    verdict_reason: str | None = None
    from_version: str | None = None
    to_version: str
    changed_values: tuple[str, ...] = ()
    #: Where a ``blocked`` move has to stop first.
    stop_at: str | None = None
    #: What the component's upgrade record says, where one describes exactly this move.
    guidance: Guidance | None = None
    #: The other release of the component whose step carries its guidance, when it is not this one.
    with_release: ReleaseName | None = None

    @property
    def must_be_acknowledged(self) -> bool:
        """Whether a person has to say, before this step, that its guidance was followed."""
        return self.verdict is Verdict.manual and self.with_release is None


class Report(Document):
    """``report.json``: the transition, assessed. It compares plans, not cluster state."""

    from_plan: Digest | None = None
    to_plan: Digest
    validation: Literal["Required", "Disabled"]
    steps: tuple[Step, ...]
    removed: tuple[str, ...] = ()
    approval_needed: bool
    approval_because: tuple[str, ...] = ()


class ApprovalRequest(Document):
    """``request.json``: what was asked of whom. ``digest`` covers from, to, report and deadline."""

    rollout: RolloutName
    short_name: str
    digest: Digest
    deadline: str
    asked: tuple[str, ...]
    asked_at: str
    min_approvals: int
    identity: Literal["link", "signed-in", "bypass"]
    identity_reason: str | None = None
    #: Members of these may decide too, who are signed in.
    groups: tuple[str, ...] | None = None


class Decision(Document):
    """``decision.json``: the only truth about an approval. Absolute times decide."""

    rollout: RolloutName
    decision: Literal["Approved", "Rejected"]
    request_digest: Digest
    by: tuple[str, ...] = Field(min_length=1)
    identity: Literal["link", "signed-in", "aws-iam", "bypass"]
    issuer: str
    reason: Annotated[str, StringConstraints(min_length=1, max_length=1024)]
    at: str
    expires_at: str
    #: With identity signed-in: what the issuer calls each of ``by``, in the same order.
    principals: tuple[str, ...] | None = None


class Revocation(Document):
    """``revocation.json``: somebody stopped the rollout. Until the outcome, and before the next step."""

    rollout: RolloutName
    by: Annotated[str, StringConstraints(min_length=1)]
    identity: Literal["link", "signed-in", "aws-iam"]
    issuer: str
    reason: Annotated[str, StringConstraints(min_length=1, max_length=1024)]
    at: str
    principal: str | None = None


class Acknowledgement(Document):
    """``acknowledgements/<release>.json``: somebody did what a ``manual`` step's upgrade record asks for.

    Like a decision it counts for exactly what was asked: the report it was given for, by its digest.
    """

    rollout: RolloutName
    release: ReleaseName
    request_digest: Digest
    by: Annotated[str, StringConstraints(min_length=1)]
    identity: Literal["link", "signed-in", "aws-iam"]
    issuer: str
    reason: Annotated[str, StringConstraints(min_length=1, max_length=1024)]
    at: str
    principal: str | None = None


class StepStarted(Document):
    """``steps/<index>.json``: the gate let this step through. How far a rollout is, for those who may not
    read the execution's history."""

    rollout: RolloutName
    index: int
    release: str
    at: str
    #: Digest of what was deployed then. Absent from records of earlier versions.
    pipeline: Digest | None = None


class Deployed(Document):
    """``deployed.json``: what was deployed when the rollout began, before anybody was asked."""

    rollout: RolloutName
    #: Digest of the assets, as evidence binds them.
    pipeline: Digest
    #: Whether the cluster was marked ``development``.
    development: bool
    at: str


class Validated(Document):
    """``validations/<repository>.json``: the attempt of the validation whose report this is."""

    rollout: RolloutName
    #: Of AICR's evidence, under ``evidence/``.
    repository: str
    #: Digest of its report.
    report: Digest
    #: What AICR signed its evidence with, as its Job had it; and the public key (DER, base64) of then.
    signing_key: str | None = None
    public_key: str | None = None


class PlanWaits(Document):
    """A newer plan became the target while this rollout was on, and waits for its end."""

    rollout: RolloutName
    plan: Digest
    at: str


class StepHeld(Document):
    """``holds/<index>-<reason>[-<hex>].json``: the gate did not let this step through, and a person can
    change that.

    It stands until the step starts: then the gate let it through.
    """

    rollout: RolloutName
    index: int
    release: str
    reason: Reason
    message: str
    at: str


class StepReady(Document):
    """``ready/<index>.json``: the release of this step was seen ready at its digest. With the steps that
    started it says what a rollout installed, however it ended."""

    rollout: RolloutName
    index: int
    release: str
    digest: Digest
    at: str


class RolloutOutcome(Document):
    """``outcome.json``: the end, what is installed, what is not, and what to do."""

    rollout: RolloutName
    outcome: Outcome
    reason: Reason
    message: str
    finished_at: str
    installed: tuple[str, ...] = ()
    not_installed: tuple[str, ...] = ()
    #: Of ``not_installed``: may have been written, but was not seen ready.
    unfinished: tuple[str, ...] = ()
    what_to_do: str = ""
    evidence: str | None = None


def step_key(rollout: str, index: int) -> str:
    """``rollouts/<rollout>/steps/<index>.json``; names sort as the steps do."""
    return f"rollouts/{rollout}/steps/{index:04}.json"


def validated_key(rollout: str, repository: str) -> str:
    """``rollouts/<rollout>/validations/<repository>.json``."""
    return f"rollouts/{rollout}/validations/{repository}.json"


def acknowledgement_key(rollout: str, release: str) -> str:
    """``rollouts/<rollout>/acknowledgements/<release>.json``."""
    return f"rollouts/{rollout}/acknowledgements/{release}.json"


def hold_key(hold: StepHeld, again: str = "") -> str:
    """``rollouts/<rollout>/holds/<index>-<reason>.json``; ``…-<again>.json`` for one that came back."""
    name = f"{hold.index:04}-{hold.reason}" + (f"-{again}" if again else "")
    return f"rollouts/{hold.rollout}/holds/{name}.json"


def ready_key(rollout: str, index: int) -> str:
    """``rollouts/<rollout>/ready/<index>.json``."""
    return f"rollouts/{rollout}/ready/{index:04}.json"


def rollout_key(rollout: str, document: str) -> str:
    """``rollouts/<rollout>/<document>.json``."""
    return f"rollouts/{rollout}/{document}.json"
