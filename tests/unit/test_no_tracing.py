"""Traces are Lambda's own: nothing of ours writes what a function was given or answered into one."""

import ast
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
TRACERS = ("aws_xray_sdk", "aws_lambda_powertools.tracing", "opentelemetry")


def test_nothing_writes_into_traces() -> None:
    files = [*(ROOT / "functions").rglob("*.py"), *(ROOT / "layers/aicr_pipeline/python").rglob("*.py")]
    assert len(files) > 100
    found = {}
    for file in files:
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.ImportFrom):
                names = [node.module or "", *(f"{node.module}.{one.name}" for one in node.names)]
            elif isinstance(node, ast.Import):
                names = [one.name for one in node.names]
            else:
                continue
            if any(name.startswith(TRACERS) or name.endswith(".Tracer") for name in names):
                found[file.relative_to(ROOT)] = names
    assert found == {}
