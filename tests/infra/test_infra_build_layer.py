"""The dependency layer: what goes in, and that the program runs on it."""

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from infra.build_layer import LIMIT, SERVICES, TARGET, _installer, _superfluous, runtime_requirements
from infra.sources import FUNCTIONS_FOLDER, LOCK, PROGRAM, ROOT

_NAME = re.compile(r"^([a-z0-9._-]+)==")


def names(lock: str) -> set[str]:
    """Package names of the chosen entries."""
    return {match[1] for entry in runtime_requirements(lock) if (match := _NAME.match(entry))}


def test_the_programs_dependencies_and_theirs() -> None:
    chosen = names(LOCK.read_text())
    assert {
        "authlib",
        "boto3",
        "botocore",
        "s3transfer",
        "kubernetes",
        "pydantic",
        "pydantic-core",
        "pyyaml",
    } < chosen
    assert "httptools" in chosen  # which the stand-ins' server uses too
    assert not {"moto", "pytest", "aws-cdk-lib", "uvicorn", "selenium", "mypy"} & chosen


def test_every_entry_keeps_its_version_and_hashes() -> None:
    for entry in runtime_requirements(LOCK.read_text()):
        assert re.match(r"^[a-z0-9._-]+==\S+", entry)
        assert "--hash=sha256:" in entry
        assert "#" not in entry


def test_only_what_is_wanted_by_something_chosen() -> None:
    lock = "\n".join(
        [
            "first==1 \\",
            "    --hash=sha256:aa",
            "    # via aicr-pipeline (pyproject.toml)",
            "second==2 \\",
            "    --hash=sha256:bb",
            "    # via",
            "    #   first",
            "    #   tool",
            "third==3 \\",
            "    --hash=sha256:cc",
            "    # via tool",
            "tool==4 \\",
            "    --hash=sha256:dd",
            "    # via aicr-pipeline (pyproject.toml:dev)",
        ]
    )
    assert names(lock) == {"first", "second"}


def test_a_lock_without_the_project_is_refused() -> None:
    with pytest.raises(ValueError, match=r"pyproject\.toml"):
        runtime_requirements("first==1 \\\n    --hash=sha256:aa\n    # via tool")


def test_every_service_that_is_called_is_shipped() -> None:
    called = {
        service
        for folder in (PROGRAM, FUNCTIONS_FOLDER)
        for file in folder.rglob("*.py")
        for service in re.findall(r"""client\(["']([a-z0-9-]+)["']""", file.read_text())
    }
    assert called
    assert called <= SERVICES


def built() -> Path:
    """The layer as the lock is now; one that was built of another says nothing."""
    python = TARGET / "python"
    if not python.is_dir():
        pytest.skip("the layer is not built: python -m infra.build_layer")
    there = {
        match[1].lower().replace("_", "-")
        for folder in python.glob("*.dist-info")
        if (match := re.match(r"(.+?)-[^-]+\.dist-info$", folder.name))
    }
    if missing := names(LOCK.read_text()) - there:
        pytest.skip(f"the layer was built of another lock, without {', '.join(sorted(missing))}: make layer")
    return python


def test_the_built_layer_is_small_enough() -> None:
    built()
    size = sum(file.stat().st_size for file in TARGET.rglob("*") if file.is_file())
    assert size < LIMIT


def test_the_built_layer_runs_the_program(tmp_path: Path) -> None:
    python = built()
    interpreter = _lambdas_python()
    script = tmp_path / "imports.py"
    script.write_text(
        "import importlib, pkgutil, boto3, aicr_pipeline\n"
        "for module in pkgutil.walk_packages(aicr_pipeline.__path__, 'aicr_pipeline.'):\n"
        "    importlib.import_module(module.name)\n"
        f"for service in {sorted(SERVICES)}:\n"
        "    boto3.client(service, region_name='us-west-2')\n"
    )
    done = subprocess.run(
        [interpreter, str(script)],
        env={"PYTHONPATH": f"{python}:{PROGRAM / 'python'}", "PYTHONDONTWRITEBYTECODE": "1"},
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stderr


def _lambdas_python() -> str:
    found = shutil.which("python3.13")
    if found is None or subprocess.run([found, "--version"], capture_output=True).returncode != 0:
        pytest.skip("Python 3.13, which Lambda runs, is not there")
    return found


def test_who_installed_the_layer_leaves_no_trace(tmp_path: Path) -> None:
    """Its digest stands in evidence: pip and uv, on two machines, have to give the same."""
    kept = ["six.py", "six-1.dist-info/METADATA", "botocore/data/s3/x.json"]
    notes = [".lock", *(f"six-1.dist-info/{name}" for name in ("RECORD", "INSTALLER", "REQUESTED"))]
    for path in [*kept, *notes, "botocore/data/ec2/x.json"]:
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text("")
    gone = {path.relative_to(tmp_path).as_posix() for path in _superfluous(tmp_path)}
    assert gone == {*notes, "botocore/data/ec2"}


def test_wheels_come_from_the_index_with_their_hashes_checked(tmp_path: Path) -> None:
    """Not from a cache, whose files other environments share and may have changed."""
    command = _installer(tmp_path / "r.txt", tmp_path)
    assert "--require-hashes" in command and ("--no-cache" in command or command[1:3] == ["-m", "pip"])
