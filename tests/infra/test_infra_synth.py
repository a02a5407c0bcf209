"""Synthesis itself: repeatable, linted, and cdk-nag really looks."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import yaml
from aicr_pipeline.model.config import load_cluster_config

from infra.cluster_manifests import render
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


# The app, with nothing acknowledged; prints what was to be acknowledged, as [construct path, rule].
_WITHOUT_ACKNOWLEDGEMENTS = """
import json
from infra.node import ensure_node
ensure_node()
import infra.findings
asked = []
infra.findings.acknowledge = lambda construct, rule, reason: asked.append([construct.node.path, rule, reason])
import app
try:
    app.main()
except RuntimeError:
    print(json.dumps(asked))
"""


def test_each_acknowledgement_answers_a_finding_and_says_why(tmp_path: Path) -> None:
    """That the stacks synthesize shows that no finding is left; this, that cdk-nag looks at all."""
    out = tmp_path / "out"
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_ACKNOWLEDGEMENTS],
        env={
            **os.environ,
            "PYTHONPATH": str(ROOT),
            "CDK_OUTDIR": str(out),
            "BUILD_DIR": str(tmp_path / "build"),
            "CLUSTER": DEMO.stem,
        },
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    report = json.loads((out / "validation-report.json").read_text())
    findings = {
        (construct["constructPath"], violation["ruleName"])
        for plugin in report["pluginReports"]
        for violation in plugin["violations"]
        for construct in violation["violatingConstructs"]
    }
    assert findings
    for path, rule, reason in json.loads(done.stdout.splitlines()[-1]):
        assert len(reason) > 20, rule
        below = {name for found, name in findings if f"{found}/".startswith(f"{path}/")}
        assert any(name.endswith(rule) for name in below), f"{path}: nothing asks for {rule}"


def test_another_accounts_cluster_gets_its_entries_and_repositories_there(tmp_path: Path) -> None:
    out = tmp_path / "out"
    done = subprocess.run(
        [sys.executable, "app.py"],
        env={
            **os.environ,
            "CDK_OUTDIR": str(out),
            "BUILD_DIR": str(tmp_path / "build"),
            "CLUSTER": DEMO.stem,
            # What the CLI makes of `-c account=999988887777`.
            "CDK_CONTEXT_JSON": json.dumps({"account": "999988887777"}),
        },
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=110,
    )
    assert done.returncode == 0, done.stderr
    stack = Stack(out)
    assert not stack.of_type("AWS::EKS::AccessEntry")
    assert not stack.of_type("AWS::ECR::RepositoryCreationTemplate")
    text = stack.file.read_text()
    assert ":eks:us-west-2:111122223333:cluster/demo" in text
    assert "arn:aws:ecr:us-west-2:111122223333:repository/aicr/demo/charts/*" in text
    printed = render(load_cluster_config(DEMO))
    assert "aws eks create-access-entry --region us-west-2 --cluster-name demo" in printed


def test_too_many_approvers_are_refused_before_lambda_does(tmp_path: Path) -> None:
    document = yaml.safe_load(DEMO.read_text())
    document["cluster"]["name"] = "a-cluster-with-a-rather-long-name"
    document["approvals"]["approvers"] = [
        {"name": f"person-number-{number:02}-with-a-very-long-name"} for number in range(20)
    ]
    file = tmp_path / "crowd.yaml"
    file.write_text(yaml.safe_dump(document))
    with pytest.raises(RuntimeError, match=r"approvals\.approvers: 20 approvers"):
        synthesize(file, tmp_path / "out")
