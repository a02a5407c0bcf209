"""Folders with a ledger's objects and AICR's evidence: whoever left one may have written its keys, too."""

from pathlib import Path

import pytest
from aicr_pipeline.adapters.aicr_artifact import FolderArtifacts
from aicr_pipeline.adapters.ledger_folder import LedgerFolder


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    made = tmp_path / "ledger"
    (made / "plans").mkdir(parents=True)
    (made / "plans" / "a.json").write_bytes(b"{}")
    (tmp_path / "secret").write_bytes(b'{"layers": []}')
    return made


@pytest.mark.parametrize(
    "key", ["../secret", "plans/../../secret", "./plans/a.json", "plans//a.json", "", "/"]
)
def test_a_key_that_leads_elsewhere_is_none_of_a_ledgers(folder: Path, key: str) -> None:
    ledger = LedgerFolder(folder)
    assert ledger.get("plans/a.json") == b"{}"
    assert ledger.get(key) is None
    assert ledger.get(str(folder.parent / "secret")) is None


@pytest.mark.parametrize("digest", ["../secret", "sha256:../secret", "sha256:" + "0" * 63, ""])
def test_a_digest_that_leads_elsewhere_is_of_no_artifact(folder: Path, digest: str) -> None:
    assert FolderArtifacts(folder).get(f"oci://host/evidence/r-1@{digest}", signed=True) is None
