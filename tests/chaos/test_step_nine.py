"""What arrives in the middle of step 9 of 17: a revocation, the deadline, a pause, a newer plan, a deleted
runtime. Eight releases are ready by then, the ninth is in flight, and eight were never touched."""

import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

import pytest
from aicr_pipeline.clock import rfc3339
from aicr_pipeline.model.runtime import RUNTIME_KEY

from local.kube import APPLICATIONS
from local.registry import LocalRegistry
from tests.chaos.services import registry
from tests.chaos.test_waiting import RELEASES, WHOLE
from tests.chaos.wired import world
from tests.chaos.world import INBOX, LEDGER, World
from tests.unit.samples import plan, runtime_text

pytestmark = [pytest.mark.timeout(120), pytest.mark.xdist_group("chaos")]

NAMES = [found.name for found in RELEASES]
NEWER = plan(*RELEASES, **{"validation": "Disabled", "recipe": "a-newer-recipe"})


@pytest.fixture(scope="module")
def network() -> Iterator[LocalRegistry]:
    with registry() as found:
        yield found


def in_step_nine(made: World) -> None:
    """Until Argo CD works on the ninth release, which takes long."""
    made.slow = {NAMES[8]: 1e9}
    made.submit()

    def runs(there: World) -> bool:
        found = there.store.find(APPLICATIONS, NAMES[8], "argocd") or {}
        return ((found.get("status") or {}).get("operationState") or {}).get("phase") == "Running"

    made.settle(runs)
    assert runs(made) and made.last().status == "RUNNING"


def revoked(made: World) -> None:
    name = made.last().name
    revocation = {
        "rollout": name, "by": "alex", "identity": "link", "issuer": "aicr-pipeline",
        "reason": "not tonight", "at": rfc3339(made.now),
    }  # fmt: skip
    key = f"rollouts/{name}/revocation.json"
    made.s3.put_object(Bucket=LEDGER, Key=key, Body=json.dumps(revocation).encode())
    made.queue("sweep_waiters", {"detail": {"object": {"key": key}}})


def overdue(made: World) -> None:
    made.now += timedelta(hours=25)


def deleted(made: World) -> None:
    made.s3.delete_object(Bucket=INBOX, Key=RUNTIME_KEY)


@pytest.mark.parametrize(
    ("arrives", "reason", "words", "ninth_becomes_ready"),
    [
        (revoked, "RolloutRevoked", "not tonight", True),
        (overdue, "RolloutExpired", NAMES[8], False),
        (deleted, "Deleting", "", True),
    ],
    ids=["revoked", "overdue", "deleted"],
)
def test_it_ends_with_what_is_installed_and_what_is_not(
    network: LocalRegistry,
    arrives: Callable[[World], None],
    reason: str,
    words: str,
    ninth_becomes_ready: bool,
) -> None:
    with world(network, WHOLE) as made:
        in_step_nine(made)
        arrives(made)
        if ninth_becomes_ready:
            made.slow = {}
        made.settle()
        assert (made.last().status, made.last().error) == ("FAILED", reason), made.last().cause
        outcome = made.json(f"rollouts/{made.last().name}/outcome.json")
        assert outcome["reason"] == reason
        assert words in outcome["message"]
        ready = 9 if ninth_becomes_ready else 8
        assert (outcome["installed"], outcome["notInstalled"]) == (NAMES[:ready], NAMES[ready:])
        assert sorted(made.applications()) == NAMES[:9], "nothing after the ninth was written"
        assert max(made.operations.values()) == 1
        assert made.rows("LOCK") == []


def test_a_pause_holds_the_tenth_and_its_end_lets_it_go(network: LocalRegistry) -> None:
    with world(network, WHOLE) as made:
        in_step_nine(made)
        made.s3.put_object(Bucket=INBOX, Key=RUNTIME_KEY, Body=runtime_text(paused=True))
        made.slow = {}

        def an_hour(there: World) -> bool:
            return there.last().entered[-1] == "Hold step" and (there.now - since) > timedelta(hours=1)

        since = made.now
        made.settle(an_hour)
        assert made.last().entered[-1] == "Hold step"
        assert sorted(made.applications()) == NAMES[:9]
        made.s3.put_object(Bucket=INBOX, Key=RUNTIME_KEY, Body=runtime_text())
        made.settle()
        assert made.last().status == "SUCCEEDED", made.last().cause
        assert max(made.operations.values()) == 1


def test_a_newer_plan_waits_until_the_seventeenth_is_ready(network: LocalRegistry) -> None:
    with world(network, WHOLE) as made:
        in_step_nine(made)
        first = made.last()
        body = json.dumps(NEWER.wire()).encode()
        made.s3.put_object(Bucket=LEDGER, Key=f"plans/{NEWER.desired_state_digest[7:]}.json", Body=body)
        made.plan = NEWER
        made.submit()
        made.slow = {}
        made.settle()
        assert first.status == "SUCCEEDED", first.cause
        assert made.json(f"rollouts/{first.name}/rollout.json")["toPlan"] == WHOLE.desired_state_digest
        second: Any = made.last()
        assert (second is not first, second.status) == (True, "SUCCEEDED"), second.cause
        assert made.json(f"rollouts/{second.name}/rollout.json")["fromPlan"] == WHOLE.desired_state_digest
