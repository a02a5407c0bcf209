"""What each function may do in AWS, beyond its logs: one entry a function, for the security review."""

from collections.abc import Callable
from dataclasses import dataclass

from infra.findings import Right
from infra.granting import Arns, Granting

__all__ = ["Arns", "Grants"]


@dataclass(frozen=True)
class Grants(Granting):
    """The rights of one cluster's functions."""

    def of(self, function: str) -> tuple[Right, ...]:
        """All rights of ``function`` in AWS, beyond logs, traces and network interfaces."""
        return _RIGHTS[function](self)


_OWN = ("GetItem", "PutItem", "UpdateItem", "DeleteItem")

_RIGHTS: dict[str, Callable[[Granting], tuple[Right, ...]]] = {
    "check_prerequisites": lambda g: (*g.inbox(), *g.login()),
    # A snapshot that the ledger has is not taken again.
    "take_snapshot": lambda g: (*g.inbox(), *g.read("resolves/*/snapshot.yaml"), *g.waiter()),
    # The token in the Job's Secret is this role's: it reaches bundles/ and nothing else.
    "render_bundle": lambda g: (*g.inbox(), *g.waiter(), *g.push("bundles")),
    "read_bundle": lambda g: (
        *g.inbox(),
        *g.read("resolves/*"),
        *g.write("resolves/*"),
        *g.pull("bundles"),
    ),
    "mirror_chart": lambda g: (
        *g.read("resolves/*"),
        *g.write("resolves/*/charts/*"),
        *g.push("charts", "wrappers"),
    ),
    "write_plan": lambda g: (*g.inbox(), *g.read("resolves/*", "plans/*"), *g.write("plans/*")),
    # Whether the plan is news: which one is active, and whether the last target had its rollout.
    "announce_plan": lambda g: (
        *g.inbox(),
        *g.read("order/*", "rollouts/*", "resolves/*/rollout.json"),
        *g.items(("GetItem", "PutItem"), "FACT"),
        *g.events(),
    ),
    "record_resolve": lambda g: (
        *g.inbox(),
        *g.read("resolves/*/told.json"),
        *g.write("resolves/*/told.json"),
        *g.events(),
        *g.publish(),
    ),
    "assess_transition": lambda g: (
        *g.inbox(),
        *g.read("plans/*", "rollouts/*"),
        *g.write("rollouts/*/report.json", "rollouts/*/deployed.json"),
        *g.items(("GetItem",), "FACT"),
        *g.events(),
    ),
    "request_approval": lambda g: (
        *g.read("rollouts/*"),
        *g.write("rollouts/*/request.json", "rollouts/*/bypass.json", "rollouts/*/messages/*"),
        *g.waiter(),
        *g.publish(),
        *g.slack(),
        *g.links(),
    ),
    "hold_step": lambda g: (
        *g.read("rollouts/*"),
        *g.write("rollouts/*/holds/*", "rollouts/*/messages/*"),
        *g.waiter(),
        *g.publish(),
        *g.slack(),
        *g.links(),
    ),
    "remind_approvers": lambda g: (
        *g.read("rollouts/*"),
        *g.write("rollouts/*/messages/*"),
        *g.items(("GetItem",), "LOCK"),
        *g.items(("GetItem", "PutItem"), "FACT"),
        *g.events(),
        *g.publish(),
        Right(("sns:ListSubscriptionsByTopic",), g.arns.topics),
        *g.slack(),
        *g.links(),
    ),
    "check_gate": lambda g: (
        # Whether the wish is paused, or gone.
        *g.inbox(),
        *g.read("plans/*", "rollouts/*"),
        # How far the rollout is, for the pages.
        *g.write("rollouts/*/steps/*"),
        *g.items(("GetItem",), "FACT", "LOCK"),
        *g.events(),
    ),
    "apply_release": lambda g: g.read("plans/*", "rollouts/*/outcome.json", "rollouts/*/revocation.json"),
    "wait_until_ready": lambda g: g.waiter(),
    # As with render_bundle: the Job's token reaches the attempts' evidence and nothing else, so no binding.
    "validate_deployment": lambda g: (
        *g.read("plans/*", "rollouts/*", "resolves/*"),
        *g.waiter(),
        *g.push_attempts("evidence"),
        # By what AICR signs with now, its evidence is judged later.
        *g.aicr_key(),
    ),
    "confirm_criteria": lambda g: (
        *g.read(
            "plans/*",
            "rollouts/*/outcome.json",
            "rollouts/*/revocation.json",
            "rollouts/*/snapshot.yaml",
        ),
        *g.waiter(),
    ),
    "bind_evidence": lambda g: (
        *g.read("plans/*", "rollouts/*", "resolves/*/recipe.yaml", "evidence/*"),
        *g.write("evidence/*", "rollouts/*/binding.json"),
        *g.push("evidence"),
        # The wrapper chart that names the image of the workload.
        *g.pull("wrappers"),
        # AICR tags its evidence as it likes; the repository of an attempt holds that one tag.
        *g.tags("evidence"),
        *g.sign(),
        *g.aicr_key(),
    ),
    "record_outcome": lambda g: (
        *g.read("rollouts/*"),
        *g.write("rollouts/*/outcome.json", "rollouts/*/told.json"),
        *g.items(("DeleteItem",), "LOCK"),
        *g.events(),
        *g.publish(),
    ),
    "start_resolve": lambda g: (
        *g.inbox(),
        *g.start(g.arns.resolve_machine, g.arns.resolve_executions),
        # A schedule or a person does not start what runs already.
        Right(("states:ListExecutions",), (g.arns.resolve_machine,)),
    ),
    "start_rollout": lambda g: (
        # Whether the wish is paused, or gone, by now.
        *g.inbox(),
        *g.read("order/*", "rollouts/*", "resolves/*/rollout.json", "runtimes/*"),
        # What caused the rollout is claimed once, so an event that comes twice starts one; so is its place.
        *g.write("rollouts/*/rollout.json", "resolves/*/rollout.json", "order/*"),
        # That a newer plan waits for the end of the one that is on.
        *g.write("rollouts/*/waiting/*"),
        # A rollout that stalled ends when a newer one takes its place.
        *g.write("rollouts/*/outcome.json"),
        *g.items(("GetItem", "PutItem", "DeleteItem"), "LOCK"),
        *g.items(("GetItem",), "FACT"),
        *g.start(g.arns.rollout_machine, g.arns.rollout_executions),
    ),
    # It collects what Jobs write into ConfigMaps, and is the only one that answers task tokens.
    "sweep_waiters": lambda g: (
        # Whether a pause is over.
        *g.inbox(),
        *g.read("plans/*", "rollouts/*", "resolves/*"),
        *g.write("resolves/*/snapshot.yaml", "rollouts/*/snapshot.yaml", "rollouts/*/validation.json"),
        # Which attempt it was, and which validators ran.
        *g.write("rollouts/*/validations/*"),
        *g.write("rollouts/*/validators/*", "rollouts/*/validators.json"),
        # That a release became ready.
        *g.write("rollouts/*/ready/*"),
        # The last words of Jobs that failed.
        *g.write("resolves/*/jobs/*", "rollouts/*/jobs/*"),
        *g.items((*_OWN, "Query"), "WAITERS", "LEASE"),
        *g.items(("GetItem",), "FACT", "LOCK"),
        # What a question came to.
        *g.events(),
        *g.answer(),
    ),
    # The token it writes into Argo CD's Secret is this role's: it only pulls charts.
    "refresh_credentials": lambda g: (
        *g.pull("charts", "wrappers"),
        *g.items(("GetItem", "PutItem"), "FACT"),
    ),
    # It writes neither ledger nor cluster: a status is an observation.
    "update_status": lambda g: (
        *g.inbox(),
        *g.read("order/*", "plans/*", "rollouts/*", "resolves/*"),
        *g.items(("GetItem", "PutItem"), "FACT"),
        *g.events(),
        *g.publish(),
        Right(("sns:ListSubscriptionsByTopic",), g.arns.topics),
        # Whether one that stopped was redriven.
        Right(
            ("states:DescribeExecution",),
            (g.arns.resolve_executions, g.arns.rollout_executions),
            "Executions are named by what they are for; only the two machines' may be described.",
        ),
    ),
    "record_stall": lambda g: (
        *g.read("rollouts/*", "resolves/*"),
        *g.write("rollouts/*/stalls/*", "resolves/*/stalls/*"),
        *g.events(),
        *g.publish(),
    ),
    # It reads nothing and writes nothing: who holds the secret can make somebody look.
    "receive_notification": lambda g: (
        Right(("secretsmanager:GetSecretValue",), (g.arns.webhook_secret,)),
        Right(("lambda:InvokeFunction",), (g.arns.sweep,)),
    ),
    "serve_approvals": lambda g: (
        *g.read("rollouts/*", "plans/*"),
        *g.write("rollouts/*/decision.json", "rollouts/*/decisions/*", "rollouts/*/revocation.json"),
        *g.write("rollouts/*/acknowledgements/*"),
        *g.links(),
        *g.sign_in(),
    ),
    # Who calls is API Gateway's word. It may decide as the pages do, submit, tell the status and have it
    # looked at anew; nothing else.
    "serve_operators": lambda g: (
        *g.read("order/*", "rollouts/*", "plans/*"),
        *g.write("rollouts/*/decision.json", "rollouts/*/decisions/*", "rollouts/*/revocation.json"),
        *g.write("rollouts/*/acknowledgements/*"),
        *g.write("runtimes/*"),
        Right(("s3:PutObject",), (f"{g.arns.inbox}/runtimes/cluster.yaml",)),
        *g.items(("GetItem",), "FACT"),
        *g.events(),
    ),
}
