"""The rollout machine's own definition, run step by step in this process, with redrives.

The engine of the whole-machine tests runs the same definition with real time and real processes. Here a
rollout takes a fraction of a second, so that each of its external calls can go wrong once.
"""

from __future__ import annotations

import copy
import itertools
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


class FunctionError(Exception):
    """What Lambda says of an invocation that failed."""

    def __init__(self, name: str, cause: str) -> None:
        super().__init__(f"{name}: {cause}")
        self.name, self.cause = name, cause


Invoke = Callable[[str, Json], Json]


@dataclass
class _Frame:
    """Where one run of states is: the machine's own, or an item's of the Map."""

    states: Mapping[str, Any]
    state: str
    data: Json
    retries: dict[int, int] = field(default_factory=dict)
    entered: str = ""
    #: Of a Map: its items that are left, its results so far, the item that runs.
    items: list[Any] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)
    inner: _Frame | None = None


class Execution:
    """One execution of a definition. ``run`` goes on until it waits for a token or is over."""

    _tokens = itertools.count(1)

    def __init__(
        self, definition: Json, name: str, given: Json, invoke: Invoke, time: Callable[[float], str]
    ) -> None:
        """``time`` lets so many seconds pass and says what time it is then."""
        self.name, self.input = name, given
        self.status, self.error, self.cause = "RUNNING", "", ""
        self.token: str | None = None
        self.redrives = self.transitions = 0
        #: Events of the history, as AWS counts them: the end of the execution is one.
        self.history = 1
        self.entered: list[str] = []
        self._invoke, self._time = invoke, time
        self._started = time(0)
        self._frame = _Frame(definition["States"], definition["StartAt"], copy.deepcopy(given))
        self._answer: tuple[str, Any, str] | None = None

    # What others do

    def run(self) -> None:
        """Go on as far as possible."""
        while self.status == "RUNNING" and (self.token is None or self._answer is not None):
            self._step(self._frame)

    def answer(self, token: str, output: Any = None, error: str = "", cause: str = "") -> bool:
        """Answer a token; False when it is not waited for."""
        if self.status != "RUNNING" or token != self.token or self._answer is not None:
            return False
        self._answer = (error, output, cause)
        return True

    def stop(self) -> None:
        """As a person does in the console."""
        if self.status == "RUNNING":
            self.status, self.error, self.token, self._answer = "ABORTED", "Stopped", None, None

    def redrive(self) -> None:
        """Go on at the state that failed, with its input and fresh retries: AWS's own words for a redrive."""
        assert self.status in ("FAILED", "ABORTED", "TIMED_OUT")
        self.status, self.error, self.cause = "RUNNING", "", ""
        self.redrives += 1
        frame: _Frame | None = self._frame
        while frame is not None:
            frame.retries, frame.entered = {}, ""
            frame = frame.inner

    # How

    def _step(self, frame: _Frame) -> None:
        if frame.inner is not None:
            self._step(frame.inner)
            return
        state = frame.states[frame.state]
        if not frame.entered:
            frame.entered = self._time(0.05)
            self.transitions += 1
            self.entered.append(frame.state)
            self.history += 1 if state["Type"] == "Fail" else 2  # entered, exited
        kind = state["Type"]
        if kind == "Task":
            self._task(frame, state)
        elif kind == "Choice":
            chosen = [choice["Next"] for choice in state["Choices"] if _holds(choice, frame.data)]
            if not chosen and "Default" not in state:
                self._fail(frame, "States.NoChoiceMatched", "")
            else:
                self._go(frame, chosen[0] if chosen else state["Default"])
        elif kind == "Map":
            frame.items, frame.results = list(_path(state["ItemsPath"], frame.data)), []
            self.history += 2 + 2 * len(frame.items)  # the Map and each iteration: started, succeeded
            self._next_item(frame, state)
        elif kind == "Fail":
            self._fail(
                frame, str(_path(state["ErrorPath"], frame.data)), str(_path(state["CausePath"], frame.data))
            )
        elif kind == "Succeed":
            self._end(frame, frame.data)
        else:
            raise NotImplementedError(kind)

    def _task(self, frame: _Frame, state: Json) -> None:
        if self._answer is not None:
            error, output, cause = self._answer
            self._answer = self.token = None
            if error:
                self._failed(frame, state, error, cause)
            else:
                self._done(frame, state, output)
            return
        waits = "waitForTaskToken" in state["Resource"]
        self.history += 4 if waits else 3  # scheduled, started, submitted, ended
        parameters = state["Parameters"]
        token = f"token-{next(self._tokens)}"
        payload = self._fill(parameters["Payload"] if waits else parameters, frame, token)
        function = parameters["FunctionName"] if waits else state["Resource"]
        if waits:
            self.token = token  # it may be answered while the function still runs
        try:
            output = self._invoke(function, payload)
        except FunctionError as error:
            self._answer = self.token = None
            self._failed(frame, state, error.name, error.cause)
            return
        if not waits:
            self._done(frame, state, output)

    def _done(self, frame: _Frame, state: Json, output: Any) -> None:
        where = state.get("ResultPath", "$")
        data = output if where == "$" else {**frame.data, where[2:]: output}
        if state.get("End"):
            self._end(frame, data)
        else:
            frame.data = data
            self._go(frame, state["Next"])

    def _failed(self, frame: _Frame, state: Json, error: str, cause: str) -> None:
        for number, retry in enumerate(state.get("Retry", [])):
            if error in retry["ErrorEquals"] or "States.TaskFailed" in retry["ErrorEquals"]:
                done = frame.retries.get(number, 0)
                if done < retry["MaxAttempts"]:
                    frame.retries[number] = done + 1
                    pause = retry["IntervalSeconds"] * retry["BackoffRate"] ** done
                    self._time(min(pause, retry.get("MaxDelaySeconds", pause)))
                    return
                break
        self._fail(frame, error, cause)

    def _fail(self, frame: _Frame, error: str, cause: str) -> None:
        outer = self._frame
        if frame is not outer:
            state = outer.states[outer.state]
            for catch in state.get("Catch", []):
                if error in catch["ErrorEquals"]:
                    outer.inner = None
                    outer.data = {**outer.data, catch["ResultPath"][2:]: {"Error": error, "Cause": cause}}
                    self._go(outer, catch["Next"])
                    return
        self.status, self.error, self.cause, self.token = "FAILED", error, cause, None

    def _go(self, frame: _Frame, state: str) -> None:
        frame.state, frame.entered, frame.retries = state, "", {}

    def _end(self, frame: _Frame, data: Any) -> None:
        outer = self._frame
        if frame is outer:
            self.status = "SUCCEEDED"
            self.history += 1
            frame.data = data
            return
        outer.results.append(data)
        self._next_item(outer, outer.states[outer.state])

    def _next_item(self, frame: _Frame, state: Json) -> None:
        if not frame.items:
            frame.inner = None
            self._done(frame, state, frame.results)
            return
        item, processor = frame.items.pop(0), state["ItemProcessor"]
        data = {
            name.removesuffix(".$"): item if path == "$$.Map.Item.Value" else _path(path, frame.data)
            for name, path in state["ItemSelector"].items()
        }
        frame.inner = _Frame(processor["States"], processor["StartAt"], data)

    def _fill(self, template: Json, frame: _Frame, token: str) -> Json:
        context = {
            "$$.Execution.Name": self.name,
            "$$.Execution.StartTime": self._started,
            "$$.Execution.RedriveCount": self.redrives,
            "$$.State.EnteredTime": frame.entered,
            "$$.State.RetryCount": sum(frame.retries.values()),
            "$$.Task.Token": token,
        }
        filled = {
            name.removesuffix(".$"): (context[path] if path in context else _path(path, frame.data))
            if name.endswith(".$")
            else path
            for name, path in template.items()
        }
        return copy.deepcopy(filled)


def _path(path: str, data: Any) -> Any:
    for part in path.split(".")[1:]:
        data = data[part]
    return data


def _has(path: str, data: Any) -> bool:
    try:
        _path(path, data)
    except (KeyError, TypeError):
        return False
    return True


def _holds(rule: Json, data: Json) -> bool:
    if "And" in rule:
        return all(_holds(part, data) for part in rule["And"])
    if "Not" in rule:
        return not _holds(rule["Not"], data)
    if "IsPresent" in rule:
        return _has(rule["Variable"], data) == rule["IsPresent"]
    wanted = rule.get("StringEquals", rule.get("BooleanEquals"))
    assert wanted is not None, rule
    return _has(rule["Variable"], data) and bool(_path(rule["Variable"], data) == wanted)
