"""What both state machines are built of. Plain dictionaries in Amazon States Language, JSONPath."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from aicr_pipeline.model.reasons import GENERATION

from infra.functions import BY_NAME

State = dict[str, Any]

# Lambda's own transient errors (as AWS advises for every Lambda task), and what an action says is worth
# another attempt. Everything else fails the execution, which people redrive.
RETRY = [
    {
        "ErrorEquals": [
            "Lambda.ServiceException",
            "Lambda.AWSLambdaException",
            "Lambda.SdkClientException",
            "Lambda.TooManyRequestsException",
            "Lambda.ClientExecutionTimeoutException",
            # A function that ran out of memory or time, or whose process died: every action can run twice.
            "Lambda.Unknown",
            "Runtime.ExitError",
            "Sandbox.Timedout",
            "TransientError",
            "ObjectConflictError",
            "ThrottledError",
            "UnreachableError",
        ],
        "IntervalSeconds": 1,
        "BackoffRate": 2,
        "MaxAttempts": 5,
        "MaxDelaySeconds": 60,
        "JitterStrategy": "FULL",
    },
    # AICR found something unavailable, was rate limited, refused by the registry, or lost its node. The
    # sweeper counts the Jobs and gives the clear end, before the last of these attempts.
    {
        "ErrorEquals": ["JobToTryAgainError"],
        "IntervalSeconds": 4,
        "BackoffRate": 3,
        "MaxAttempts": 9,
        "MaxDelaySeconds": 600,
    },
    # Somebody else's operation on an Application is waited for, about half an hour.
    {"ErrorEquals": ["OperationInFlightError"], "IntervalSeconds": 20, "BackoffRate": 1, "MaxAttempts": 90},
    # Registry credentials that were asked for come within seconds, or when what keeps them away is gone.
    # The action gives up before the last of these attempts, and says why.
    {
        "ErrorEquals": ["CredentialsComingError"],
        "IntervalSeconds": 1,
        "BackoffRate": 1.5,
        "MaxAttempts": 45,
        "MaxDelaySeconds": 20,
    },
]


@dataclass(frozen=True)
class Machine:
    """What the states of one machine share.

    ``arns`` maps functions to their ARNs; ``version`` names definition and code, for the records;
    ``partition`` is AWS's (``aws``, ``aws-cn`` …).
    """

    arns: Mapping[str, str]
    version: str
    partition: str

    def payload(self, state: str) -> dict[str, Any]:
        """What every function is told."""
        return {
            "state": state,
            "execution.$": "$$.Execution.Name",
            "startedAt.$": "$$.Execution.StartTime",
            # Both together tell a newer task token of this state from an older one.
            "enteredAt.$": "$$.State.EnteredTime",
            "retries.$": "$$.State.RetryCount",
            "redrives.$": "$$.Execution.RedriveCount",
            "machineVersion": self.version,
            # Which reasons this definition catches, for functions that are newer than it.
            "generation": GENERATION,
            "input.$": "$",
        }

    def call(self, state: str, comment: str, **more: Any) -> State:
        """A state that invokes its function and goes on with the returned object.

        The function itself is the resource, not ``lambda:invoke``: that wraps the result in an envelope, and
        a ResultSelector can only build an object around ``$.Payload``, never be it.
        """
        function = function_of(state)
        return {
            "Type": "Task",
            "Comment": comment,
            "Resource": self.arns[function],
            "Parameters": self.payload(state),
            # Longer than the function's own limit, which is the one that reports an error worth reading.
            "TimeoutSeconds": BY_NAME[function].timeout_seconds + 30,
            "Retry": RETRY,
            **more,
        }

    def wait(self, state: str, comment: str, backstop_seconds: int, **more: Any) -> State:
        """A state whose function registers a waiter; whoever answers the token gives the result.

        ``backstop_seconds`` only bounds a wait that nobody answers: the waiter's own deadline comes first.
        """
        function = function_of(state)
        return {
            "Type": "Task",
            "Comment": comment,
            "Resource": f"arn:{self.partition}:states:::lambda:invoke.waitForTaskToken",
            "Parameters": {
                "FunctionName": self.arns[function],
                "Payload": {**self.payload(state), "token.$": "$$.Task.Token"},
            },
            "TimeoutSeconds": backstop_seconds,
            "Retry": RETRY,
            **more,
        }


def function_of(state: str) -> str:
    """``"Check prerequisites"`` as ``check_prerequisites``: a state and its function are the same words."""
    return state.lower().replace(" ", "_")


def if_ended(result: str, ended: str, otherwise: str) -> State:
    """A Choice: the domain ended it when ``$.<result>.outcome`` is there."""
    return {
        "Type": "Choice",
        "Choices": [{"Variable": f"$.{result}.outcome", "IsPresent": True, "Next": ended}],
        "Default": otherwise,
    }


def fail(path: str, comment: str) -> State:
    """A Fail state whose error is the reason and whose cause is the sentence at ``path``."""
    return {"Type": "Fail", "Comment": comment, "ErrorPath": f"{path}.reason", "CausePath": f"{path}.message"}


def in_item(state: State) -> State:
    """The same task inside a Map: it is also told its item."""
    parameters = dict(state["Parameters"])
    if "Payload" in parameters:
        parameters["Payload"] = {**parameters["Payload"], "item.$": "$.item"}
    else:
        parameters["item.$"] = "$.item"
    return {**state, "Parameters": parameters}


def item_selector(*fields: str) -> dict[str, str]:
    """The item beside the named fields of the execution's input, so an item's history stays small."""
    return {"item.$": "$$.Map.Item.Value", **{f"{field}.$": f"$.{field}" for field in fields}}
