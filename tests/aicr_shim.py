"""An ``aicr`` for tests: writes down its calls, breaks as it is told to, else is the stand-in.

``AICR_BIN="python tests/aicr_shim.py FOLDER"``. The first line of ``FOLDER/<command>.faults`` is this call's
fault, and goes with it: an exit code, ``wrong password``, ``no password``, or nothing.
"""

import json
import os
import sys
from pathlib import Path


def main(folder: Path, arguments: list[str]) -> int:
    """Returns the exit code."""
    with (folder / "calls.jsonl").open("a") as calls:
        calls.write(json.dumps(arguments) + "\n")
    fault = _next_fault(folder / f"{arguments[0].strip('-')}.faults")
    if fault.isdecimal():
        print(f"[cli] command failed: broken on purpose with {fault}, token=not-for-people", file=sys.stderr)
        return int(fault)
    if fault:
        _spoil_login(folder, fault)
    sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
    from local.aicr.__main__ import main as standin

    return standin(arguments)


def _next_fault(file: Path) -> str:
    if not file.is_file():
        return ""
    first, *rest = file.read_text().splitlines() or [""]
    file.write_text("\n".join(rest))
    return first


def _spoil_login(folder: Path, fault: str) -> None:
    """What the registry really answers to another password, or to none."""
    given = json.loads((Path(os.environ["DOCKER_CONFIG"]) / "config.json").read_text())
    wrong = {host: {"auth": "QVdTOndyb25n"} for host in given["auths"]}
    login = folder / "login"
    login.mkdir(exist_ok=True)
    auths = wrong if fault == "wrong password" else {}
    (login / "config.json").write_text(json.dumps({"auths": auths}))
    os.environ["DOCKER_CONFIG"] = str(login)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), sys.argv[2:]))
