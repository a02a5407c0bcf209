"""What years of rollouts cost: a look takes the same requests after 3,000 rollouts as after 80."""

from __future__ import annotations

import io
import json
from bisect import bisect_left, bisect_right, insort
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import cache
from typing import Any

from aicr_pipeline.actions.operators_desk import MOST_LISTED, Caller, Desk
from aicr_pipeline.actions.serve_operators import list_rollouts
from aicr_pipeline.adapters.evidence_reader import LOOKED_AT, newest_snapshot, read_evidence
from aicr_pipeline.adapters.ledger import Ledger
from aicr_pipeline.adapters.lookup import what_there_is
from aicr_pipeline.adapters.order import place_key
from aicr_pipeline.adapters.rollouts import active_plan, next_number
from aicr_pipeline.decide.assess import assess
from aicr_pipeline.decide.names import execution_name
from aicr_pipeline.model.plan import plan_key
from aicr_pipeline.model.rollout import rollout_key
from aicr_pipeline.model.status import ConditionType

from tests.functional.actions.starting import announce, lose_the_table, name, start
from tests.functional.actions.support import BEGAN, PLAN, Place, aws_error
from tests.functional.actions.test_action_status import Looks, install, resolved
from tests.unit.samples import plan, sha

FEW, MANY = 80, 3000
NEWER, NEWEST = plan(**{"recipe": "newer"}), plan(**{"recipe": "newest"})
#: Of each rollout, beside its record and its outcome.
OTHERS = ("told.json", *(f"steps/{n:04}.json" for n in range(27)))


class CountedS3:
    """A bucket in memory that answers in pages as S3 does. Counts requests, and keys that were listed."""

    def __init__(self, objects: Mapping[str, bytes]) -> None:
        self.objects = dict(objects)
        self.keys = sorted(self.objects)
        self.said: Counter[str] = Counter()

    def put_object(self, *, Key: str, Body: bytes, **_: Any) -> None:
        self.said["put"] += 1
        if Key in self.objects:
            raise aws_error("PreconditionFailed")
        self.objects[Key] = Body
        insort(self.keys, Key)

    def get_object(self, *, Key: str, **_: Any) -> dict[str, Any]:
        self.said["get"] += 1
        if Key not in self.objects:
            raise aws_error("NoSuchKey")
        return {"Body": io.BytesIO(self.objects[Key])}

    def list_objects_v2(
        self, *, Prefix: str, MaxKeys: int = 1000, Delimiter: str = "", StartAfter: str = "", **_: Any
    ) -> dict[str, Any]:
        found: list[str] = []
        at = max(bisect_left(self.keys, Prefix), bisect_right(self.keys, StartAfter))
        while at < len(self.keys) and self.keys[at].startswith(Prefix) and len(found) < MaxKeys:
            head, cut, _rest = self.keys[at][len(Prefix) :].partition(Delimiter or "\0")
            found.append(Prefix + head + cut)
            at = bisect_left(self.keys, f"{found[-1]}\U0010ffff") if cut else at + 1
        more = len(found) == MaxKeys and at < len(self.keys) and self.keys[at].startswith(Prefix)
        self.said["list"] += 1
        self.said["listed"] += len(found)
        return {
            "Contents": [{"Key": one, "LastModified": BEGAN} for one in found if one in self.objects],
            "CommonPrefixes": [{"Prefix": one} for one in found if one not in self.objects],
            "last": self.keys[at - 1] if more else None,
        }

    def get_paginator(self, _: str) -> CountedS3:
        return self

    def paginate(self, **asked: Any) -> Iterator[dict[str, Any]]:
        page = self.list_objects_v2(**asked)
        yield page
        while page["last"] is not None:
            page = self.list_objects_v2(**{**asked, "StartAfter": page["last"]})
            yield page


@cache
def history(size: int) -> Mapping[str, bytes]:
    """So many rollouts, each to a plan of its own; the last is to PLAN, and all succeeded."""
    record = {
        "cluster": "demo", "number": 1, "createdAt": "2026-01-01T10:00:00.000Z", "runtimeVersion": "v1",
        "deadline": "2026-01-02T10:00:00.000Z", "fromIsWhole": True, "submitter": "unknown",
    }  # fmt: skip
    end = {"reason": "RolledOut", "message": "m", "finishedAt": "2026-01-01T11:00:00.000Z"}
    made: dict[str, bytes] = {}
    for number in range(1, size + 1):
        digest = PLAN.desired_state_digest if number == size else sha(f"plan-{number}")
        rollout = execution_name("demo", digest, 1)
        made[place_key(number)] = json.dumps({"rollout": rollout}).encode()
        made[rollout_key(rollout, "rollout")] = json.dumps(
            {**record, "name": rollout, "toPlan": digest}
        ).encode()
        made[rollout_key(rollout, "outcome")] = json.dumps(
            {**end, "rollout": rollout, "outcome": "Succeeded"}
        ).encode()
        made |= {f"rollouts/{rollout}/{other}": b"{}" for other in OTHERS}
    assert len(made) == size * 31, "30 objects a rollout, and its place"
    for document in (PLAN, NEWER):
        made[plan_key(document.desired_state_digest)] = json.dumps(document.wire()).encode()
    return made


