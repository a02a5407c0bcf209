"""Which validators a validation Job really ran: its checks' pods are read and written down.

AICR from 1.1.0 on leaves them until their TTL, so they are read when the Job ended. The older one removes
each as soon as its check ended: they are noted while the Job runs. Each look then watches them for a second,
and is told what happened since the look before, so that none is missed between two.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from typing import Any

from aicr_pipeline.adapters import jobs
from aicr_pipeline.adapters.cluster import Cluster, Json
from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.clock import parse_time
from aicr_pipeline.decide.validation import Report
from aicr_pipeline.decide.validators import SELECTOR, SeenValidator, seen_validators, validators_problem

Wanted = Mapping[str, Any]
#: By Job, from where the next watch goes on. Lost with the process, and then it begins with what is there.
_WATCHED: dict[str, str | None] = {}


def note_validators(wanted: Wanted, job: Json, cluster: Cluster, ledger: Ledger) -> None:
    """Write down each pod that will be gone by the end; a pod that is written down is not written again."""
    if wanted.get("podsStay", True):
        return
    metadata = job["metadata"]
    since = _WATCHED.get(metadata["uid"])
    states, then = jobs.watched_pods(cluster, str(metadata["namespace"]), SELECTOR, since)
    found = {seen.pod: seen for seen in seen_validators(states, _began(job))}
    for seen in found.values():
        body = json.dumps(seen.wire(), sort_keys=True).encode()
        ledger.put_once(f"{_notes(wanted)}{seen.pod}.json", body)
    # Last: what could not be written down is told again.
    _WATCHED[metadata["uid"]] = then


def validators_end(
    wanted: Wanted, job: Json | None, cluster: Cluster, ledger: Ledger, report: Report
) -> str | None:
    """Record what ran in ``rollouts/<name>/validators.json``, once, and say why it fails the rollout or None.

    A second look judges the record of the first: by then the pods may be gone.
    """
    if "validatorImages" not in wanted:
        return None  # registered by an earlier version
    key = f"{wanted['validators']}.json"
    recorded = ledger.get_json(key)
    if recorded is None:
        if job is not None:
            note_validators(wanted, job, cluster, ledger)  # what happened since the last look
            # If it is looked at again, the notes and the pods that are there say the same.
            _WATCHED.pop(job["metadata"]["uid"], None)
        seen = _all_seen(wanted, job, cluster, ledger)
        problem = validators_problem(seen, _ran(report), wanted["validatorImages"])
        if problem is not None and not seen:
            return problem
        ledger.put_once(key, json.dumps([item.wire() for item in seen], sort_keys=True).encode())
        if problem is not None:
            return problem
        recorded = ledger.get_json(key)
    return validators_problem(_read(recorded), _ran(report), wanted["validatorImages"])


def _all_seen(wanted: Wanted, job: Json | None, cluster: Cluster, ledger: Ledger) -> Sequence[SeenValidator]:
    found = {seen.pod: seen for seen in (_seen(job, cluster) if job is not None else [])}
    for key, _ in ledger.keys(_notes(wanted)):
        for seen in _read([ledger.get_json(key)]):
            found.setdefault(seen.pod, seen)
    return sorted(found.values(), key=lambda seen: (seen.check, seen.pod))


def _seen(job: Json, cluster: Cluster) -> list[SeenValidator]:
    """Of this Job: nobody else's pods are as young, since one rollout is active at a time."""
    pods = jobs.labelled_pods(cluster, str(job["metadata"]["namespace"]), SELECTOR)
    return seen_validators(pods, _began(job))


def _began(job: Json) -> datetime:
    return parse_time(str(job["metadata"]["creationTimestamp"]))


def _ran(report: Report) -> Iterable[str]:
    """A check that is skipped may have had no pod, and says nothing."""
    return [check.name for check in report.checks if check.status != "skipped"]


def _read(recorded: Iterable[Mapping[str, str]]) -> list[SeenValidator]:
    blank = SeenValidator("", "", "", "")
    return [replace(blank, **dict(item)) for item in recorded]


def _notes(wanted: Wanted) -> str:
    """Of one attempt's Job: the attempt before it ran other pods."""
    return f"{wanted['validators']}/{wanted['job']}/"
