"""The main job: a runtime goes in, a rollout with signed evidence comes out; a person approves in between."""

import json
import re
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason
from rich.console import Console

from local import terminal
from local.approve import approve
from local.argocd import Scenario
from local.pipeline import LocalPipeline, Options, fresh_workdir
from local.progress import Progress, progress
from local.summary import ARCHIVE, refused, summarize
from local.view import View, closing, refusal

_LINK = re.compile(r"^http\S+/approvals/\S+$", re.MULTILINE)
_SHORT_NAME = re.compile(r"Short name, typed to confirm: (\S+)")
_LOOK_SECONDS = 0.1
_RUNNING = "RUNNING"
_TERMINAL = "terminal.env"
#: A sweep lingers for some of its intervals, and ends within a minute.
_QUIET_SECONDS = 90.0


@dataclass(frozen=True)
class Job:
    """What ``make demo`` was asked for."""

    options: Options
    runtime: Path
    out: Path
    reason: str = "make demo"


def options(
    cluster_file: Path,
    *,
    bundle: Path | None,
    charts: Path | None,
    approver: str | None,
    work: Path,
    runtime: Path,
    bypass: bool = False,
    scenario: str | None = None,
) -> Options:
    """Options of one run, with a folder of its own under ``work``; ``bypass`` sets ``approvals.bypass``.

    A scenario brings settings of its own, so that nobody waits for long.
    """
    workdir = fresh_workdir(work)
    found = Scenario.named(scenario) if scenario else None
    if bypass or found:
        document = yaml.safe_load(cluster_file.read_text())
        if bypass:
            document["approvals"]["bypass"] = True
        if found:
            document = found.configured(document)
        cluster_file = workdir / cluster_file.name
        cluster_file.write_text(yaml.safe_dump(document))
    return Options(
        cluster_file,
        workdir,
        bundle=bundle,
        charts=charts,
        approver=approver,
        scenario=found,
        runtime=runtime,
    )


def run(job: Job, console: Console) -> int:
    """Run the job and write ``summary.json``; 0 only when the outcome is ``Succeeded``.

    With a scenario: only when it is what the scenario says.
    """
    began = time.monotonic()
    job.out.mkdir(parents=True, exist_ok=True)
    for stale in ("summary.json", "plan.json", "evidence.intoto.json", "public-key.pem", ARCHIVE, _TERMINAL):
        (job.out / stale).unlink(missing_ok=True)
    try:
        summary = _run(job, console, began)
    except PipelineError as error:
        summary = refused(str(error.reason), error.message, time.monotonic() - began)
    finally:
        # Its keys ended with the run, however that ended.
        (job.out / _TERMINAL).unlink(missing_ok=True)
    scenario = job.options.scenario
    if scenario is not None:
        summary["scenario"] = _came_as_told(scenario, summary)
    (job.out / "summary.json").write_text(json.dumps(summary, indent=1) + "\n")
    if summary["rollout"] is None:
        refusal(console, summary)
        if summary["reason"] == "RolledOut":
            return 0
    else:
        closing(console, summary, _verify_command(job.out))
    console.print(f"Summary     {job.out / 'summary.json'}  ({summary['seconds']:.1f} s)", highlight=False)
    if scenario is not None:
        came = summary["scenario"]["asExpected"]
        console.print(f"Scenario    {'it came as it says' if came else 'NOT what it says'}", highlight=False)
        return 0 if came else 1
    return 0 if summary["outcome"] == "Succeeded" else 1


def _came_as_told(scenario: Scenario, summary: dict[str, Any]) -> dict[str, Any]:
    """Whether the run ended as its scenario says."""
    through = scenario.reason == Reason.RolledOut and summary["outcome"] == "Succeeded"
    ended = summary["reason"] == scenario.reason and scenario.said in (summary["message"] or "")
    came = through or (ended and scenario.reason != Reason.RolledOut)
    return {"title": scenario.title, "reason": scenario.reason, "asExpected": came}


