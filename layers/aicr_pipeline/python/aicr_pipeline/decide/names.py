"""Derived names: nothing here is random, so an action that runs twice names the same thing twice."""

import hashlib
import re

_EXECUTION = re.compile(r"^[0-9A-Za-z_-]{1,80}$")


def execution_name(cluster: str, identity: str, number: int) -> str:
    """``<cluster, at most 40>-<first 8 of the identity's SHA-256>-<number>``.

    Step Functions takes ``[0-9A-Za-z-_]``, at most 80 characters, and keeps a closed name for 90 days.
    ``identity`` is what the execution is for; a digest ``sha256:<hex>`` stands for itself.
    """
    hexes = identity.removeprefix("sha256:")
    if hexes == identity:
        hexes = hashlib.sha256(identity.encode()).hexdigest()
    name = f"{cluster[:40]}-{hexes[:8]}-{number}"
    if not _EXECUTION.match(name):
        raise ValueError(f"{name!r} is no execution name")
    return name


def job_name(run: str, purpose: str, attempt: int) -> str:
    """A Job's name, at most 63 characters: the run is cut, never the purpose.

    A run that is cut gets six hexes of its hash, since what tells two runs apart is their end.
    """
    tail = f"-{purpose}-{attempt}"
    return _short(run.lower().replace("_", "-"), run, 63 - len(tail)) + tail


def run_label(run: str) -> str:
    """A run as the value of a label, at most 63 characters; differs for two runs."""
    return _short(run, run, 63)


def _short(text: str, identity: str, most: int) -> str:
    if len(text) > most:
        text = f"{text[: most - 7].strip('-_')}-{hashlib.sha256(identity.encode()).hexdigest()[:6]}"
    return text.strip("-_")


def request_id(rollout: str, index: int, release: str) -> str:
    """Identifies our operation on one Application; carried in ``operation.info``."""
    return f"{rollout}/{index:03d}-{release}"


def short_name(rollout: str) -> str:
    """What a person types to show a deliberate act: the rollout's last two parts."""
    return "-".join(rollout.split("-")[-2:])
