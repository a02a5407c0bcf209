"""What the stand-in kubelet is told."""

from __future__ import annotations

import os
import shlex
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from local.aicr.chosen import BINARY, COMMANDS, command_line

_ROOT = Path(__file__).resolve().parents[2]
_PASSED = ("PATH", "LANG", "AICR_SAMPLE_BUNDLE", "AICR_SAMPLE_UPGRADES", BINARY, COMMANDS)


def default_commands() -> dict[str, tuple[str, ...]]:
    """What ``aicr`` is here: the stand-in, or where ``AICR_BIN`` names the real one, what chooses."""
    chosen = "local.aicr.chosen" if os.environ.get(BINARY) else "local.aicr"
    return {
        "aicr": (sys.executable, "-m", chosen),
        "aicr-validator": (sys.executable, "-m", "local.aicr.validator"),
    }


def entrypoint(image: str) -> str:
    """The command of a container that names none: what its image starts."""
    return "aicr-validator" if "/aicr-validators/" in image else "aicr"


def default_environment() -> dict[str, str]:
    """What every container sees of this process's environment, and where Python finds the stand-in."""
    passed = {name: os.environ[name] for name in _PASSED if name in os.environ}
    if binary := passed.get(BINARY):
        passed[BINARY] = shlex.join(command_line(binary))  # Jobs run in folders of their own
    return {**passed, "PYTHONPATH": str(_ROOT), "PYTHONDONTWRITEBYTECODE": "1", "PYTHONUNBUFFERED": "1"}


def default_token(namespace: str, service_account: str) -> str:
    """A token that says who it is, for an API server that is told how to read it."""
    return f"sa:{namespace}:{service_account}"


@dataclass(frozen=True)
class KubeletSettings:
    """Settings of the stand-in.

    Attributes
    ----------
    server
        URL of the API server, for the Pods' kubeconfigs.
    ca_pem
        CA that clients trust; empty for plain HTTP.
    token
        Namespace and name of a ServiceAccount -> the token its Pods get.
    images
        References or digests that can be pulled; None: every one.
    tags
        Repository of an image -> the digest that its tags stand for.
    commands
        First word of a container's command -> program and leading arguments.
    environment
        Variables that every container gets.
    """

    server: str
    ca_pem: str = ""
    token: Callable[[str, str], str] = default_token
    images: frozenset[str] | None = None
    tags: Mapping[str, str] = field(default_factory=dict)
    commands: Mapping[str, tuple[str, ...]] = field(default_factory=default_commands)
    environment: Mapping[str, str] = field(default_factory=default_environment)
