"""What the executions say about how far the work is: read from their histories, as the console does."""

import json
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from local.aws import LocalAws

History = list[dict[str, Any]]


@dataclass
class StepProgress:
    """One release: ``seconds`` from its gate to ready, None while it is not; ``held`` is why it waits for a
    person."""

    index: int
    of: int
    release: str
    action: str
    started: datetime
    seconds: float | None = None
    held: str = ""


@dataclass
class Progress:
    """One execution, as far as it is."""

    name: str
    status: str
    state: str
    started: datetime
    transitions: int
    events: int
    error: str | None = None
    cause: str | None = None
    output: Any = None
    steps: dict[str, StepProgress] = field(default_factory=dict)


def progress(aws: LocalAws, machine: str) -> Progress | None:
    """The newest execution of a machine, None before the first."""
    executions = aws.executions(machine)
    if not executions:
        return None
    view = executions[-1]
    history = aws.history(view.arn)
    entered = [event for event in history if event["type"].endswith("StateEntered")]
    return Progress(
        name=view.name,
        status=view.status,
        state=entered[-1]["stateEnteredEventDetails"]["name"] if entered else "",
        started=view.started,
        transitions=len(entered),
        events=len(history),
        error=view.error,
        cause=view.cause,
        output=view.output,
        steps=_steps(history),
    )


def _steps(history: History) -> dict[str, StepProgress]:
    found: dict[str, StepProgress] = {}
    for event in history:
        details = event.get("stateEnteredEventDetails") or event.get("stateExitedEventDetails")
        if details is None:
            continue
        if event["type"] == "TaskStateEntered" and details["name"] == "Check gate":
            item = json.loads(details["input"])["item"]
            found[item["release"]] = StepProgress(
                item["index"], item["of"], item["release"], item["action"], _time(event)
            )
        if event["type"] == "TaskStateEntered" and details["name"] == "Hold step":
            entered = json.loads(details["input"])
            found[entered["item"]["release"]].held = entered["gate"]["hold"]["message"]
        if event["type"] == "TaskStateExited" and details["name"] == "Wait until ready":
            step = found[json.loads(details["output"])["release"]]
            step.seconds = (_time(event) - step.started).total_seconds()
    return found


def _time(event: dict[str, Any]) -> datetime:
    found = event["timestamp"]
    return found if isinstance(found, datetime) else datetime.fromisoformat(str(found))
