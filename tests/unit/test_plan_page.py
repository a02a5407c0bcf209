"""docs/plan.md is enough to recompute both digests: it is followed to the letter, without our code."""

import copy
import json
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aicr_pipeline.decide.bundle import content_digest

from tests.unit.samples import plan, release
from tests.unit.test_bundle_captured import FIRST, files

PAGE = (Path(__file__).parents[2] / "docs" / "plan.md").read_text()

#: Every kind of value that RFC 8785 writes in a way of its own.
HARD = {
    "b": [1, 1.0, -0.0, 1e21, 1e-7, 0.1, 9007199254740991, None, True],
    "a": 'é ü \U0001f600 "quoted" \\ \u2028 \x7f \b\t\n\x0b',
    "\U0001f600": "above the BMP, sorted by UTF-16",
    "\ufb01": "below it",
    "": {},
}
PLAN = plan(release("app", values={"hard": HARD, "none": None}), release("hook", kind="wrapper"))


@pytest.fixture(scope="module")
def script(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page's own program."""
    (block,) = re.findall(r"```python\n(.*?)```", PAGE, re.DOTALL)
    imported = set(re.findall(r"^import (\w+)$", block, re.MULTILINE))
    assert imported - set(sys.stdlib_module_names) == {"rfc8785"} and "from " not in block
    file = tmp_path_factory.mktemp("page") / "digest.py"
    file.write_text(block)
    return file


def run(script: Path, document: dict[str, Any]) -> subprocess.CompletedProcess[str]:
    file = script.with_name("plan.json")
    file.write_text(json.dumps(document))
    line = [sys.executable, "-I", str(script), str(file)]  # -I: no PYTHONPATH, so nothing of ours
    return subprocess.run(line, capture_output=True, text=True, timeout=60, check=False)


def test_the_pages_program_finds_the_plans_digest(script: Path) -> None:
    done = run(script, PLAN.wire())
    assert (done.returncode, done.stdout.strip()) == (0, PLAN.desired_state_digest), done.stderr


def order(state: Any) -> None:
    state["releases"].reverse()


def kind_of_value(state: Any) -> None:
    state["releases"][0]["values"]["hard"]["b"][8] = 1


def null(state: Any) -> None:
    del state["releases"][0]["values"]["none"]


@pytest.mark.parametrize("change", [order, kind_of_value, null])
def test_the_pages_program_finds_a_change(script: Path, change: Callable[[Any], None]) -> None:
    document = copy.deepcopy(PLAN.wire())
    change(document["desiredState"])
    done = run(script, document)
    assert (done.returncode, done.stderr) == (1, "")
    assert done.stdout.strip() != PLAN.desired_state_digest


def test_facts_of_the_run_are_not_in_it(script: Path) -> None:
    document = PLAN.wire() | {"recorded": {"run": "another"}}
    assert run(script, document).returncode == 0


def test_the_pages_line_of_shell_finds_the_bundles_digest(captured: Path) -> None:
    (line,) = [block for block in re.findall(r"```shell\n(.*?)```", PAGE, re.DOTALL) if "sha256sum" in block]
    folder = captured / FIRST / "bundle-helm"
    done = subprocess.run(
        ["sh", "-c", line], cwd=folder, capture_output=True, text=True, timeout=60, check=True
    )
    assert f"sha256:{done.stdout.split()[0]}" == content_digest(files(folder))


def test_the_page_names_every_field() -> None:
    wire = PLAN.wire()
    state = wire["desiredState"]
    fields = [*wire, *state, *wire["recorded"], "runtimeDigest", "bundleInfo", "gpuDriverState"]
    fields += [*state["releases"][0], *state["criteria"], "source"]
    assert [name for name in fields if not re.search(rf"`[\w.\[\]]*\b{name}\b", PAGE)] == []
