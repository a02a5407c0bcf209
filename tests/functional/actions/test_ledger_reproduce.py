"""reproduce against a ledger in S3, and against a folder with its objects."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from aicr_pipeline import describe, reproduce
from aicr_pipeline.decide.aicr_command import bundle_arguments, wish_of
from aicr_pipeline.decide.bundle import content_list
from aicr_pipeline.decide.canonical import sha256
from aicr_pipeline.decide.reproduce import rendering
from aicr_pipeline.model.plan import Plan

from tests.functional.actions.ledger_commands import HEXES, LAYER, NEW, ROOT, RUN, copied
from tests.functional.actions.support import LEDGER, Place
from tests.unit.samples import runtime, runtime_text
from tests.unit.test_bundle_captured import files as files_in
from tests.unit.test_reproduce import planned


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
