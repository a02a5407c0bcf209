"""The rollout machine: from a plan to an outcome, one release at a time."""

from collections.abc import Mapping
from typing import Any

from aicr_pipeline.model.reasons import ROLLOUT_REASONS

from infra.asl import Machine, State, fail, if_ended, in_item, item_selector

#: A Job's waiter has a deadline of its own, of two hours and five minutes at most.
_JOB_BACKSTOP = 7800

_FIELDS = ("rollout", "cluster", "fromPlan", "toPlan", "deadline")


def rollout_definition(
    arns: Mapping[str, str], version: str, partition: str, deadline_seconds: int
) -> dict[str, Any]:
    """The machine as Amazon States Language.

    Parameters
    ----------
    arns:
        Function name to ARN, of ``ROLLOUT_FUNCTIONS``.
    version:
        Names definition and code; goes to every function and into the evidence.
    partition:
        AWS's partition.
    deadline_seconds:
        How long a rollout has. The record's absolute time decides and the sweeper ends what is overdue;
        here it only makes the backstop of each wait.
    """
    machine = Machine(arns, version, partition)
    backstop = max(60, deadline_seconds) + 300
    return {
        "Comment": f"Assess, approve, roll out, validate, bind. Version {version}",
        "StartAt": "Assess transition",
        "States": {
            **_approval(machine, backstop),
            "Roll out releases": {
                "Type": "Map",
                "Comment": "In dependency order, one at a time, each ready at its revision before the next",
                "ItemsPath": "$.assessment.steps",
                "ItemSelector": item_selector(*_FIELDS),
                "MaxConcurrency": 1,
                "ItemProcessor": _release(machine, backstop),
                "ResultPath": "$.steps",
                # By name: an infrastructure error must never look like the domain's decision.
                "Catch": [
                    {
                        "ErrorEquals": [reason.value for reason in ROLLOUT_REASONS],
                        "ResultPath": "$.ended",
                        "Next": "Record outcome",
                    }
                ],
                "Next": "Validation required?",
            },
            **_verification(machine, backstop),
            "Record outcome": machine.call(
                "Record outcome",
                "Written once; releases the lock and tells people",
                ResultPath="$.outcome",
                Next="Rollout succeeded?",
            ),
            "Rollout succeeded?": {
                "Type": "Choice",
                "Choices": [
                    {"Variable": "$.outcome.outcome", "StringEquals": "Succeeded", "Next": "Rollout complete"}
                ],
                "Default": "Rollout ended",
            },
            "Rollout complete": {"Type": "Succeed"},
            "Rollout ended": fail("$.outcome", "Final; to continue, a fresh rollout is started"),
        },
    }


def _approval(machine: Machine, backstop: int) -> dict[str, State]:
    return {
        "Assess transition": machine.call(
            "Assess transition",
            "What changes between the plans, and whether people must be asked",
            ResultPath="$.assessment",
            Next="Transition assessed?",
        ),
        "Transition assessed?": if_ended("assessment", "Record outcome", "Approval needed?"),
        "Approval needed?": {
            "Type": "Choice",
            "Comment": "Only a plain no goes on without a person",
            "Choices": [
                {
                    "Variable": "$.assessment.approvalNeeded",
                    "BooleanEquals": False,
                    "Next": "Roll out releases",
                }
            ],
            "Default": "Request approval",
        },
        "Request approval": machine.wait(
            "Request approval",
            "Sends each approver a link; the sweeper answers from the ledger's decision",
            backstop,
            ResultPath="$.approval",
            Next="Approved?",
        ),
        # Not trusted for more than the way on: the gate before each step reads the decision itself.
        "Approved?": if_ended("approval", "Record outcome", "Roll out releases"),
    }


def _release(machine: Machine, backstop: int) -> State:
    return {
        "ProcessorConfig": {"Mode": "INLINE"},
        "StartAt": "Check gate",
        "States": {
            "Check gate": in_item(
                machine.call(
                    "Check gate",
                    "Reads the decision, the plan and the project again before each step",
                    ResultPath="$.gate",
                    Next="Gate open?",
                )
            ),
            "Gate open?": {
                "Type": "Choice",
                "Choices": [
                    {"Variable": "$.gate.outcome", "IsPresent": True, "Next": "Gate closed"},
                    {"Variable": "$.gate.hold", "IsPresent": True, "Next": "Hold step"},
                ],
                "Default": "Apply release",
            },
            "Hold step": in_item(
                machine.wait(
                    "Hold step",
                    "A person lifts it (an acknowledgement, the end of a pause); then the gate looks anew",
                    backstop,
                    ResultPath="$.held",
                    Next="Check gate",
                )
            ),
            "Gate closed": fail("$.gate.outcome", "Nothing of this step was written"),
            "Apply release": in_item(
                machine.call(
                    "Apply release",
                    "Writes one Application and asks for its sync; a step in flight is not written twice",
                    ResultPath="$.application",
                    Next="Release applied?",
                )
            ),
            "Release applied?": if_ended("application", "Release refused", "Wait until ready"),
            "Release refused": fail("$.application.outcome", "The cluster holds what it held before"),
            "Wait until ready": in_item(
                machine.wait(
                    "Wait until ready",
                    "The sweeper answers when Argo CD reports this revision synced and healthy",
                    backstop,
                    End=True,
                )
            ),
        },
    }


def _verification(machine: Machine, backstop: int) -> dict[str, State]:
    return {
        "Validation required?": {
            "Type": "Choice",
            "Comment": "Any other value matches nothing and fails the execution",
            "Choices": [
                {
                    "Variable": "$.assessment.validation",
                    "StringEquals": "Required",
                    "Next": "Validate deployment",
                },
                {
                    "Variable": "$.assessment.validation",
                    "StringEquals": "Disabled",
                    "Next": "Confirm criteria",
                },
            ],
        },
        "Validate deployment": machine.wait(
            "Validate deployment",
            "AICR's deployment validation, once per rollout",
            max(backstop, _JOB_BACKSTOP),
            ResultPath="$.validation",
            Next="Validation passed?",
        ),
        "Validation passed?": if_ended("validation", "Record outcome", "Confirm criteria"),
        "Confirm criteria": machine.wait(
            "Confirm criteria",
            "A snapshot after the install must show what the runtime said it would",
            max(backstop, _JOB_BACKSTOP),
            ResultPath="$.criteria",
            Next="Criteria confirmed?",
        ),
        "Criteria confirmed?": if_ended("criteria", "Record outcome", "Bind evidence"),
        "Bind evidence": machine.call(
            "Bind evidence",
            "One signed statement ties plan, approval, charts and validation together",
            ResultPath="$.evidence",
            Next="Evidence bound?",
        ),
        "Evidence bound?": if_ended("evidence", "Record outcome", "Record outcome"),
    }
