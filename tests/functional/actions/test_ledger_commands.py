"""describe against a ledger in S3, and against a folder with its objects."""

import json
import os
import pty
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from aicr_pipeline import describe, reproduce
from aicr_pipeline.adapters.lookup import load_records
from aicr_pipeline.model.plan import plan_key
from aicr_pipeline.model.rollout import rollout_key
from botocore.exceptions import EndpointConnectionError, NoCredentialsError

from tests.functional.actions.ledger_commands import HEXES, LAYER, NEW, OLD, copied, finish
from tests.functional.actions.support import LEDGER, ROLLOUT, Place, aws_error
from tests.unit.samples import sha


def test_the_active_plan(place: Place, call: Any) -> None:
    finish(place)
    said = call(describe, "--ledger", LEDGER)
    assert (said.code, said.err) == (0, "")
    assert f"plan        {NEW.desired_state_digest}  (the active plan)" in said.out
    document = json.loads(call(describe, "--ledger", LEDGER, "--json").out)
    assert (document["plan"]["active"], document["plan"]["whole"]) == (True, True)
    assert document["comparison"] is None
    assert [(one["order"], one["name"]) for one in document["plan"]["releases"]] == [(1, "app"), (2, "new")]
    assert "values" not in document["plan"]["releases"][0]


def test_no_plan_is_active_before_the_first_success(place: Place, call: Any) -> None:
    finish(place, "Failed")
    said = call(describe, "--ledger", LEDGER)
    assert (said.code, said.out) == (1, "")
    assert "refused: NoActivePlan" in said.err
    assert json.loads(call(describe, "--ledger", LEDGER, "--json").out)["reason"] == "NoActivePlan"


def test_a_rollout_with_all_its_records(place: Place, call: Any) -> None:
    finish(place)
    said = call(describe, ROLLOUT, "--ledger", LEDGER)
    assert said.code == 0
    for words in (
        f"rollout     {ROLLOUT} of cluster demo", "Succeeded (RolledOut)",
        "not seen ready: begun", "not installed: new",
        "Approved by alex (link)", "because     Bearer [redacted]", "Lambda.Unknown", "signed by key ffff",
        f"evidence/demo/{ROLLOUT}/", "  values: debug: true  (new)", "  values: replicas: 1 -> 2",
        "Install     new", "Remove      gone", "so it stays installed",
    ):  # fmt: skip
        assert words in said.out, words
    assert "\x1b" not in said.out
    document = json.loads(call(describe, ROLLOUT, "--ledger", LEDGER, "--json").out)
    assert document["rollout"]["outcome"]["outcome"] == "Succeeded"
    assert document["rollout"]["stalls"][0]["status"] == "FAILED"
    assert document["comparison"]["from"] == OLD.desired_state_digest
    assert {one["release"]: one["action"] for one in document["comparison"]["releases"]} == {
        "app": "Reconfigure", "new": "Install", "gone": "Remove",
    }  # fmt: skip
    assert [step.action for step in load_records(place.ledger, ROLLOUT).report.steps] == [  # type: ignore[union-attr]
        "Reconfigure",
        "Install",
    ]


def test_a_rollout_that_has_only_begun(place: Place, call: Any) -> None:
    place.start_rollout(NEW)
    said = call(describe, ROLLOUT, "--ledger", LEDGER)
    assert said.code == 0
    for words in ("outcome     none yet", "not assessed yet", "against     nothing: a first install"):
        assert words in said.out


def test_against_another_plan_by_a_part_of_its_digest(place: Place, call: Any) -> None:
    place.put_plan(OLD)
    place.put_plan(NEW)
    old = OLD.desired_state_digest[:18]
    said = call(describe, HEXES[:8], "--against", old, "--ledger", LEDGER, "--json")
    assert json.loads(said.out)["comparison"]["from"] == OLD.desired_state_digest


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("12345678", "No plan in the ledger begins with 12345678"),
        ("sha256:" + "0" * 64, "is not in the ledger. Restore the object's version, or submit the runtime"),
        ("demo-00000000-1", "Rollout demo-00000000-1 is not in the ledger"),
        ("../plans/x", "no file, no plan's digest"),
        ("sha256:12", "neither a file nor a plan's digest"),
    ],
)
def test_what_is_not_there(call: Any, name: str, words: str) -> None:
    said = call(describe, name, "--ledger", LEDGER)
    assert (said.code, said.out) == (1, "")
    assert words in said.err


def test_two_plans_with_one_beginning_are_not_guessed(place: Place, call: Any) -> None:
    for end in "01":
        place.put_json(f"plans/abcdef01{end * 56}.json", {})
    said = call(describe, "abcdef01", "--ledger", LEDGER)
    assert (said.code, "2 plans begin with abcdef01" in said.err) == (1, True)


def test_a_plan_that_was_changed_is_not_told(place: Place, call: Any) -> None:
    wire = NEW.wire()
    wire["desiredState"]["releases"][0]["values"]["replicas"] = 3
    place.put_json(plan_key(NEW.desired_state_digest), wire)
    said = call(describe, HEXES, "--ledger", LEDGER)
    assert (said.code, said.out) == (1, "")
    assert "PlanUnreadable" in said.err and "was changed after it was written" in said.err


