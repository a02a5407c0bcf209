"""Who writes which record of the ledger. The bucket itself refuses everybody else, administrators included.

A decision that somebody put there by hand would otherwise count: the gate believes the ledger.
"""

#: Key patterns, and the functions that put such keys. A test compares this with the functions' rights. In IAM
#: ``*`` is a slash, too, and the names of clusters stand in keys: a pattern that ends within a name would
#: refuse the attempts of a cluster whose name begins so.
LEDGER_WRITERS: tuple[tuple[str, str, tuple[str, ...]], ...] = (
    ("Plans", "plans/*", ("write_plan",)),
    (
        "Resolves",
        "resolves/*",
        ("read_bundle", "mirror_chart", "sweep_waiters", "start_rollout", "record_resolve", "record_stall"),
    ),
    ("Rollouts", "rollouts/*/rollout.json", ("start_rollout",)),
    # Which rollout began after which.
    ("Order", "order/*", ("start_rollout",)),
    # A plan that came while this rollout held the lock.
    ("Waiting", "rollouts/*/waiting/*", ("start_rollout",)),
    ("Reports", "rollouts/*/report.json", ("assess_transition",)),
    ("Deployed", "rollouts/*/deployed.json", ("assess_transition",)),
    ("Requests", "rollouts/*/request.json", ("request_approval",)),
    ("Bypasses", "rollouts/*/bypass.json", ("request_approval",)),
    ("Messages", "rollouts/*/messages/*", ("request_approval", "hold_step", "remind_approvers")),
    ("Decisions", "rollouts/*/decision.json", ("serve_approvals", "serve_operators")),
    ("Approvals", "rollouts/*/decisions/*", ("serve_approvals", "serve_operators")),
    ("Revocations", "rollouts/*/revocation.json", ("serve_approvals", "serve_operators")),
    ("Holds", "rollouts/*/holds/*", ("hold_step",)),
    ("Acknowledgements", "rollouts/*/acknowledgements/*", ("serve_approvals", "serve_operators")),
    ("Steps", "rollouts/*/steps/*", ("check_gate",)),
    ("Ready", "rollouts/*/ready/*", ("sweep_waiters",)),
    ("Snapshots", "rollouts/*/snapshot.yaml", ("sweep_waiters",)),
    # The report, and the attempt that it is of.
    ("Validations", "rollouts/*/validation.json", ("sweep_waiters",)),
    ("Attempts", "rollouts/*/validations/*", ("sweep_waiters",)),
    ("Validators", "rollouts/*/validators.json", ("sweep_waiters",)),
    ("SeenValidators", "rollouts/*/validators/*", ("sweep_waiters",)),
    ("Bindings", "rollouts/*/binding.json", ("bind_evidence",)),
    ("Outcomes", "rollouts/*/outcome.json", ("record_outcome", "start_rollout")),
    ("Told", "rollouts/*/told.json", ("record_outcome",)),
    ("Jobs", "rollouts/*/jobs/*", ("sweep_waiters",)),
    ("Stalls", "rollouts/*/stalls/*", ("record_stall",)),
    ("Evidence", "evidence/*", ("bind_evidence",)),
    # Who submitted a runtime: whoever may write the inbox cannot say so of themselves, or of others.
    ("Submissions", "runtimes/*", ("serve_operators",)),
)
