"""An archive of evidence that somebody changed, cut or added to is seen for what it is."""

from __future__ import annotations

import base64
import json
import time
from collections.abc import Callable
from typing import Any

import pytest
from aicr_pipeline.decide import evidence_archive as layout
from aicr_pipeline.decide.archive_files import check_documents
from aicr_pipeline.decide.canonical import sha256
from aicr_pipeline.decide.dsse import read_envelope
from aicr_pipeline.decide.verify import INCOMPLETE, INVALID
from aicr_pipeline.model.evidence import Statement

from local.registry import LocalRegistry
from tests.evidence_world import EvidenceWorld, Wish
from tests.functional.packed import ROLLOUTS, failed, files, flipped, look, pack, server, summed, world

__all__ = ["files", "server", "world"]

#: Written after the statement was signed, or about the folder: only the sums speak of them.
UNSIGNED = {layout.README, layout.SUMS, f"{ROLLOUTS}binding.json", f"{ROLLOUTS}outcome.json"}


def test_a_flipped_bit_anywhere_is_seen(world: EvidenceWorld, files: dict[str, bytes]) -> None:
    """Every byte of every file but the largest, where it is every few; with sums made anew to fit."""
    began, seen = time.process_time(), 0
    for name in sorted(set(files) - UNSIGNED):
        data = files[name]
        step = max(1, len(data) // 60)
        for number, at in enumerate(range(0, len(data), step)):
            verdict = look(world, summed({**files, name: flipped(data, at, number % 8)}))
            assert verdict.code == INVALID, (name, at)
            seen += 1
    assert seen > 1000
    assert time.process_time() - began < 20


def test_every_byte_of_every_record_is_bound(files: dict[str, bytes]) -> None:
    binding = Statement.model_validate_json(read_envelope(files[layout.ENVELOPE]).payload).predicate
    packed = [key for key in binding.documents or {} if layout.LEDGER + key in files]
    assert check_documents(files, binding) == len(packed) == len(binding.documents or {}) - 1, "no snapshot"
    for name in sorted(set(files) - UNSIGNED):
        if name.startswith(layout.LEDGER):
            for at in range(len(files[name])):
                with pytest.raises(ValueError, match="is not the record"):
                    check_documents({**files, name: flipped(files[name], at, at % 8)}, binding)


def test_the_sums_show_a_change_of_anything(world: EvidenceWorld, files: dict[str, bytes]) -> None:
    for name in files:
        verdict = look(world, {**files, name: flipped(files[name], len(files[name]) // 2, 0)})
        assert (verdict.code, failed(verdict)) == (INVALID, "sums"), name


@pytest.mark.parametrize(
    ("change", "check"),
    [
        (lambda files: files.pop(layout.SUMS), "sums"),
        (lambda files: files.pop(layout.README), "sums"),
        (lambda files: files.update({"more": b"x"}), "sums"),
    ],
    ids=["no sums", "a file less", "a file more"],
)
def test_what_the_sums_name_is_what_is_there(
    world: EvidenceWorld, files: dict[str, bytes], change: Callable[[dict[str, bytes]], Any], check: str
) -> None:
    changed = dict(files)
    change(changed)
    verdict = look(world, changed)
    assert (verdict.code, failed(verdict)) == (INVALID, check)


@pytest.mark.parametrize(
    ("name", "check"),
    [
        (layout.ENVELOPE, "envelope"),
        (layout.PUBLIC_KEY, "key"),
        (layout.PAYLOAD, "split"),
        (layout.SIGNATURE, "split"),
        (layout.PAE, "split"),
        (f"{ROLLOUTS}decision.json", "documents"),
        (f"{ROLLOUTS}report.json", "documents"),
        (layout.AICR_MANIFEST, "aicr-evidence"),
        (layout.AICR_LAYER, "aicr-evidence"),
        (f"{layout.AICR_FILES}statement.intoto.json", "aicr-evidence"),
        (f"{ROLLOUTS}binding.json", "pointer"),
    ],
)
def test_a_file_that_is_missing(world: EvidenceWorld, files: dict[str, bytes], name: str, check: str) -> None:
    verdict = look(world, summed({path: text for path, text in files.items() if path != name}))
    assert (verdict.code, failed(verdict)) == (INVALID, check)


@pytest.mark.parametrize(
    "name", [f"{layout.LEDGER}rollouts/demo-99999999-1/report.json", f"{ROLLOUTS}more.json"]
)
def test_a_record_that_the_statement_does_not_name(
    world: EvidenceWorld, files: dict[str, bytes], name: str
) -> None:
    verdict = look(world, summed({**files, name: b"{}"}))
    assert (verdict.code, failed(verdict)) == (INVALID, "documents")


@pytest.mark.parametrize(
    "name",
    [
        "approval-by-the-ciso.pdf", "READ.me", "aicr/extra.json", "aicr/filesystem.json", "notes/x",
        layout.AICR_SIGNATURE, layout.AICR_KEY,
    ],
)  # fmt: skip
def test_a_file_that_no_archive_has(world: EvidenceWorld, files: dict[str, bytes], name: str) -> None:
    """Also a signature, of evidence that is unsigned: nothing would look at it."""
    verdict = look(world, summed({**files, name: b"{}"}))
    assert (verdict.code, failed(verdict)) == (INVALID, "files")


def test_a_snapshot_is_left_out(world: EvidenceWorld, files: dict[str, bytes]) -> None:
    """The statement names it, and none in an archive would be looked at."""
    verdict = look(world, summed({**files, f"{ROLLOUTS}snapshot.yaml": world.snapshot()}))
    assert (verdict.code, failed(verdict)) == (INVALID, "documents")


def test_aicrs_files_where_validation_was_disabled(server: LocalRegistry, files: dict[str, bytes]) -> None:
    made = EvidenceWorld(server, "none-of-aicr", Wish(validation="Disabled"))
    made.finish(made.bind())
    theirs = {name: text for name, text in files.items() if name.startswith("aicr/")}
    verdict = look(made, summed({**pack(made), **theirs}))
    assert (verdict.code, failed(verdict)) == (INVALID, "files")


def test_a_readme_that_somebody_changed(world: EvidenceWorld, files: dict[str, bytes]) -> None:
    for text in (b"", b"# run: true\n", files[layout.README].replace(b"-verify", b"-prverify")):
        verdict = look(world, summed({**files, layout.README: text}))
        assert verdict.code == INCOMPLETE
        assert [check.name for check in verdict.checks if not check.ok] == ["readme"]
    without = {name: text for name, text in files.items() if name != layout.README}
    assert look(world, summed(without)).code == INCOMPLETE


def test_a_pointer_or_outcome_of_something_else(world: EvidenceWorld, files: dict[str, bytes]) -> None:
    for name, field, check in (
        ("binding", "key", "pointer"),
        ("binding", "fingerprint", "pointer"),
        ("binding", "qualifying", "pointer"),
        ("binding", "aicrSigned", "pointer"),
        ("outcome", "rollout", "end"),
        ("outcome", "evidence", "end"),
    ):
        path = f"{ROLLOUTS}{name}.json"
        changed = json.dumps(json.loads(files[path]) | {field: "demo-0-1"}).encode()
        verdict = look(world, summed({**files, path: changed}))
        assert (verdict.code, failed(verdict)) == (INVALID, check), field


def test_an_envelope_that_holds_more_than_the_statement(
    world: EvidenceWorld, files: dict[str, bytes]
) -> None:
    """Another signature, a hint, a form: nobody's word, and the README's lines read it as text."""
    sealed = json.loads(files[layout.ENVELOPE])
    (own,) = sealed["signatures"]
    junk = {"keyid": "", "sig": base64.b64encode(b"junk").decode()}
    for changed in (
        sealed | {"signatures": [own, junk]},
        sealed | {"signatures": [junk, own]},
        sealed | {"signatures": [own, own]},
        sealed | {"signatures": [own | {"keyid": "the CISO"}]},
        sealed | {"signatures": [own | {"approved": "by the board"}]},
        sealed | {"note": "approved by the board"},
    ):
        forged = with_envelope(files, json.dumps(changed, sort_keys=True, separators=(",", ":")).encode())
        assert (look(world, forged).code, failed(look(world, forged))) == (INVALID, "split"), changed
        bad = summed({**forged, layout.SIGNATURE: b"junk"})
        assert (look(world, bad).code, failed(look(world, bad))) == (INVALID, "split"), changed
    for text in (json.dumps(sealed, indent=1).encode(), files[layout.ENVELOPE] + b"\n"):
        forged = with_envelope(files, text)
        assert (look(world, forged).code, failed(look(world, forged))) == (INVALID, "split")


def with_envelope(files: dict[str, bytes], sealed: bytes) -> dict[str, bytes]:
    """Another envelope, and all that is not signed made to fit it."""
    was = sha256(files[layout.ENVELOPE]).removeprefix("sha256:").encode()
    now = sha256(sealed).removeprefix("sha256:").encode()
    paths = [f"{ROLLOUTS}binding.json", f"{ROLLOUTS}outcome.json"]
    return summed(
        {**files, layout.ENVELOPE: sealed} | {path: files[path].replace(was, now) for path in paths}
    )


@pytest.mark.parametrize(("name", "check"), [("binding", "pointer"), ("outcome", "end")])
def test_a_name_that_stands_twice_in_what_is_not_signed(
    world: EvidenceWorld, files: dict[str, bytes], name: str, check: str
) -> None:
    """A person reads the first, a program the last."""
    path = f"{ROLLOUTS}{name}.json"
    for field in json.loads(files[path]):
        twice = b'{"%s": "Failed", ' % field.encode() + files[path].lstrip(b"{")
        verdict = look(world, summed({**files, path: twice}))
        assert (verdict.code, failed(verdict)) == (INVALID, check), field


def test_parts_of_another_rollouts_archive_in_its_place(
    server: LocalRegistry, world: EvidenceWorld, files: dict[str, bytes]
) -> None:
    other = EvidenceWorld(server, "stranger", Wish(releases=4))
    other.finish(other.bind())
    theirs = pack(other)
    signed = (layout.ENVELOPE, layout.PAYLOAD, layout.SIGNATURE, layout.PAE)
    assert failed(look(world, summed(files | {name: theirs[name] for name in signed}))) == "documents"
    manifest = {layout.AICR_MANIFEST: theirs[layout.AICR_MANIFEST].replace(b"1970", b"1971")}
    assert failed(look(world, summed(files | manifest))) == "aicr-evidence"