@pytest.mark.parametrize(
    ("document", "change", "words"),
    [
        ("report", {"toPlan": sha("other")}, "its report is of other plans"),
        ("report", {"approvalNeeded": False}, "what was asked is not its report"),
        ("decision", {"requestDigest": sha("other")}, "what was decided is not what was asked"),
        ("outcome", {"rollout": "other"}, "one of its records is of another rollout"),
        ("binding", {"key": "evidence/demo/other/x"}, "its binding names no evidence of its own"),
    ],
)
def test_records_that_do_not_fit_each_other(
    place: Place, tmp_path: Path, call: Any, document: str, change: dict[str, Any], words: str
) -> None:
    finish(place)
    folder = copied(place, tmp_path)
    file = folder / "ledger" / rollout_key(ROLLOUT, document)
    file.write_text(json.dumps(json.loads(file.read_bytes()) | change))
    said = call(describe, ROLLOUT, "--from", folder)
    assert (said.code, said.out) == (1, "")
    assert words in said.err


def test_a_folder_says_the_same_as_the_bucket(place: Place, tmp_path: Path, call: Any) -> None:
    finish(place)
    folder = copied(place, tmp_path)
    for name in ("", ROLLOUT, HEXES):
        names = [name] if name else []
        there = call(describe, *names, "--ledger", LEDGER, "--json")
        assert call(describe, *names, "--from", folder, "--json") == there
        assert call(describe, *names, "--from", folder / "ledger", "--json") == there


def test_the_active_plan_of_a_folder_is_by_the_order_of_the_rollouts(
    place: Place, tmp_path: Path, call: Any
) -> None:
    """``cp -r`` and a checkout lose the times of files."""
    finish(place)
    later = {"rollout": "demo-later-1", "outcome": "Succeeded", "reason": "RolledOut", "message": "x"}
    place.put_json(
        rollout_key("demo-later-1", "outcome"), {**later, "finishedAt": "2026-01-02T00:00:00.000Z"}
    )
    begun = json.loads(place.ledger.get(rollout_key(ROLLOUT, "rollout")) or b"")
    place.begin(begun | {"name": "demo-later-1", "toPlan": OLD.desired_state_digest})
    folder = copied(place, tmp_path)
    os.utime(folder / "ledger" / rollout_key(ROLLOUT, "outcome"), (4_000_000_000, 4_000_000_000))
    said = json.loads(call(describe, "--from", folder, "--json").out)
    assert said["plan"]["digest"] == OLD.desired_state_digest


@pytest.mark.parametrize(
    ("command", "arguments", "words"),
    [
        (describe, [], "name the ledger"),
        (describe, ["--ledger", "Not A Bucket"], "not the name of a bucket"),
        (describe, ["--from", "/nowhere"], "is no folder with the ledger's"),
        (describe, ["--ledger", "b", "--from", "/tmp"], "not allowed with"),
        (reproduce, ["12345678", "--ledger", "bucket"], "--dir DIR, --bundle DIR, or both"),
        (reproduce, ["12345678", "--dir", "/tmp/new"], "name the ledger"),
        (reproduce, ["12345678", "--bundle", "/nowhere", "--ledger", "bucket"], "--bundle is no folder"),
        (reproduce, ["12345678", "--dir", "/usr", "--ledger", "bucket"], "not empty"),
        (reproduce, ["12345678", "--dir", "/tmp/new", "--image", "a/b:tag"], "--image is not"),
    ],
)
def test_command_lines_that_are_not_understood(call: Any, command: Any, arguments: Any, words: str) -> None:
    said = call(command, *arguments)
    assert (said.code, said.out) == (2, "")
    assert words in said.err


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (aws_error("AccessDenied"), 1, "S3 answered AccessDenied"),
        (NoCredentialsError(), 1, "NoCredentialsError; check AWS_PROFILE"),
        (EndpointConnectionError(endpoint_url="https://x"), 3, "AWS cannot be reached"),
        (KeyError("never seen"), 1, "Stopped unexpectedly (KeyError)"),
    ],
)
def test_what_aws_says_is_a_sentence(
    place: Place, call: Any, monkeypatch: pytest.MonkeyPatch, error: Exception, code: int, words: str
) -> None:
    class Failing:
        def get_object(self, **_: Any) -> None:
            raise error

    monkeypatch.setattr(place, "s3", Failing())
    said = call(describe, HEXES, "--ledger", LEDGER)
    assert (said.code, words in said.err) == (code, True), said.err
    assert call(reproduce, HEXES, "--ledger", LEDGER, "--bundle", "/usr").code == 2


def test_real_process_on_a_terminal_and_in_a_pipe(place: Place, tmp_path: Path) -> None:
    finish(place)
    copied(place, tmp_path)
    line = [sys.executable, "-m", "aicr_pipeline.describe", ROLLOUT, "--from", "."]
    settings: dict[str, Any] = {"cwd": tmp_path, "env": {"PYTHONPATH": str(LAYER), "COLUMNS": "200"}}
    piped = subprocess.run(line, capture_output=True, text=True, timeout=60, check=True, **settings)
    assert NEW.desired_state.releases[0].chart.manifest_digest in piped.stdout
    ours, theirs = pty.openpty()
    done = subprocess.run(line, stdout=theirs, timeout=60, check=True, **settings)
    os.close(theirs)
    told = b""
    while chunk := _read(ours):
        told += chunk
    os.close(ours)
    assert done.returncode == 0
    lines = told.decode().replace("\r", "").splitlines()
    # Only the key of the evidence is never cut: people copy it.
    assert max(len(line) for line in lines if "evidence/" not in line) <= 110
    assert NEW.desired_state.releases[0].chart.manifest_digest not in told.decode()


def _read(terminal: int) -> bytes:
    try:
        return os.read(terminal, 65536)
    except OSError:  # Linux says so when the other side is closed
        return b""
