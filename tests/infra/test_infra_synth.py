"""Synthesis itself: repeatable, linted, and cdk-nag really looks."""

import subprocess
import sys
from pathlib import Path

import pytest

from infra.sources import ROOT
from infra.synth import synthesize
from tests.infra.conftest import DEMO
from tests.infra.templates import Stack

# CDK adds DependsOn on the role of a function, which the function refers to anyway.
_FROM_CDK = "W3005"


def test_two_syntheses_give_the_same_template(demo: Stack, tmp_path: Path) -> None:
    again = Stack(synthesize(DEMO, tmp_path))
    assert again.assembly != demo.assembly
    if again.assembly.name != demo.assembly.name:
        pytest.skip("the project's files changed since the first synthesis of this session")
    assert again.file.read_bytes() == demo.file.read_bytes()


def test_cfn_lint_finds_nothing(stack: Stack) -> None:
    lint = Path(sys.executable).parent / "cfn-lint"
    done = subprocess.run(
        [str(lint), "--ignore-checks", _FROM_CDK, "--template", str(stack.file)],
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout


def test_a_finding_fails_the_synthesis(tmp_path: Path) -> None:
    """That both stacks synthesize shows that no finding is left; this, that findings would fail it."""
    script = tmp_path / "bad.py"
    script.write_text(
        "from infra.node import ensure_node\n"
        "ensure_node()\n"
        "from aws_cdk import App, Stack, Validations, aws_sqs\n"
        "from cdk_nag import AwsSolutionsChecks\n"
        "app = App()\n"
        "Validations.of(app).add_plugins(AwsSolutionsChecks(app))\n"
        "aws_sqs.Queue(Stack(app, 'Bad'), 'Queue')\n"
        "app.synth()\n"
    )
    done = subprocess.run(
        [sys.executable, str(script)],
        env={
            "PATH": "/usr/bin:/bin",
            "PYTHONPATH": str(ROOT),
            "CDK_OUTDIR": str(tmp_path / "out"),
            "HOME": str(tmp_path),
        },
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode != 0
    assert "AwsSolutions-SQS" in done.stdout + done.stderr


def test_too_many_approvers_are_refused_before_lambda_does(tmp_path: Path) -> None:
    people = "\n".join(f"    - {{name: person-number-{n:02}-with-a-very-long-name}}" for n in range(20))
    text = DEMO.read_text().replace("    - {name: alex, email: alex@example.com}", people)
    file = tmp_path / "crowd.yaml"
    file.write_text(text.replace("name: demo", "name: a-cluster-with-a-rather-long-name"))
    with pytest.raises(RuntimeError, match=r"approvals\.approvers: 20 approvers"):
        synthesize(file, tmp_path / "out")
