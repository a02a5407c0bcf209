"""What the states that run AICR share: start a Job once, with all it needs, and register the wait for it."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from aicr_pipeline.adapters import jobs
from aicr_pipeline.adapters.cluster import Cluster, Json
from aicr_pipeline.adapters.jobs import StartedJob
from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.adapters.registry_auth import Credentials
from aicr_pipeline.adapters.waits import Waits
from aicr_pipeline.clock import Clock, after
from aicr_pipeline.decide.aicr_job import input_config_map, output_config_map, registry_secret
from aicr_pipeline.decide.names import job_name
from aicr_pipeline.model.step import StepEvent


@dataclass(frozen=True)
class JobPlace:
    """Where a Job runs and how its end is waited for."""

    cluster: Cluster
    waits: Waits
    clock: Clock


@dataclass(frozen=True)
class Login:
    """The registry that a Job pushes to, and whose rights it has there."""

    host: str
    credentials: Credentials


@dataclass(frozen=True)
class AicrJob:
    """One run of AICR.

    Attributes
    ----------
    run
        The resolve or the rollout.
    purpose
        Part of the Job's name, and how the sweeper judges it.
    wait_seconds
        A little more than the Job's own deadline, which ends it with a clearer message.
    build
        Name and attempt -> the Job.
    wanted
        Attempt -> what the sweeper is told beside the Job's names.
    recorded
        Attempt -> whether its result is there, although the Job is gone.
    inputs
        Documents that AICR reads, by the suffix of their ConfigMap.
    keep
        The ledger key of what AICR writes into the ConfigMap of the Job's name; None when it writes none.
    logs
        Where in the ledger the last words of a failed attempt are kept.
    """

    run: str
    purpose: str
    wait_seconds: int
    build: Callable[[str, int], Json]
    wanted: Callable[[int], Mapping[str, Any]]
    recorded: Callable[[int], bool]
    logs: str
    inputs: Mapping[str, str] = field(default_factory=dict)
    keep: str | None = None


def in_ledger(ledger: Ledger, key: str) -> Callable[[int], bool]:
    """``recorded`` of a Job whose result the ledger keeps: written once, whichever attempt it was."""
    return lambda _attempt: ledger.get(key) is not None


def run_job(step: StepEvent, wanted: AicrJob, place: JobPlace) -> dict[str, Any]:
    """Start a Job that pushes nothing, or find it started, and register the wait for it."""
    started = _start(wanted, place)
    _put_config_maps(started, wanted, place)
    return _register(step, wanted, started, place)


def run_pushing_job(step: StepEvent, wanted: AicrJob, place: JobPlace, login: Login) -> dict[str, Any]:
    """The same for a Job that pushes: with a registry Secret of its own.

    The token is minted for every attempt, and before the Job: it outlives the Job, and a Job without one
    would only wait for its deadline.
    """
    login.credentials.renew()
    user, password = login.credentials.get()
    started = _start(wanted, place)
    _put_config_maps(started, wanted, place)
    if not started.recorded:
        secret = registry_secret(started.job, login.host, user, password)
        jobs.put_owned(place.cluster, secret, "secrets")
    return _register(step, wanted, started, place)


def _start(wanted: AicrJob, place: JobPlace) -> StartedJob:
    def build(attempt: int) -> Json:
        return wanted.build(job_name(wanted.run, wanted.purpose, attempt), attempt)

    return jobs.start(place.cluster, build, wanted.recorded)


def _put_config_maps(started: StartedJob, wanted: AicrJob, place: JobPlace) -> None:
    if started.recorded:
        return
    for suffix, text in wanted.inputs.items():
        jobs.put_owned(place.cluster, input_config_map(started.job, suffix, text), "configmaps")
    if wanted.keep is not None:
        jobs.put_owned(place.cluster, output_config_map(started.job), "configmaps")


def _register(step: StepEvent, wanted: AicrJob, started: StartedJob, place: JobPlace) -> dict[str, Any]:
    waiting = {
        "namespace": started.namespace,
        "job": started.name,
        "purpose": wanted.purpose,
        "recorded": started.recorded,
        "logs": wanted.logs,
        **({"configMap": started.name, "keep": wanted.keep} if wanted.keep else {}),
        **wanted.wanted(started.attempt),
    }
    return place.waits.register(step, "job", waiting, after(place.clock(), wanted.wait_seconds))
