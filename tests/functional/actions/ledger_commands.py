"""A ledger with a rollout, and what a command says of it."""

from pathlib import Path
from typing import Any

from aicr_pipeline import describe
from aicr_pipeline.decide.canonical import sha256
from aicr_pipeline.model.rollout import rollout_key

from tests.functional.actions.support import ROLLOUT, Place
from tests.unit.samples import plan, release

ROOT = Path(describe.__file__).parents[4]
LAYER = Path(describe.__file__).parents[1]
OLD = plan(release("app", values={"replicas": 1}), release("gone"))
NEW = plan(release("app", values={"replicas": 2, "debug": True}), release("new"))
RUN = NEW.recorded.run
HEXES = NEW.desired_state_digest.removeprefix("sha256:")
EVIDENCE = b'{"payload": ""}'


class Printed(dict[str, Any]):
    """What a command said: ``code``, ``out``, ``err``."""

    def __getattr__(self, name: str) -> Any:
        return self[name]


def finish(place: Place, outcome: str = "Succeeded") -> None:
    """A rollout from OLD to NEW, approved, bound and over."""
    report = place.put_rollout(NEW, OLD)
    place.approve(report, reason="Bearer abcdef is fine\x1b[2J")
    key = f"evidence/demo/{ROLLOUT}/{sha256(EVIDENCE)[7:]}.intoto.json"
    place.ledger.put_once(key, EVIDENCE)
    binding = {"key": key, "fingerprint": "f" * 64, "qualifying": False}
    place.put_json(rollout_key(ROLLOUT, "binding"), binding)
    place.put_json(
        f"rollouts/{ROLLOUT}/stalls/1.json",
        {"execution": "arn", "status": "FAILED", "error": "Lambda.Unknown", "at": "2026-01-01T12:00:00Z"},
    )
    over: dict[str, Any] = {"outcome": outcome, "reason": "RolledOut", "message": "2 releases"}
    over |= {"notInstalled": ["begun", "new"], "unfinished": ["begun"]}
    place.put_json(
        rollout_key(ROLLOUT, "outcome"),
        {"rollout": ROLLOUT, "finishedAt": "2026-01-01T13:00:00.000Z", **over},
    )


def copied(place: Place, folder: Path) -> Path:
    """The ledger as ``make demo`` leaves it."""
    for key in place.ledger_keys():
        file = folder / "ledger" / key
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(place.ledger.get(key) or b"")
    return folder
