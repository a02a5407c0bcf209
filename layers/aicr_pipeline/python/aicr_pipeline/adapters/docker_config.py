"""User and password for a registry from the files that ``docker login`` and ``helm registry login`` write.

For the command line only; functions get theirs from AWS. Programs are never run: a host whose password
sits with a credential helper is refused.
"""

import base64
import binascii
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from aicr_pipeline.adapters.registry_auth import FixedCredentials
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason

_MAX_FILE = 1024 * 1024
#: Docker Hub's names: Docker files it under the second, its API answers under the third.
_HUB = ("docker.io", "index.docker.io", "registry-1.docker.io")
#: What follows a host in a key and still means the whole host.
_WHOLE_HOST = ("", "/v1", "/v2")


def config_files(environment: Mapping[str, str]) -> tuple[Path, ...]:
    """The files to look in, the first that knows a host wins.

    Parameters
    ----------
    environment:
        ``HELM_REGISTRY_CONFIG`` names helm's file, ``DOCKER_CONFIG`` the folder of Docker's; without the
        latter it is ``~/.docker``.
    """
    helm, docker = environment.get("HELM_REGISTRY_CONFIG"), environment.get("DOCKER_CONFIG")
    home = environment.get("HOME")
    files = [Path(helm)] if helm else []
    if docker or home:
        files.append(Path(docker or f"{home}/.docker", "config.json"))
    return tuple(files)


def find_credentials(host: str, files: tuple[Path, ...]) -> FixedCredentials | None:
    """The pair for a host, or None when no file knows it.

    Parameters
    ----------
    host:
        ``host`` or ``host:port``, as a reference has it.
    files:
        As ``config_files`` gives them; a missing one knows nobody.

    Raises
    ------
    PipelineError
        ``RegistryCredentialsUnavailable`` for a file that is not as Docker documents it, and for what
        cannot be used from a file: a credential helper, an identity token. Nothing of the content is quoted.
    """
    for file in files:
        config = _read(file)
        if config is not None:
            found = _of_host(config, host, file)
            if found:
                return found
    return None


def _read(file: Path) -> dict[str, Any] | None:
    try:
        with file.open("rb") as opened:
            content = opened.read(_MAX_FILE + 1)
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise _refused(file, f"it cannot be read ({type(error).__name__})") from None
    if len(content) > _MAX_FILE:
        raise _refused(file, f"it is above {_MAX_FILE:,} bytes")
    try:
        # Docker takes an empty file for an empty configuration.
        config = json.loads(content) if content.strip() else {}
    except (ValueError, RecursionError):
        # The cause is left out: it may quote a password.
        raise _refused(file, "it is not JSON") from None
    if not isinstance(config, dict):
        raise _refused(file, "it is not a JSON object")
    return config


def _of_host(config: dict[str, Any], host: str, file: Path) -> FixedCredentials | None:
    helpers = _mapping(config, "credHelpers", file)
    if any(_means(key, host) for key in helpers):
        raise _helper(host, "credHelpers", file)
    entries = [entry for key, entry in _mapping(config, "auths", file).items() if _means(key, host)]
    for entry in entries:
        if not isinstance(entry, dict):
            raise _refused(file, f"the entry of {host} is not an object")
        found = _pair(entry, host, file)
        if found:
            return found
    # Docker leaves an empty entry for each host whose password it gave to the store.
    if entries and config.get("credsStore"):
        raise _helper(host, "credsStore", file)
    return None


def _mapping(config: dict[str, Any], key: str, file: Path) -> dict[str, Any]:
    found = config.get(key)
    if not isinstance(found, dict | None):
        raise _refused(file, f"its {key} is not an object")
    return found or {}


def _means(key: str, host: str) -> bool:
    """Whether a key of the file is that host: keys may carry a scheme and ``/v1/``, and no other path."""
    bare = key.partition("://")[2] or key
    name, slash, path = bare.partition("/")
    if f"{slash}{path}".rstrip("/") not in _WHOLE_HOST:
        return False
    return name == host or (name in _HUB and host in _HUB)


def _pair(entry: dict[str, Any], host: str, file: Path) -> FixedCredentials | None:
    for kind in ("identitytoken", "registrytoken"):
        if entry.get(kind):
            raise _refused(file, f"the entry of {host} holds an {kind}, which is not supported")
    user, password = entry.get("username"), entry.get("password")
    if entry.get("auth"):
        user, password = _decoded(entry["auth"], host, file)
    if user in (None, "") and password in (None, ""):
        return None
    if not isinstance(user, str) or not isinstance(password, str) or not user or not password:
        raise _refused(file, f"the entry of {host} has no user or no password")
    if ":" in user or not _encodable(user + password):
        raise _refused(file, f"the entry of {host} cannot be sent as HTTP's Basic scheme sends it")
    return FixedCredentials(user, password)


def _encodable(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:  # JSON can write half of a character
        return False
    return True


def _decoded(auth: Any, host: str, file: Path) -> tuple[str, str]:
    try:
        text = base64.b64decode(auth, validate=True).decode()
    except (binascii.Error, ValueError, TypeError):
        raise _refused(file, f"the auth of {host} is not base64 text") from None
    user, colon, password = text.partition(":")
    if not colon:
        raise _refused(file, f"the auth of {host} is not user:password")
    return user, password.strip("\0")  # as Docker reads it


def _helper(host: str, key: str, file: Path) -> PipelineError:
    return _refused(
        file,
        f"the password of {host} is with a credential helper ({key}), and this command runs no programs",
    )


def _refused(file: Path, problem: str) -> PipelineError:
    return PipelineError(
        Reason.RegistryCredentialsUnavailable,
        f"Reading registry credentials from {file}: {problem}; write user and password into a "
        "config.json of your own and name its folder in DOCKER_CONFIG.",
    )
