"""A plan is ready, or a rollout ended or stalled: start the rollout that the target asks for, if any."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from aicr_pipeline.actions.announce_plan import TARGET
from aicr_pipeline.actions.record_stall import STALLED
from aicr_pipeline.adapters.coordination import Coordination
from aicr_pipeline.adapters.executions import Executions
from aicr_pipeline.adapters.ledger import Inbox, Ledger
from aicr_pipeline.adapters.order import newest_place, take_place
from aicr_pipeline.adapters.rollouts import (
    ActivePlan,
    active_plan,
    cause_key,
    end_of,
    is_over,
    load_outcome,
    load_revocation,
    load_rollout,
    next_number,
    standing_decision,
)
from aicr_pipeline.adapters.runtimes import standing_wish
from aicr_pipeline.adapters.statuses import is_drifted
from aicr_pipeline.adapters.submissions import submitter_of
from aicr_pipeline.clock import Clock, after, parse_time, rfc3339
from aicr_pipeline.decide.names import execution_name
from aicr_pipeline.decide.people import submitter_among
from aicr_pipeline.model.config import ClusterConfig
from aicr_pipeline.model.fields import seconds
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import Outcome, PlanWaits, Rollout, rollout_key


@dataclass(frozen=True)
class _Approved:
    """The rollout whose approval a fresh one may go on with, and its absolute deadline."""

    rollout: str
    deadline: str
    by: tuple[str, ...]


def start_rollout(
    event: Mapping[str, Any],
    config: ClusterConfig,
    ledger: Ledger,
    inbox: Inbox,
    coordination: Coordination,
    executions: Executions,
    clock: Clock,
) -> dict[str, Any]:
    """Start a rollout to the target plan.

    One rollout is active at a time: while another holds the lock, the target waits; the end of that
    one comes back here. What caused a rollout is written once, so an event that comes twice starts
    one.
    """
    if event.get("detail-type") == STALLED and "replay-name" not in event:
        _free_if_over(ledger, coordination, executions)
    target = coordination.fact(TARGET)
    detail = event["detail"]
    if "replay-name" in event or target is None:
        return {"started": False, "because": "a replay, or nothing is wanted"}
    plan = str(target["plan"])
    if detail.get("plan", plan) != plan:
        return {"started": False, "because": "another plan is the target now"}
    if detail.get("toPlan") == plan:
        return {"started": False, "because": "the rollout that ended was for this plan"}
    if event.get("detail-type") == STALLED and not _leaves_room(detail, ledger, plan):
        return {"started": False, "because": "what stalled may be redriven, and nothing newer is wanted"}
    wish = standing_wish(inbox)
    if wish.paused or wish.version is None:
        # A plan from before that waited for the end of a rollout. Whoever wants it again submits, and that is
        # resolved anew.
        return {"started": False, "because": f"the runtime is {'paused' if wish.paused else 'deleted'}"}
    active = _active(ledger, coordination, plan)
    if active.digest == plan and active.is_whole:
        return {"started": False, "because": "the plan is active already"}
    now = clock()
    cause = cause_key(str(target["run"]))
    name = _claimed(ledger, cause) or _fresh_name(ledger, executions, config.cluster.name, plan, rfc3339(now))
    if is_over(ledger, name):
        return {"started": False, "because": f"rollout {name} is over"}
    holder = coordination.take_lock(name)
    if holder != name:
        if executions.state(holder) == "running":
            _say_that_it_waits(ledger, holder, plan, rfc3339(now))
            return {"started": False, "because": f"rollout {holder} is active"}
        _supersede(ledger, holder, plan, rfc3339(now))
        coordination.drop_lock(holder)
        if coordination.take_lock(name) != name:
            return {"started": False, "because": "another rollout took the lock"}
    last = newest_place(ledger)
    # Again, after that look: whoever ended this rollout and took its place did so in this order.
    if is_over(ledger, name):
        coordination.drop_lock(name)
        return {"started": False, "because": f"rollout {name} is over"}
    if last is not None and last.rollout != name and not is_over(ledger, last.rollout):
        # Whoever holds the lock is the only one, so there is such a one only when the table was lost.
        if executions.state(last.rollout) == "running":
            coordination.drop_lock(name)
            coordination.take_lock(last.rollout)
            _say_that_it_waits(ledger, last.rollout, plan, rfc3339(now))
            return {"started": False, "because": f"rollout {last.rollout} is active"}
        _supersede(ledger, last.rollout, plan, rfc3339(now))
    # Again: a rollout that was superseded just now may have written releases.
    active = _active(ledger, coordination, plan)
    number = int(name.rpartition("-")[2])
    submitter = submitter_of(ledger, str(target["runtimeVersion"]))
    approved = _approved(ledger, execution_name(config.cluster.name, plan, number - 1), active, now)
    if approved and submitter_among(config.approvals, submitter, approved.by):
        approved = None  # what they approved as another's wish is their own by now
    rollout = Rollout(
        name=name,
        cluster=config.cluster.name,
        from_plan=active.digest,
        from_is_whole=active.is_whole,
        to_plan=plan,
        number=number,
        created_at=rfc3339(now),
        deadline=approved.deadline if approved else after(now, seconds(config.approvals.deadline)),
        runtime_version=str(target["runtimeVersion"]),
        submitter=submitter,
        inherits=approved.rollout if approved else None,
    )
    ledger.put_once(cause, json.dumps({"rollout": name}).encode())
    # Before the record: a rollout that has one is found, whatever dies here.
    if last is None or last.rollout != name:
        take_place(ledger, last.number + 1 if last else 1, name)
    ledger.put_once(rollout_key(name, "rollout"), json.dumps(rollout.wire(), sort_keys=True).encode())
    written = ledger.get_json(rollout_key(name, "rollout"))
    state = {
        "rollout": name,
        "cluster": config.cluster.name,
        "fromPlan": written.get("fromPlan"),
        "toPlan": written["toPlan"],
        "deadline": written["deadline"],
    }
    return {"started": executions.start(name, state), "execution": name}


def _say_that_it_waits(ledger: Ledger, holder: str, plan: str, now: str) -> None:
    """For the page of the rollout that is on: whoever looks at it sees that something newer waits."""
    record = PlanWaits(rollout=holder, plan=plan, at=now)
    key = rollout_key(holder, f"waiting/{plan[7:]}")
    ledger.put_once(key, json.dumps(record.wire(), sort_keys=True).encode())


def _active(ledger: Ledger, coordination: Coordination, plan: str) -> ActivePlan:
    """The active plan. Wanted once more while the cluster differs from it, it is applied whole again."""
    active = active_plan(ledger)
    return replace(active, is_whole=False) if active.digest == plan and is_drifted(coordination) else active


def _approved(ledger: Ledger, name: str, active: ActivePlan, now: datetime) -> _Approved | None:
    """The approval of the rollout before, when the same transition starts from the same place.

    Its deadline comes with it: the digest that people approved covers it. Should the report differ after
    all, people are asked again until that deadline. An approval whose rollout succeeded is spent.
    """
    if ledger.get(rollout_key(name, "rollout")) is None:
        return None
    outcome = load_outcome(ledger, name)
    if outcome is not None and outcome.outcome is Outcome.Succeeded:
        return None
    before = load_rollout(ledger, name)
    decision = standing_decision(ledger, before)
    if (
        (before.from_plan, before.from_is_whole) != (active.digest, active.is_whole)
        or decision is None
        or decision.decision != "Approved"
        or parse_time(decision.expires_at) <= now
        or parse_time(before.deadline) <= now
        or load_revocation(ledger, name) is not None
    ):
        return None
    return _Approved(decision.rollout, before.deadline, decision.by)


def _fresh_name(ledger: Ledger, executions: Executions, cluster: str, plan: str, now: str) -> str:
    """The name of the next rollout to a plan. One that stalled on the way there makes room for it.

    So does one whose time is over and whose execution is not to be found: Step Functions forgets an
    execution after 90 days, and one that was never started would only expire.
    """
    number = next_number(ledger, cluster, plan)
    name = execution_name(cluster, plan, number)
    state = executions.state(name)
    if state == "running" or (state == "absent" and not _is_overdue(ledger, name, now)):
        return name
    _supersede(ledger, name, plan, now)
    return execution_name(cluster, plan, number + 1)


def _free_if_over(ledger: Ledger, coordination: Coordination, executions: Executions) -> None:
    """Free the lock of a rollout that stalled after its outcome was written: nobody else may come soon."""
    holder = coordination.lock_holder()
    if holder is not None and is_over(ledger, holder) and executions.state(holder) == "ended":
        coordination.drop_lock(holder)


def _is_overdue(ledger: Ledger, name: str, now: str) -> bool:
    if ledger.get(rollout_key(name, "rollout")) is None:
        return False
    return parse_time(load_rollout(ledger, name).deadline) <= parse_time(now)


def _leaves_room(detail: Mapping[str, Any], ledger: Ledger, plan: str) -> bool:
    """Whether the execution that stalled is a rollout to another plan than the one that is wanted by now.

    That plan waited for its end, which never came. On the way to the plan itself a redrive continues.
    """
    name = detail.get("rollout")
    if not name or ledger.get(rollout_key(str(name), "rollout")) is None:
        return False
    return load_rollout(ledger, str(name)).to_plan != plan


def _supersede(ledger: Ledger, holder: str, plan: str, now: str) -> None:
    """A rollout whose execution stopped without an end, and that a newer wish replaces, ends here.

    A redrive of it meets a closed gate.
    """
    message = f"rollout {holder} had stalled, and plan {plan} is wanted by now"
    outcome = end_of(ledger, holder, Reason.RolloutSuperseded, message, now)
    ledger.put_once(rollout_key(holder, "outcome"), json.dumps(outcome.wire(), sort_keys=True).encode())


def _claimed(ledger: Ledger, cause: str) -> str | None:
    found = ledger.get_json(cause)
    return str(found["rollout"]) if found else None
