"""The evidence of a ledger, newest first, each statement verified against pinned keys and its own plan.

A statement counts only as the one of a rollout that succeeded: not one that nothing points at, which a run
that died leaves behind, and not one of a rollout that somebody stopped or that ended otherwise.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from aicr_pipeline.adapters.ledger import LedgerReader
from aicr_pipeline.adapters.order import newest_first
from aicr_pipeline.decide.canonical import sha256
from aicr_pipeline.decide.dsse import as_der, fingerprint, read_key
from aicr_pipeline.decide.qualification import Left, Proven
from aicr_pipeline.decide.snapshot import Snapshot, read_snapshot
from aicr_pipeline.decide.verify import INCOMPLETE, INVALID, Verdict, verify
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.plan import plan_key
from aicr_pipeline.model.rollout import Outcome, rollout_key

FOLDER = "evidence/"
#: Rollouts whose evidence is looked at in any case, so that what does not count is named with its cause.
LOOKED_AT = 100
_KEY = re.compile(r"evidence/([a-z0-9-]+)/([0-9A-Za-z_-]+)/([0-9a-f]{64})\.intoto\.json")
#: Beside the rollouts: public keys that signed, for convenience; what is trusted is named by who asks.
_KEYS = ("keys", "aicr-keys")
_SNAPSHOT = re.compile(r"(?:rollouts|resolves)/[^/]+/snapshot\.yaml")


@dataclass(frozen=True)
class Evidence:
    """What was looked at: what verified, and what did not and why. ``older`` rollouts' was not."""

    proven: list[Proven]
    left: list[Left]
    older: int


def read_evidence(
    ledger: LedgerReader, keys: Sequence[bytes], is_enough: Callable[[Sequence[Proven]], bool]
) -> Evidence:
    """The envelopes under ``evidence/``, those of the rollout that began last first.

    Parameters
    ----------
    keys:
        The public keys that are trusted, PEM or DER.
    is_enough:
        Whether anything older changes nothing, by what verified so far. Asked after ``LOOKED_AT`` rollouts.
    """
    proven: list[Proven] = []
    left: list[Left] = []

    def look(prefix: str) -> None:
        for key, _ in ledger.keys(prefix):
            found = _look(ledger, key, keys)
            if isinstance(found, Proven):
                proven.append(found)
            else:
                left.append(found)

    rollouts: dict[str, list[str]] = {}
    for cluster in clusters(ledger):
        for found in ledger.level(f"{FOLDER}{cluster}/"):
            name = found.split("/")[2]
            if not found.endswith("/"):
                look(found)
            elif name not in _KEYS:
                rollouts.setdefault(name, []).append(found)
    for looked, name in enumerate(_newest_of(rollouts, ledger)):
        if looked >= LOOKED_AT and is_enough(proven):
            break
        for folder in rollouts.pop(name):
            look(folder)
    return Evidence(proven, left, len(rollouts))


def _newest_of(rollouts: Collection[str], ledger: LedgerReader) -> Iterator[str]:
    """Those of ``rollouts`` that are left, the one that began last first; then any that never began."""
    for name in newest_first(ledger):
        if not rollouts:
            return
        if name in rollouts:
            yield name
    yield from list(rollouts)


def clusters(ledger: LedgerReader) -> list[str]:
    """Of which clusters there is evidence: a ledger is of one."""
    return [found.split("/")[1] for found in ledger.level(FOLDER) if found.endswith("/")]


def pinned_key(ledger: LedgerReader, mark: str) -> bytes | None:
    """The public key of a fingerprint, DER, as the ledger keeps it; None when it is not there or another."""
    for cluster in clusters(ledger):
        text = ledger.get(f"{FOLDER}{cluster}/keys/{mark}.pem")
        if text is not None:
            try:
                der = as_der(read_key(text))
            except ValueError:
                return None
            return der if fingerprint(der) == mark else None
    return None


