"""Moto's server on a free loopback port, shielded from this machine's own AWS settings."""

from __future__ import annotations

import logging
import os
from collections.abc import Callable, Mapping
from functools import cache

from local.aws.patches import Patches

# No profile, credentials or metadata of this machine; None: not set at all.
_ISOLATED: dict[str, str | None] = {
    "AWS_CONFIG_FILE": os.devnull,
    "AWS_SHARED_CREDENTIALS_FILE": os.devnull,
    "AWS_EC2_METADATA_DISABLED": "true",
    "AWS_PROFILE": None,
    "AWS_DEFAULT_PROFILE": None,
    "MOTO_PORT": None,
}


def isolate_environment() -> Callable[[], None]:
    """Keeps this process's AWS settings away from boto3 and moto; returns what restores them."""
    before = {name: os.environ.get(name) for name in _ISOLATED}

    def write(values: Mapping[str, str | None]) -> None:
        for name, value in values.items():
            if value is None:
                os.environ.pop(name, None)
            else:
                os.environ[name] = value

    write(_ISOLATED)
    return lambda: write(before)


def isolated_settings() -> dict[str, str]:
    """What a child process needs for the same shielding."""
    return {name: value for name, value in _ISOLATED.items() if value is not None}


def remember(patches: Patches) -> None:
    """What moto looks up anew at every request, always with the same answer, is looked up once.

    Its own folders, for the service of a host; the methods of a response class, for those of an action.
    """
    from moto.core import responses, utils
    from moto.moto_server.werkzeug_app import DomainDispatcherApplication

    find = DomainDispatcherApplication.get_backend_for_host
    patches.replace(DomainDispatcherApplication, "get_backend_for_host", cache(find))
    patches.replace(responses, "method_names_from_class", cache(utils.method_names_from_class))


def start() -> tuple[str, Callable[[], None]]:
    """Starts moto with empty state; returns its endpoint and what ends it."""
    from moto.moto_api._internal.models import moto_api_backend
    from moto.server import ThreadedMotoServer

    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    # Every state that fails is an error line there, expected ones too; executions carry their own error.
    logging.getLogger("moto.stepfunctions").setLevel(logging.CRITICAL)
    moto_api_backend.reset()
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    os.environ["MOTO_PORT"] = str(port)  # the interpreter's own clients look here

    def stop() -> None:
        server.stop()
        if server._server is not None:
            server._server.server_close()
        moto_api_backend.reset()

    return f"http://{host}:{port}", stop
