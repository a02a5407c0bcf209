"""A person waits for the first page, so its handler imports nothing that a page can do without.

How long the import takes is measured by ``make bench PART=approvals``.
"""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.functional.approvals.support import ROOT

_PROGRAM = """
import json, sys
import handler
heavy = ("jinja2", "boto3", "kubernetes", "oras", "cryptography", "authlib", "joserfc", "requests",
         "aicr_pipeline.decide.bundle", "aicr_pipeline.decide.upgrade_records")
print(json.dumps([name for name in heavy if name in sys.modules]))
"""


@pytest.mark.parametrize("name", ["serve_approvals", "serve_operators"])
def test_a_cold_page_imports_what_it_needs_and_no_more(name: str) -> None:
    layer, function = ROOT / "layers/aicr_pipeline/python", ROOT / "functions" / name
    done = subprocess.run(
        [sys.executable, "-c", _PROGRAM],
        env={"PYTHONPATH": f"{layer}:{function}", "POWERTOOLS_METRICS_NAMESPACE": "AicrPipeline"},
        capture_output=True,
        check=True,
        timeout=60,
    )
    assert json.loads(done.stdout) == [], "imported where they are needed only"
