"""The resolve machine: from a submitted runtime to an announced plan."""

from collections.abc import Mapping
from typing import Any

from aicr_pipeline.adapters.pace import AT_ONCE

from infra.asl import Machine, fail, if_ended, in_item, item_selector

#: AICR's own Job deadline is 5 hours (its agent's activeDeadlineSeconds); the waiter's is shorter.
_JOB_BACKSTOP = 5 * 3600 + 300


def resolve_definition(arns: Mapping[str, str], version: str, partition: str) -> dict[str, Any]:
    """The machine as Amazon States Language.

    Parameters
    ----------
    arns:
        Function name to ARN, of ``RESOLVE_FUNCTIONS``.
    version:
        Names definition and code; goes to every function.
    partition:
        AWS's partition.
    """
    machine = Machine(arns, version, partition)
    return {
        "Comment": f"Snapshot, render, mirror, plan. Version {version}",
        "StartAt": "Check prerequisites",
        "States": {
            "Check prerequisites": machine.call(
                "Check prerequisites",
                "Nothing else runs before cluster, Argo CD, its project and registry credentials are there",
                ResultPath="$.prerequisites",
                Next="Prerequisites met?",
            ),
            "Prerequisites met?": if_ended("prerequisites", "Record resolve", "Take snapshot"),
            "Take snapshot": machine.wait(
                "Take snapshot",
                "AICR's snapshot Job; the sweeper answers when it ended",
                _JOB_BACKSTOP,
                ResultPath="$.snapshot",
                Next="Snapshot taken?",
            ),
            "Snapshot taken?": if_ended("snapshot", "Record resolve", "Render bundle"),
            "Render bundle": machine.wait(
                "Render bundle",
                "AICR's recipe and bundle in one Job; the bundle goes to the registry",
                _JOB_BACKSTOP,
                ResultPath="$.rendering",
                Next="Bundle rendered?",
            ),
            "Bundle rendered?": if_ended("rendering", "Record resolve", "Read bundle"),
            "Read bundle": machine.call(
                "Read bundle",
                "Reads what AICR rendered, by the digest that the registry names",
                ResultPath="$.bundle",
                Next="Bundle read?",
            ),
            "Bundle read?": if_ended("bundle", "Record resolve", "Mirror charts"),
            "Mirror charts": {
                "Type": "Map",
                "Comment": "Each release's chart goes into the registry; what is there costs two requests",
                "ItemsPath": "$.bundle.releases",
                "ItemSelector": item_selector("run", "runtimeVersion", "cluster"),
                "MaxConcurrency": AT_ONCE,
                "ItemProcessor": {
                    "ProcessorConfig": {"Mode": "INLINE"},
                    "StartAt": "Mirror chart",
                    "States": {
                        "Mirror chart": in_item(
                            machine.call("Mirror chart", "Copies bytes, never an overwrite", End=True)
                        )
                    },
                },
                "ResultPath": "$.mirror",
                "Next": "Write plan",
            },
            "Write plan": machine.call(
                "Write plan",
                "Also ends the run when a chart was refused",
                ResultPath="$.plan",
                Next="Plan written?",
            ),
            "Plan written?": if_ended("plan", "Record resolve", "Stabilize"),
            "Stabilize": {
                "Type": "Wait",
                "Comment": "A newer plan in this window takes the place of this one",
                "SecondsPath": "$.stabilizationSeconds",
                "Next": "Announce plan",
            },
            "Announce plan": machine.call(
                "Announce plan",
                "Only if the runtime that it was made from is still the current one",
                ResultPath="$.announcement",
                Next="Record resolve",
            ),
            "Record resolve": machine.call(
                "Record resolve",
                "Every end comes by here: an event for each, and word to people where it matters",
                ResultPath="$.recorded",
                Next="Resolve stalled?",
            ),
            # To give way to a newer runtime is no failure, and raises no alarm.
            "Resolve stalled?": {
                "Type": "Choice",
                "Choices": [{"Variable": "$.recorded.reason", "IsPresent": True, "Next": "Resolve stalled"}],
                "Default": "Resolve complete",
            },
            "Resolve complete": {"Type": "Succeed"},
            "Resolve stalled": fail("$.recorded", "The reason is the domain's; see the runbook"),
        },
    }