def cost(
    act: Callable[[Ledger, int], Any], change: Callable[[int], Mapping[str, Any]] = lambda _: {}
) -> dict[str, int]:
    """What ``act`` takes of S3 after many rollouts, which is what it takes after few.

    It is given the ledger and the number of rollouts; ``change`` is what is there beside them.
    """
    found = []
    for size in (FEW, MANY):
        s3 = CountedS3(history(size))
        for key, value in change(size).items():
            s3.put_object(Key=key, Body=json.dumps(value).encode())
        s3.said.clear()
        act(Ledger(s3, "ledger"), size)
        found.append(dict(s3.said))
    assert found[0] == found[1]
    return found[1]


def later(size: int, number: int, outcome: str | None) -> dict[str, Any]:
    """The ``number``-th rollout after a history, to NEWER; without an outcome it is on."""
    rollout = name(NEWER, number)
    made: dict[str, Any] = {place_key(size + number): {"rollout": rollout}}
    made[rollout_key(rollout, "rollout")] = {
        "name": rollout, "cluster": "demo", "number": number, "createdAt": "2026-01-01T10:00:00.000Z",
        "runtimeVersion": "v1", "deadline": "2026-01-02T10:00:00.000Z", "fromIsWhole": True,
        "toPlan": NEWER.desired_state_digest, "submitter": "unknown",
    }  # fmt: skip
    if outcome is not None:
        made[rollout_key(rollout, "outcome")] = {
            "rollout": rollout, "outcome": outcome, "reason": "RolloutFailed", "message": "m",
            "finishedAt": "2026-01-01T11:00:00.000Z",
        }  # fmt: skip
    return made


def test_the_bucket_in_memory_pages_as_s3_does(place: Place) -> None:
    """moto's answers are the measure, of every listing that the ledger makes."""
    keys = ["a/1", "a/2/x", "a/2/y", "a/3-x/z", "a/3/z", "a/4", "b"]
    for key in keys:
        place.ledger.put_once(key, b"")
    mine = Ledger(CountedS3(dict.fromkeys(keys, b"")), "ledger")
    for prefix in ("", "a/", "a/3", "none"):
        assert mine.first_key(prefix) == place.ledger.first_key(prefix), prefix
        assert [key for key, _ in mine.keys(prefix)] == [key for key, _ in place.ledger.keys(prefix)], prefix
        for after in ("", f"{prefix}0", f"{prefix}3"):
            assert mine.level(prefix, after) == place.ledger.level(prefix, after), (prefix, after)
    many = CountedS3({f"c/{number:04}/{key}": b"" for number in range(1100) for key in "xy"})
    assert len(Ledger(many, "ledger").level("c/")) == 1100
    assert many.said == {"list": 2, "listed": 1100}
    assert len(list(Ledger(many, "ledger").keys("c/"))) == 2200
    assert many.said == {"list": 2 + 3, "listed": 1100 + 2200}


def test_the_active_plan() -> None:
    def act(ledger: Ledger, _: int) -> None:
        found = active_plan(ledger)
        assert (found.digest, found.is_whole) == (PLAN.desired_state_digest, True)

    assert cost(act) == {"list": 1, "listed": 1, "get": 3}, "the newest place, its outcome, its record"


def test_the_active_plan_after_rollouts_that_failed_and_one_that_is_on() -> None:
    def act(ledger: Ledger, _: int) -> None:
        assert active_plan(ledger).digest == PLAN.desired_state_digest

    def change(size: int) -> dict[str, Any]:
        return later(size, 1, "Failed") | later(size, 2, "Expired") | later(size, 3, None)

    # Four places and what their rollouts came to, the record of the last; whether two began a step.
    assert cost(act, change) == {"list": 3, "listed": 1, "get": 9}


def test_what_people_are_told_there_is() -> None:
    def act(ledger: Ledger, _: int) -> None:
        assert f"the newest first: {name(PLAN)}, " in what_there_is(ledger)

    assert cost(act) == {"list": 2, "listed": 1 + 2, "get": 5}, "five names, and two plans"


def test_the_list_of_operators(place: Place) -> None:
    def act(ledger: Ledger, size: int) -> None:
        desk = Desk(place.config, ledger, place.inbox, place.clock)
        reply = list_rollouts(Caller("arn:aws:iam::111122223333:user/kim", "AIDA"), desk)
        listed = [one["rollout"] for one in reply.body["rollouts"]]
        assert (listed[0], len(listed)) == (name(PLAN), MOST_LISTED)
        assert reply.body["more"] == size - MOST_LISTED

    # Twenty places, the newest for its number, too; of each rollout the record twice, and six others.
    assert cost(act) == {"list": 2, "listed": 2, "get": 1 + 20 + 20 * 8}


