"""One whole machine for a test: the engine, and what a person does with it."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import urllib3
import yaml

from local.approve import answer, approve
from local.argocd import Scenario
from local.demo import _LINK, _SHORT_NAME
from local.pipeline import LocalPipeline, Options
from local.progress import Progress, progress
from tests.workflow import exhibits

ROOT = Path(__file__).resolve().parents[2]
SAMPLE = ROOT / "local" / "samples" / "clusterruntime.yaml"


def runtime(**spec: Any) -> bytes:
    """The sample runtime with parts of its spec replaced; None removes one."""
    document = yaml.safe_load(SAMPLE.read_text())
    for name, value in spec.items():
        if value is None:
            document["spec"].pop(name)
        else:
            document["spec"][name] = value
    return yaml.safe_dump(document).encode()


class Machine:
    """A running pipeline, driven as people drive it."""

    def __init__(self, pipeline: LocalPipeline) -> None:
        self.pipeline = pipeline

    def resolve(self, wish: bytes, timeout: float = 90) -> Progress:
        """Submit a runtime and wait until its resolve ended."""
        before = len(self.pipeline.aws.executions(self.pipeline.machine("resolve")))
        self.pipeline.submit(wish)
        return self._ended("resolve", before, timeout)

    def rollout(self, timeout: float = 120, seen: int = 0) -> Progress:
        """Wait until the rollout after ``seen`` ended."""
        return self._ended("rollout", seen, timeout)

    def link(self, timeout: float = 60, after: int = 0) -> tuple[str, str]:
        """The newest approval link that was sent, and the short name to type."""

        def found() -> str | None:
            sent = [message.message for message in self.pipeline.aws.messages[after:]]
            return next((text for text in reversed(sent) if _LINK.search(text)), None)

        self.wait(lambda: found() is not None, timeout, "a message with a link")
        text = found() or ""
        link, short_name = _LINK.search(text), _SHORT_NAME.search(text)
        assert link and short_name
        return link[0], short_name[1]

    def approve(self, after: int = 0) -> None:
        """Answer the newest link."""
        link, short_name = self.link(after=after)
        approve(link, short_name, "a test says so")

    def revoke(self, after: int = 0) -> str:
        """Stop the rollout at the newest link; the page as it is then."""
        link, short_name = self.link(after=after)
        return answer(link, short_name, "a test stops it", "Revoked")

    def acknowledge(self, after: int = 0) -> str:
        """Say at the newest link that the step's work was done; the page as it is then."""
        link, short_name = self.link(after=after)
        return answer(link, short_name, "a test did it", "Acknowledged")

    def page(self, after: int = 0) -> str:
        """What the newest link shows."""
        return urllib3.request("GET", self.link(after=after)[0]).data.decode()

    def outcome(self, rollout: str) -> dict[str, Any]:
        """The outcome in the ledger."""
        found: dict[str, Any] = json.loads(self.pipeline.ledger(f"rollouts/{rollout}/outcome.json") or b"{}")
        return found

    def wait(self, condition: Any, timeout: float, what: str) -> None:
        """Wait for something to become true."""
        until = time.monotonic() + timeout
        while not condition():
            assert time.monotonic() < until, f"{what} did not happen; problems: {self.pipeline.aws.problems}"
            time.sleep(0.05)

    def _ended(self, machine: str, before: int, timeout: float) -> Progress:
        aws, arn = self.pipeline.aws, self.pipeline.machine(machine)
        self.wait(lambda: len(aws.executions(arn)) > before, timeout, f"a {machine}")
        self.wait(lambda: aws.executions(arn)[-1].status != "RUNNING", timeout, f"the end of the {machine}")
        aws.quiet()
        found = progress(aws, arn)
        assert found is not None
        exhibits.ended(self, machine, found)
        return found


@contextmanager
def machine(
    workdir: Path,
    *,
    cluster: Path = ROOT / "clusters" / "demo.yaml",
    bundle: Path | None = None,
    scenario: Scenario | None = None,
    snapshot: Path | None = None,
) -> Iterator[Machine]:
    """A machine for the length of a test."""
    options = Options(
        cluster,
        workdir,
        bundle=bundle,
        approver="x",
        scenario=scenario,
        snapshot=snapshot,
        kept_processes=17,  # a start costs more than the work of most functions
        idle_seconds=60,
    )
    with LocalPipeline(options) as pipeline:
        yield Machine(pipeline)
