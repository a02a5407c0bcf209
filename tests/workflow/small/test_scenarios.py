"""Every scenario of ``local/scenarios`` through the whole machine: each ends as its file says."""

import json
import os
import signal
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from local.argocd import Scenario
from local.argocd.scenario import names
from tests.workflow.small.machine import RELEASES, SmallMachine

#: The step that it happens to; one is installed before it and one is not after it.
STRUCK = RELEASES[1]


class Configured:
    """The machine with other settings than it was started with: only the sweeper reads these."""

    def __init__(self, small: SmallMachine) -> None:
        self._small = small
        self._file = small.pipeline.options.workdir / "cluster" / "cluster.json"
        self._before = self._file.read_text()

    def set(self, scenario: Scenario) -> None:
        """Have the scenario's settings read."""
        self._write(json.dumps(scenario.configured(json.loads(self._before))))

    def restore(self) -> None:
        """The settings of before."""
        self._write(self._before)

    def _write(self, text: str) -> None:
        if self._file.read_text() == text:
            return
        self._file.write_text(text)
        aws = self._small.pipeline.aws
        aws.quiet()
        sweepers = [found for found in aws._lambdas.processes() if "sweep_waiters" in found.function]
        for found in sweepers:  # a new process reads the file anew
            with suppress(ProcessLookupError):
                os.kill(found.pid, signal.SIGKILL)
        self._small.wait(
            lambda: not any(Path(f"/proc/{found.pid}/exe").exists() for found in sweepers),
            10,
            "a new sweeper",
        )


@pytest.fixture(scope="module")
def configured(_running: SmallMachine) -> Iterator[Configured]:
    made = Configured(_running)
    yield made
    made.restore()


def outcome_of(small: SmallMachine) -> tuple[Any, dict[str, Any]]:
    small.start(small.plan())
    small.approve()
    ended = small.ended(90)
    return ended, small.outcome(ended.name)


@pytest.mark.parametrize("name", names())
def test_it_ends_as_the_scenario_says(small: SmallMachine, configured: Configured, name: str) -> None:
    scenario = Scenario.named(name)
    configured.set(scenario)
    small.pipeline.argocd.scenario = scenario.on(STRUCK)
    ended, outcome = outcome_of(small)
    application = small.application(STRUCK)
    assert application is not None
    if scenario.reason == "RolledOut":
        assert (ended.status, outcome["outcome"]) == ("SUCCEEDED", "Succeeded"), (ended.error, ended.cause)
        assert outcome["installed"] == list(RELEASES)
        assert application["spec"]["syncPolicy"]["automated"] == {"prune": True, "selfHeal": True}
        return
    assert (ended.status, ended.error) == ("FAILED", scenario.reason), ended.cause
    assert scenario.said in outcome["message"]
    assert f"step 2/3 {STRUCK} (Install)" in outcome["message"]
    assert scenario.said in small.pipeline.aws.messages[-1].message, "people are told in the same words"
    assert outcome["installed"] == [RELEASES[0]]
    assert small.application(RELEASES[2]) is None, "nothing after it was written"
    if scenario.reason == "EngineSuspended":
        assert "operation" not in application, "nothing happens later without a gate"


def test_a_fresh_rollout_continues_when_the_trouble_is_over(
    small: SmallMachine, configured: Configured
) -> None:
    """After an engine that was suspended: nothing was left asked for, and the rest is installed."""
    scenario = Scenario.named("engine-suspended")
    configured.set(scenario)
    small.pipeline.argocd.scenario = scenario.on(STRUCK)
    ended, _ = outcome_of(small)
    assert ended.error == "EngineSuspended"
    small.pipeline.argocd.scenario = Scenario()
    ended, outcome = outcome_of(small)
    assert outcome["outcome"] == "Succeeded", (ended.error, ended.cause)
    assert outcome["installed"] == list(RELEASES)