def test_the_status_where_a_schedule_resolves_each_hour(place: Place) -> None:
    """Beside the rollouts there are many runs for one runtime, each with objects of its own."""
    version = resolved(place)
    ended = {key: place.ledger.get(key) for key in place.ledger_keys("resolves/")}
    (told_key,) = [key for key in ended if key.endswith("/told.json")]
    told = json.loads(ended[told_key] or b"")
    install(place)

    def change(size: int) -> dict[str, Any]:
        made: dict[str, Any] = {told_key: told}
        for hours in range(1, size):
            slot = int(f"{place.now - timedelta(hours=hours):%Y%m%d%H%M}")
            run = execution_name("demo", version, slot)
            made |= {f"resolves/{run}/charts/{chart:02}.json": {} for chart in range(8)}
            made[f"resolves/{run}/told.json"] = {**told, "run": run}
        report = json.loads(json.dumps(assess(None, PLAN, always_ask=True, from_is_whole=True).wire()))
        return made | {rollout_key(name(PLAN), "report"): report}

    def act(ledger: Ledger, _: int) -> None:
        place.ledger = ledger
        status = Looks(place)()
        assert status.condition(ConditionType.Ready).status == "True"
        assert status.condition(ConditionType.Resolved).status == "True"

    # The newest place twice, for what is on and for what is active, and that rollout's objects; that there is
    # any run, the names of those of two days and a half, and the objects of the newest.
    assert cost(act, change) == {"list": 6, "listed": 1 + 1 + 31 + 1 + 60 + 9, "get": 12}


def test_a_start_after_the_table_was_lost(place: Place) -> None:
    """The ledger alone knows that another rollout is on."""
    place.submit()

    def act(ledger: Ledger, _: int) -> None:
        place.ledger = ledger
        lose_the_table(place)
        place.sfn.executions = {name(NEWER): "ABORTED"}
        assert start(place, place.want(NEWEST)) == {"started": True, "execution": name(NEWEST)}
        assert place.ledger.get(rollout_key(name(NEWER), "outcome")) is not None

    # Listed is the newest place alone, before and after the other's end; put are that end, the cause, the
    # place and the record.
    assert cost(act, lambda size: later(size, 1, None)) == {"list": 6, "listed": 3, "get": 22, "put": 4}


def test_an_announcement(place: Place) -> None:
    version = place.submit()

    def act(ledger: Ledger, _: int) -> None:
        place.ledger = ledger
        place.want(PLAN)
        assert announce(place, version, run="run-2")["because"] == "the plan is active already"

    assert cost(act) == {"list": 1, "listed": 1, "get": 3}


def test_the_newest_snapshot_after_an_install() -> None:
    s3 = CountedS3(history(MANY))
    s3.put_object(Key=f"rollouts/{name(PLAN)}/snapshot.yaml", Body=b"no: snapshot")
    s3.said.clear()
    assert newest_snapshot(Ledger(s3, "ledger")) is None, "it is not one, and no older one takes its place"
    assert s3.said == {"list": 3, "listed": 2, "get": 2}, "of rollouts; and that there is no resolve"


def test_evidence_of_all_rollouts_of_which_the_newest_counts() -> None:
    """A person's command, which names what does not count; but not of years."""
    s3 = CountedS3(history(MANY))
    for number in range(1, MANY + 1):
        rollout = json.loads(s3.objects[place_key(number)])["rollout"]
        s3.put_object(Key=f"evidence/demo/{rollout}/{'0' * 64}.intoto.json", Body=b"{}")
    s3.said.clear()
    found = read_evidence(Ledger(s3, "ledger"), [b""], lambda _: True)
    assert (len(found.left), found.older) == (LOOKED_AT, MANY - LOOKED_AT)
    # The cluster, three pages of names, the newest place; a folder for each that was looked at.
    assert s3.said["list"] == 1 + 3 + 1 + LOOKED_AT
    # A place and an envelope each, and the place of the one after them.
    assert s3.said["get"] == 2 * LOOKED_AT + 1


def test_the_number_of_a_rollout_to_a_plan_that_had_many() -> None:
    for over in (0, 1, 2, 3, 7, 8, 500):
        numbers = range(1, over + 1)
        s3 = CountedS3({rollout_key(name(PLAN, number), "outcome"): b"{}" for number in numbers})
        assert next_number(Ledger(s3, "ledger"), "demo", PLAN.desired_state_digest) == over + 1
        assert s3.said["get"] <= 2 * (over + 1).bit_length()
        assert set(s3.said) == {"get"}
