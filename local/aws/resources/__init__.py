"""One module per group of services; importing them registers what they create."""

import importlib

_MODULES = ("storage", "messaging", "compute", "workflow", "recorded")


def register() -> None:
    for name in _MODULES:
        importlib.import_module(f"local.aws.resources.{name}")