def _run(job: Job, console: Console, began: float) -> dict[str, Any]:
    runtime = job.runtime.read_bytes()
    with View(console) as view:
        if job.options.scenario is not None:
            view.say(
                f"Scenario    {job.options.scenario.title}.\nExpect      {job.options.scenario.expect}\n"
            )
        view.say(
            f"Starting the local engine for cluster {job.options.cluster_file.stem} (synthesizes first) ..."
        )
        with LocalPipeline(job.options) as pipeline:
            if pipeline.config.approvals.bypass:
                view.say("Approval is bypassed: nobody is asked, and the evidence never qualifies.")
            view.say(f"Ready after {time.monotonic() - began:.1f} s. Submitting {job.runtime}")
            pipeline.submit(runtime)
            resolve, rollout = _follow(job, pipeline, view)
            return summarize(pipeline, resolve, rollout, job.out, time.monotonic() - began)


def _follow(job: Job, pipeline: LocalPipeline, view: View) -> tuple[Progress | None, Progress | None]:
    """Watch until the rollout ended, or the resolve did without leading to one."""
    asked = False
    while True:
        resolve = progress(pipeline.aws, pipeline.machine("resolve"))
        rollout = progress(pipeline.aws, pipeline.machine("rollout"))
        view.show(resolve, rollout)
        if rollout is not None and rollout.status != _RUNNING:
            pipeline.aws.quiet(_QUIET_SECONDS)
            return resolve, rollout
        if rollout is None and resolve is not None and _leads_nowhere(resolve):
            pipeline.aws.quiet(_QUIET_SECONDS)
            return resolve, None
        if not asked and (message := _asked(pipeline)) is not None:
            asked = True
            if rollout is not None:
                _from_a_terminal(job, pipeline, rollout.name, view)
            _answer(job, message, view)
        if asked and rollout is not None and rollout.state != "Request approval":
            view.link(None)
        time.sleep(_LOOK_SECONDS)


def _leads_nowhere(resolve: Progress) -> bool:
    """Whether the resolve ended without announcing a plan."""
    if resolve.status == "SUCCEEDED":
        return not resolve.output.get("announcement", {}).get("announced", False)
    return resolve.status != _RUNNING


def _asked(pipeline: LocalPipeline) -> str | None:
    """The newest message with a link, as the approver's mail holds it."""
    return next(
        (found.message for found in reversed(pipeline.aws.messages) if _LINK.search(found.message)), None
    )


def _answer(job: Job, message: str, view: View) -> None:
    link, short_name = _LINK.search(message), _SHORT_NAME.search(message)
    if link is None:
        raise RuntimeError(f"The approver's message has no link:\n{message}")
    view.link(link[0])
    if short_name is None:
        view.say("Open it, sign in, choose a reason, approve.")
        return
    if job.options.approver is None:
        view.say(f"Open it, choose a reason, type the short name {short_name[1]}, approve.")
        return
    approve(link[0], short_name[1], job.reason)
    view.say(f"Approved by {job.options.approver} through the page's form.")


def _from_a_terminal(job: Job, pipeline: LocalPipeline, rollout: str, view: View) -> None:
    """How to ask and answer without the page, where nobody is answering already."""
    arn = pipeline.config.approvals.approvers[0].iam
    if arn is None or job.options.approver is not None:
        return
    file = job.out / _TERMINAL
    terminal.write(pipeline.aws, arn, file)
    # Absolute without a folder: the shell looks a bare name up in PATH.
    view.say(
        f"\nFrom another terminal:\n{terminal.lines(_short(Path(sys.executable)), file.absolute(), rollout)}"
    )


def _verify_command(out: Path) -> str:
    python, archive, key = (
        _short(path) for path in (Path(sys.executable), out / ARCHIVE, out / "public-key.pem")
    )
    program = "PYTHONPATH=layers/aicr_pipeline/python"
    return f"{program} {python} -m aicr_pipeline.verify {archive} --key {key}"


def _short(path: Path) -> str:
    """As typed from where the person is, if it is below."""
    absolute = path.absolute()
    return str(absolute.relative_to(Path.cwd()) if absolute.is_relative_to(Path.cwd()) else path)