def newest_snapshot(ledger: LedgerReader) -> Snapshot | None:
    """What the cluster was seen to be last, by a resolve or after an install; None when nobody can say."""
    found = [
        (datetime.fromisoformat(written), key)
        for key, written in (*_newest_of_each_runtime(ledger), *_newest_after_an_install(ledger))
        if _SNAPSHOT.fullmatch(key)
    ]
    text = ledger.get(max(found)[1]) if found else None
    try:
        return None if text is None else read_snapshot(text)
    except PipelineError:
        return None


def _newest_of_each_runtime(ledger: LedgerReader) -> Iterator[tuple[str, str]]:
    """Key and time of the last snapshot of each runtime's runs, which are named by their times."""
    runs: dict[str, list[str]] = {}
    for folder in ledger.level("resolves/"):
        runs.setdefault(folder.rpartition("-")[0], []).append(folder)
    for folders in runs.values():
        snapshots = (list(ledger.keys(f"{folder}snapshot.yaml")) for folder in reversed(folders))
        yield from next((found for found in snapshots if found), [])


def _newest_after_an_install(ledger: LedgerReader) -> list[tuple[str, str]]:
    """Key and time of the snapshot of the last rollout that took one."""
    for name in newest_first(ledger):
        if found := list(ledger.keys(f"rollouts/{name}/snapshot.yaml")):
            return found
    return []


def _look(ledger: LedgerReader, key: str, keys: Sequence[bytes]) -> Proven | Left:
    name = _KEY.fullmatch(key)
    if name is None:
        return Left(key, "its key is not one of evidence")
    envelope = ledger.get(key)
    if envelope is None or sha256(envelope) != f"sha256:{name[3]}":
        return Left(key, "it does not verify: its content is not what its key says")
    verdicts = [_verdict(ledger, envelope, public) for public in keys]
    verdict = min(verdicts, key=lambda one: (one.code == INVALID, one.code))
    if verdict.code == INVALID:
        checks = [next(check for check in one.checks if check.ok is False) for one in verdicts]
        # With several keys the one that got furthest says it.
        failed = next((check for check in checks if check.name != "signature"), checks[0])
        return Left(key, f"it does not verify: {failed.name}: {failed.detail}")
    binding = verdict.binding
    if verdict.code == INCOMPLETE or binding is None:
        return Left(key, "its plan is not in what was read, so what it is about was not seen")
    if (binding.cluster, binding.rollout.name) != (name[1], name[2]):
        return Left(key, "it is of another cluster or rollout than its key says")
    unfit = _unfit(ledger, key, name[2])
    return Proven(key, binding) if unfit is None else Left(key, unfit)


def _unfit(ledger: LedgerReader, key: str, rollout: str) -> str | None:
    """Why it is not the evidence of a rollout that succeeded; None when it is."""
    pointer = _record(ledger, rollout_key(rollout, "binding"))
    if pointer is None or pointer.get("key") != key:
        return "it is not its rollout's evidence: binding.json does not name it"
    if ledger.get(rollout_key(rollout, "revocation")) is not None:
        return "its rollout was stopped: revocation.json is there"
    outcome = _record(ledger, rollout_key(rollout, "outcome"))
    if outcome is None:
        return "its rollout has not ended: outcome.json cannot be read, or is not there"
    if outcome.get("outcome") != str(Outcome.Succeeded) or outcome.get("rollout") != rollout:
        return f"its rollout did not succeed: outcome.json says {str(outcome.get('outcome'))[:40]}"
    if outcome.get("evidence") != key:
        return "it is not its rollout's evidence: outcome.json names another"
    return None


def _record(ledger: LedgerReader, key: str) -> dict[str, Any] | None:
    text = ledger.get(key)
    try:
        found = None if text is None else json.loads(text)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None


def _verdict(ledger: LedgerReader, envelope: bytes, public: bytes) -> Verdict:
    first = verify(envelope, public, None, require_qualifying=False)
    if first.binding is None:
        return first
    plan = ledger.get(plan_key(first.binding.plan.digest))
    return first if plan is None else verify(envelope, public, plan, require_qualifying=False)
