"""The functions: one per state or event source, each with its own folder, role and log group.

Memory is also CPU. Functions that face Kubernetes get 1,024 MB because importing its client is what they
spend most of a cold start on; `mirror_chart` because network throughput grows with memory; pages because a
person waits. The rest make a few API calls.
"""

from dataclasses import dataclass


@dataclass(frozen=True)
class FunctionSpec:
    """What the stack must know of a function; its rights are in ``rights.py``."""

    name: str
    purpose: str
    timeout_seconds: int
    memory_mb: int = 512
    faces_kubernetes: bool = False
    environment: tuple[str, ...] = ()
    #: Attempts after the first of an asynchronous invocation; None for functions that are only called.
    async_retries: int | None = None


_WAITS = ("COORDINATION_TABLE", "EVENT_BUS")
_REGISTRY_MB = 1024


def _kubernetes(name: str, purpose: str, *environment: str) -> FunctionSpec:
    return FunctionSpec(name, purpose, 60, 1024, True, environment)


def _plain(name: str, purpose: str, *environment: str) -> FunctionSpec:
    return FunctionSpec(name, purpose, 60, 512, False, environment)


FUNCTIONS: tuple[FunctionSpec, ...] = (
    # resolve
    _kubernetes("check_prerequisites", "What must hold before anything runs", "INBOX_BUCKET"),
    _kubernetes("take_snapshot", "Starts AICR's snapshot Job", "INBOX_BUCKET", "LEDGER_BUCKET", *_WAITS),
    _kubernetes("render_bundle", "Starts AICR's render Job", "INBOX_BUCKET", *_WAITS),
    FunctionSpec(
        "read_bundle",
        "Reads the rendered bundle from the registry",
        120,
        _REGISTRY_MB,
        environment=("INBOX_BUCKET", "LEDGER_BUCKET"),
    ),
    # A 100 MiB chart over a slow source takes minutes; Lambda's limit is 15.
    FunctionSpec(
        "mirror_chart",
        "Copies one chart into the registry",
        600,
        _REGISTRY_MB,
        environment=("LEDGER_BUCKET",),
    ),
    _plain("write_plan", "Writes the plan, once", "INBOX_BUCKET", "LEDGER_BUCKET"),
    _plain("announce_plan", "Announces the plan if it is news", "INBOX_BUCKET", "LEDGER_BUCKET", *_WAITS),
    _plain(
        "record_resolve",
        "Says how a resolve ended",
        "INBOX_BUCKET",
        "LEDGER_BUCKET",
        "EVENT_BUS",
        "APPROVER_TOPICS",
    ),
    # rollout
    _kubernetes("assess_transition", "Compares two plans", "INBOX_BUCKET", "LEDGER_BUCKET", *_WAITS),
    _plain(
        "request_approval",
        "Asks people",
        "LEDGER_BUCKET",
        *_WAITS,
        "APPROVER_TOPICS",
        "APPROVAL_KEY_ARN",
        "APPROVAL_URL",
    ),
    _kubernetes("check_gate", "Whether the next step may run", "INBOX_BUCKET", "LEDGER_BUCKET", *_WAITS),
    _plain(
        "hold_step",
        "Tells people that a step waits for them",
        "LEDGER_BUCKET",
        *_WAITS,
        "APPROVER_TOPICS",
        "APPROVAL_KEY_ARN",
        "APPROVAL_URL",
    ),
    _kubernetes("apply_release", "Writes one Application", "LEDGER_BUCKET"),
    _plain("wait_until_ready", "Registers the waiter for a release", *_WAITS),
    _kubernetes("validate_deployment", "Starts AICR's validation Job", "LEDGER_BUCKET", *_WAITS),
    _kubernetes("confirm_criteria", "Starts the post-install snapshot", "LEDGER_BUCKET", *_WAITS),
    FunctionSpec(
        "bind_evidence",
        "Signs what happened",
        120,
        _REGISTRY_MB,
        environment=("LEDGER_BUCKET", "SIGNING_KEY_ARN"),
    ),
    _plain(
        "record_outcome", "Writes the outcome and tells people", "LEDGER_BUCKET", *_WAITS, "APPROVER_TOPICS"
    ),
    # event sources
    FunctionSpec(
        "start_resolve",
        "Starts a resolve",
        60,
        environment=("INBOX_BUCKET", "RESOLVE_MACHINE_ARN"),
        async_retries=2,
    ),
    FunctionSpec(
        "start_rollout",
        "A plan is ready",
        60,
        environment=("INBOX_BUCKET", "LEDGER_BUCKET", "COORDINATION_TABLE", "ROLLOUT_MACHINE_ARN"),
        async_retries=2,
    ),
    # Loops for most of a minute while releases or Jobs are waited for, then finishes the look it began.
    # Never retried: the next minute's run sees the same world.
    FunctionSpec(
        "sweep_waiters",
        "Looks at what is waited for and answers",
        120,
        1024,
        True,
        ("INBOX_BUCKET", "LEDGER_BUCKET", "COORDINATION_TABLE", "EVENT_BUS"),
        async_retries=0,
    ),
    # By the clock. A reminder is sent once, so a run that failed may be repeated.
    FunctionSpec(
        "remind_approvers",
        "Reminds approvers, and looks whether messages reach them",
        60,
        environment=(
            "LEDGER_BUCKET",
            "COORDINATION_TABLE",
            "EVENT_BUS",
            "APPROVER_TOPICS",
            "APPROVAL_KEY_ARN",
            "APPROVAL_URL",
        ),
        async_retries=1,
    ),
    FunctionSpec(
        "refresh_credentials",
        "Keeps Argo CD's registry token fresh",
        120,
        1024,
        True,
        ("COORDINATION_TABLE",),
        async_retries=2,
    ),
    # A look changes nothing in cluster or ledger, so it may be repeated.
    FunctionSpec(
        "update_status",
        "Whether the runtime is ready, and what changed",
        60,
        1024,
        True,
        (
            "INBOX_BUCKET",
            "LEDGER_BUCKET",
            "COORDINATION_TABLE",
            "EVENT_BUS",
            "APPROVER_TOPICS",
            "RESOLVE_MACHINE_ARN",
            "ROLLOUT_MACHINE_ARN",
        ),
        async_retries=2,
    ),
    FunctionSpec(
        "record_stall",
        "Records executions that infrastructure ended",
        60,
        environment=("LEDGER_BUCKET", "EVENT_BUS", "APPROVER_TOPICS"),
        async_retries=2,
    ),
    # Wakes the sweeper and nothing else.
    FunctionSpec(
        "receive_notification",
        "Argo CD says that something changed",
        15,
        environment=("WEBHOOK_SECRET_ARN", "SWEEP_FUNCTION_ARN"),
    ),
    # A person waits for it.
    FunctionSpec(
        "serve_approvals",
        "The approval pages",
        15,
        1024,
        environment=("LEDGER_BUCKET", "COORDINATION_TABLE", "APPROVAL_KEY_ARN", "APPROVAL_URL", "OIDC"),
    ),
    FunctionSpec(
        "serve_operators",
        "The signed routes for commands",
        15,
        1024,
        environment=("INBOX_BUCKET", "LEDGER_BUCKET", "COORDINATION_TABLE", "EVENT_BUS"),
    ),
)

#: The only ones that may write to people.
PUBLISHERS = (
    "request_approval",
    "hold_step",
    "remind_approvers",
    "record_resolve",
    "record_outcome",
    "record_stall",
    "update_status",
)

BY_NAME = {function.name: function for function in FUNCTIONS}

RESOLVE_FUNCTIONS = (
    "check_prerequisites",
    "take_snapshot",
    "render_bundle",
    "read_bundle",
    "mirror_chart",
    "write_plan",
    "announce_plan",
    "record_resolve",
)
ROLLOUT_FUNCTIONS = (
    "assess_transition",
    "request_approval",
    "check_gate",
    "hold_step",
    "apply_release",
    "wait_until_ready",
    "validate_deployment",
    "confirm_criteria",
    "bind_evidence",
    "record_outcome",
)
