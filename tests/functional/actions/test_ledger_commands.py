"""describe and reproduce against a ledger in S3, and against a folder with its objects."""

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
from aicr_pipeline.decide.aicr_command import bundle_arguments, wish_of
from aicr_pipeline.decide.bundle import content_list
from aicr_pipeline.decide.canonical import sha256
from aicr_pipeline.decide.reproduce import rendering
from aicr_pipeline.model.plan import Plan, plan_key
from aicr_pipeline.model.rollout import rollout_key
from botocore.exceptions import EndpointConnectionError, NoCredentialsError

from tests.functional.actions.support import LEDGER, ROLLOUT, Place, aws_error
from tests.unit.samples import plan, release, runtime, runtime_text, sha
from tests.unit.test_bundle_captured import files as files_in
from tests.unit.test_reproduce import planned

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


@pytest.fixture
def call(place: Place, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Any:
    """Run a command's ``main`` with this place's S3 as AWS."""
    monkeypatch.setattr("aicr_pipeline.adapters.aws.client", lambda service: getattr(place, service))

    def run(command: Any, *arguments: object) -> Printed:
        try:
            code = command.main([str(argument) for argument in arguments])
        except SystemExit as ended:
            code = ended.code
        printed = capsys.readouterr()
        return Printed(code=code, out=printed.out, err=printed.err)

    return run


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
    over = {"outcome": outcome, "reason": "RolledOut", "message": "2 releases", "notInstalled": ["new"]}
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


# describe


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
        f"rollout     {ROLLOUT} of cluster demo", "Succeeded (RolledOut)", "not installed: new",
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


# reproduce


def recorded(recipe: bytes = b"kind: RecipeResult\n", **changes: Any) -> Plan:
    """NEW as a run recorded it."""
    wish = runtime_text(**{"placement": NEW.desired_state.placement.wire()})
    facts = {"recipe_digest": sha256(recipe), "runtime_digest": sha256(wish), **changes}
    return NEW.model_copy(update={"recorded": NEW.recorded.model_copy(update=facts)})


def put_run(place: Place, recipe: bytes = b"kind: RecipeResult\n") -> None:
    place.put_plan(recorded(recipe))
    wish = runtime_text(**{"placement": NEW.desired_state.placement.wire()})
    place.ledger.put_once(f"resolves/{RUN}/runtime.yaml", wish)
    place.ledger.put_once(f"resolves/{RUN}/recipe.yaml", recipe)


def test_what_is_written(place: Place, tmp_path: Path, call: Any) -> None:
    put_run(place)
    where = ("--ledger", LEDGER, "--image", "x.example/aicr")
    said = call(reproduce, HEXES[:8], "--dir", tmp_path / "new", *where)
    assert (said.code, said.err) == (0, "")
    made = {file.name: file.read_bytes() for file in (tmp_path / "new").iterdir()}
    assert set(made) == {"README.md", "command.sh", "plan.json", "recipe.yaml", "runtime.yaml"}
    assert made["recipe.yaml"] == b"kind: RecipeResult\n"
    image = f"x.example/aicr@{NEW.desired_state.aicr.image_digest}"
    assert f"IMAGE={image}\n".encode() in made["command.sh"]
    told = call(describe, tmp_path / "new" / "plan.json", "--json")
    assert json.loads(told.out)["plan"]["digest"] == NEW.desired_state_digest


def test_what_the_ledger_lacks_is_named(place: Place, tmp_path: Path, call: Any) -> None:
    place.put_plan(recorded())
    said = call(reproduce, HEXES, "--dir", tmp_path / "new", "--ledger", LEDGER, "--json")
    assert said.code == 3
    missing = json.loads(said.out)["rendering"]["missing"]
    assert [f"resolves/{RUN}/runtime.yaml" in missing[0], "recipe.yaml" in missing[1]] == [True, True]
    assert said.err.count("missing: ") == 2


@pytest.mark.parametrize("name", ["runtime.yaml", "recipe.yaml", "content.sha256"])
def test_what_was_changed_is_refused(place: Place, tmp_path: Path, call: Any, name: str) -> None:
    put_run(place)
    folder = copied(place, tmp_path)
    (folder / "ledger" / "resolves" / RUN / name).write_bytes(b"other")
    said = call(reproduce, HEXES, "--dir", tmp_path / "new", "--from", folder)
    assert (said.code, said.out) == (2, "")
    assert f"{name} was changed after it was written" in said.err
    assert not (tmp_path / "new").exists()


def test_a_run_that_is_no_name_reads_nothing(place: Place, tmp_path: Path, call: Any) -> None:
    place.put_plan(recorded(run="../../etc"))
    said = call(reproduce, HEXES, "--dir", tmp_path / "new", "--ledger", LEDGER)
    assert (said.code, "not the name of a run" in said.err) == (2, True)


OVERRIDES = {"gpu-operator": {"driver.version": "it's $HOME", "list": [1, "two", True]}}


@pytest.fixture
def aicr(tmp_path: Path) -> Path:
    """The stand-in for AICR's command, as a program."""
    file = tmp_path / "aicr"
    file.write_text(f'#!/bin/sh\nPYTHONPATH={ROOT}:{LAYER} exec {sys.executable} -m local.aicr "$@"\n')
    file.chmod(0o755)
    return file


def run_aicr(aicr: Path, *arguments: str) -> None:
    subprocess.run([str(aicr), *arguments], check=True, capture_output=True, timeout=60)


def a_run_that_rendered(place: Place, aicr: Path, folder: Path) -> Plan:
    """A plan of a bundle of AICR's stand-in, with all that its run leaves in the ledger."""
    wish = runtime(overrides=OVERRIDES)
    made = rendering(NEW, None, True, "x.example/aicr")  # the criteria's flags; the sample's are the same
    run_aicr(aicr, *made.recipe[:-1], str(folder / "recipe.yaml"))
    recipe = (folder / "recipe.yaml").read_bytes()
    arguments = bundle_arguments(wish_of(wish), str(folder / "recipe.yaml"), str(folder / "first"))
    run_aicr(aicr, *arguments)
    files = files_in(folder / "first")
    text = runtime_text(overrides=OVERRIDES)
    made_plan = planned(files, wish)
    facts = {"run": RUN, "recipe_digest": sha256(recipe), "runtime_digest": sha256(text)}
    plan_ = made_plan.model_copy(update={"recorded": made_plan.recorded.model_copy(update=facts)})
    place.put_plan(plan_)
    for name, body in {
        "runtime.yaml": text,
        "recipe.yaml": recipe,
        "content.sha256": content_list(files),
    }.items():
        place.ledger.put_once(f"resolves/{RUN}/{name}", body)
    return plan_


def test_a_person_renders_a_plan_again(place: Place, tmp_path: Path, aicr: Path, call: Any) -> None:
    """The whole way: the script runs as it is, by an engine of images; then everything compares."""
    made = a_run_that_rendered(place, aicr, tmp_path)
    folder, again = copied(place, tmp_path), tmp_path / "again"
    line = [sys.executable, "-m", "aicr_pipeline.reproduce", made.desired_state_digest, "--from", str(folder)]
    settings: dict[str, Any] = {
        "capture_output": True,
        "text": True,
        "timeout": 60,
        "env": {"PYTHONPATH": str(LAYER), "PATH": "/usr/bin:/bin"},
    }
    written = subprocess.run([*line, "--dir", str(again)], **settings)
    assert (written.returncode, written.stderr) == (0, "")
    engine = tmp_path / "engine"
    engine.write_text(
        f'#!/bin/sh\nprintf "%s\\n" "$@" >> {tmp_path}/asked\n'
        f'while [ "${{1%@*}}" != ghcr.io/nvidia/aicr ]; do shift; done\nshift\nexec {aicr} "$@"\n'
    )
    engine.chmod(0o755)
    ran = subprocess.run(["sh", str(again / "command.sh")], **settings | {"env": {"ENGINE": str(engine)}})
    assert ran.returncode == 0, ran.stderr
    asked = (tmp_path / "asked").read_text().splitlines()
    assert f"ghcr.io/nvidia/aicr@{made.desired_state.aicr.image_digest}" in asked
    assert {"--read-only", "no-new-privileges", f"{again}:/work"} <= set(asked)
    assert (again / "recipe-again.yaml").read_bytes() == (again / "recipe.yaml").read_bytes()
    # Equal: to our command with the ledger, to it with the plan alone, and to sha256sum.
    for arguments in (["--ledger", LEDGER], []):
        name = made.desired_state_digest if arguments else again / "plan.json"
        said = call(reproduce, name, "--bundle", again / "bundle", *arguments)
        assert (said.code, said.out) == (0, "EQUAL\n"), said
    checked = ["sha256sum", "--quiet", "-c", "../content.sha256"]
    assert subprocess.run(checked, cwd=again / "bundle", **settings).returncode == 0
    values = next((again / "bundle").glob("*-gpu-operator/values.yaml"))
    assert "it's $HOME" in values.read_text()
    values.write_text(values.read_text().replace("it's $HOME", "other"))
    differs = subprocess.run([*line, "--bundle", str(again / "bundle"), "--json"], **settings)
    assert differs.returncode == 1, differs.stderr
    assert [item["path"] for item in json.loads(differs.stdout)["differences"]] == [
        "driver.version",
        values.relative_to(again / "bundle").as_posix(),
        "bundleContentDigest",
    ]
    # A second run would mix two bundles.
    ran = subprocess.run(["sh", str(again / "command.sh")], **settings | {"env": {"AICR_BIN": str(aicr)}})
    assert (ran.returncode, "remove it first" in ran.stderr) == (2, True)


@pytest.mark.parametrize("broken", ["link", "empty"])
def test_a_folder_that_is_no_bundle(place: Place, tmp_path: Path, call: Any, broken: str) -> None:
    put_run(place)
    folder = tmp_path / "bundle"
    folder.mkdir()
    if broken == "link":
        (folder / "recipe.yaml").symlink_to("/etc/passwd")
    said = call(reproduce, HEXES, "--bundle", folder, "--ledger", LEDGER)
    assert (said.code, said.out) == (2, "")
    assert {"link": "is no plain file", "empty": "recipe.yaml is missing"}[broken] in said.err
