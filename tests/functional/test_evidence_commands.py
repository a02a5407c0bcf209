"""The commands that pack evidence and verify it, also against what stands today."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from aicr_pipeline import evidence_pack
from aicr_pipeline.adapters import aws
from aicr_pipeline.adapters.evidence_pack import collect
from aicr_pipeline.decide import evidence_archive as layout
from aicr_pipeline.decide.canonical import sha256
from aicr_pipeline.decide.dsse import fingerprint, read_envelope
from aicr_pipeline.decide.verify import INCOMPLETE, INVALID, VALID
from aicr_pipeline.model.plan import plan_key
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.rollout import rollout_key
from aicr_pipeline.verify import main
from botocore.exceptions import (
    ClientError,
    EndpointConnectionError,
    NoCredentialsError,
    NoRegionError,
    ReadTimeoutError,
)

from local.registry import LocalRegistry
from tests.evidence_world import ROLLOUT, EvidenceWorld, Wish, artifacts_of, der_of, repository_of
from tests.functional.live import NOT_A_SUCCESS, envelope, server, world
from tests.unit.samples import refused, sha

__all__ = ["server", "world"]


@pytest.fixture
def at_hand(world: EvidenceWorld, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> EvidenceWorld:
    """AWS and the registry as the commands reach them."""
    monkeypatch.setattr(aws, "client", lambda *_: world.s3)
    for module in ("aicr_pipeline.registry_access", "aicr_pipeline.evidence_pack"):
        monkeypatch.setattr(f"{module}.open_repository", repository_of(world))
    monkeypatch.chdir(tmp_path)
    return world


def test_pack_and_verify_by_the_command_line(
    at_hand: EvidenceWorld, capsys: pytest.CaptureFixture[str]
) -> None:
    mark = fingerprint(der_of(at_hand.kms.key))
    assert evidence_pack.main([ROLLOUT, "--ledger", "bucket"]) == 0
    assert mark in capsys.readouterr().out
    file = f"evidence-{ROLLOUT}.tar.gz"
    assert main([file, "--fingerprint", mark, "--require-qualifying"]) == VALID
    assert main([file, "--fingerprint", mark, "--live", "--ledger", "bucket"]) == VALID
    printed = capsys.readouterr().out
    assert "ok   registry-charts: 3 charts are there" in printed
    assert "note AICR's own evidence is unsigned" in printed
    assert main([file]) == INCOMPLETE
    assert "?    pin" in capsys.readouterr().out
    assert main([file, "--fingerprint", mark, "--json"]) == VALID
    said = json.loads(capsys.readouterr().out)
    assert said["code"] == 0
    assert said["binding"]["qualifying"] is True
    at_hand.change(rollout_key(ROLLOUT, "decision"), reason="another")
    assert main([file, "--fingerprint", mark, "--live", "--ledger", "bucket"]) == INVALID


def test_a_plan_that_is_named_beside_an_archive_is_compared(
    at_hand: EvidenceWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Whoever names one wants to know whether that one was installed."""
    assert evidence_pack.main([ROLLOUT, "--ledger", "bucket"]) == 0
    mark = fingerprint(der_of(at_hand.kms.key))
    arguments = [f"evidence-{ROLLOUT}.tar.gz", "--fingerprint", mark, "--plan", "p"]
    right = at_hand.s3.objects[plan_key(at_hand.plan.desired_state_digest)]
    (tmp_path / "p").write_bytes(right)
    assert main(arguments) == VALID
    for wrong in (b"", b"not a plan", right.replace(b"gpu-operator", b"gpu-operatos"), right + b" "):
        (tmp_path / "p").write_bytes(wrong)
        capsys.readouterr()
        assert main(arguments) == INVALID
        assert "FAIL plan-given" in capsys.readouterr().out


def answered(code: str, status: int = 403) -> ClientError:
    return ClientError(
        {"Error": {"Code": code}, "ResponseMetadata": {"HTTPStatusCode": status}},  # type: ignore[typeddict-item]
        "GetObject",
    )


class Refusing:
    """S3 that answers nothing but an error."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def get_object(self, **_: object) -> None:
        raise self.error


@pytest.mark.parametrize(
    ("error", "says"),
    [
        (NoCredentialsError(), "NoCredentialsError; check AWS_PROFILE"),
        (EndpointConnectionError(endpoint_url="https://s3"), "AWS cannot be reached"),
        (ReadTimeoutError(endpoint_url="https://s3"), "AWS cannot be reached"),
        (answered("AccessDenied"), "S3 answered AccessDenied"),
        (answered("SlowDown", 503), "S3 answered SlowDown"),
        (answered("ExpiredToken"), "S3 answered ExpiredToken"),
        (answered("NoSuchBucket", 404), "S3 answered NoSuchBucket"),
    ],
    ids=["credentials", "connection", "time", "denied", "slow down", "expired", "bucket"],
)
def test_aws_that_does_not_answer_leaves_it_incomplete(
    at_hand: EvidenceWorld, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str],
    error: Exception, says: str,
) -> None:  # fmt: skip
    """Nothing is wrong with the evidence, and scripts get their object all the same."""
    assert evidence_pack.main([ROLLOUT, "--ledger", "bucket"]) == 0
    monkeypatch.setattr(aws, "client", lambda *_: Refusing(error))
    capsys.readouterr()
    mark = fingerprint(der_of(at_hand.kms.key))
    arguments = [f"evidence-{ROLLOUT}.tar.gz", "--fingerprint", mark, "--live", "--ledger", "bucket"]
    assert main([*arguments, "--json"]) == INCOMPLETE
    said = json.loads(capsys.readouterr().out)
    assert said["code"] == INCOMPLETE
    unseen = {one["name"]: one["detail"] for one in said["checks"] if one["ok"] is None}
    assert says in unseen["ledger-statement"]
    assert not any(one["ok"] is False for one in said["checks"])
    assert main(arguments) == INCOMPLETE
    assert capsys.readouterr().out.endswith("INCOMPLETE\n")


def test_without_a_client_it_is_incomplete_too(
    at_hand: EvidenceWorld, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def no_client(*_: object) -> None:
        raise NoRegionError

    assert evidence_pack.main([ROLLOUT, "--ledger", "bucket"]) == 0
    monkeypatch.setattr(aws, "client", no_client)
    capsys.readouterr()
    mark = fingerprint(der_of(at_hand.kms.key))
    arguments = [f"evidence-{ROLLOUT}.tar.gz", "--fingerprint", mark, "--live", "--ledger", "bucket"]
    assert main([*arguments, "--json"]) == INCOMPLETE
    assert "NoRegionError" in str(json.loads(capsys.readouterr().out)["checks"])


@pytest.mark.parametrize("form", ["archive", "envelope"])
@pytest.mark.parametrize(("change", "check", "code"), NOT_A_SUCCESS)
def test_the_command_says_how_it_ended(
    at_hand: EvidenceWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str],
    change: Callable[[EvidenceWorld], Any], check: str, code: int, form: str,
) -> None:  # fmt: skip
    """Of an archive that says nothing of it, and of an envelope, which cannot."""
    mark = fingerprint(der_of(at_hand.kms.key))
    before = dict(at_hand.s3.objects)
    files = collect(at_hand.ledger, ROLLOUT, artifacts_of(at_hand), lambda: None)
    change(at_hand)
    outcome = f"{layout.LEDGER}{rollout_key(ROLLOUT, 'outcome')}"
    if form == "archive":
        now = at_hand.s3.objects.get(rollout_key(ROLLOUT, "outcome"))
        if now is None or now != before[rollout_key(ROLLOUT, "outcome")]:
            files.pop(outcome)
        files[layout.SUMS] = layout.sums(files)
        (tmp_path / "e").write_bytes(layout.pack(files, "evidence"))
        named = ["--fingerprint", mark]
    else:
        plan = at_hand.plan.desired_state_digest
        (tmp_path / "e").write_bytes(envelope(at_hand))
        (tmp_path / "p").write_bytes(at_hand.s3.objects[plan_key(plan)])
        (tmp_path / "k").write_bytes(der_of(at_hand.kms.key))
        named = ["--key", "k", "--plan", "p"]
    # Without an outcome the archive is incomplete by itself.
    want = code if form == "envelope" or outcome in files else INCOMPLETE
    assert main(["e", *named, "--live", "--ledger", "bucket", "--json"]) == want
    said = json.loads(capsys.readouterr().out)["checks"]
    assert check in [one["name"] for one in said if not one["ok"]]


def test_what_does_not_hold_is_not_packed(
    at_hand: EvidenceWorld, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    at_hand.change(rollout_key(ROLLOUT, "report"), approvalBecause=["another"])
    assert evidence_pack.main([ROLLOUT, "--ledger", "bucket"]) == 1
    assert "does not hold (documents)" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


class WithLogs(EvidenceWorld):
    """AICR's evidence names logs; what they are called is what pods and images are called."""

    log = ""

    def aicr_files(self, *given: Any, **named: Any) -> Any:
        made = {name: content for name, (content, _) in super().aicr_files(*given, **named).items()}
        name, text = f"phases/deployment/logs/{self.log}", b"all well"
        manifest = json.loads(made["manifest.json"])
        manifest["files"].append({"path": name, "sha256": sha256(text), "size": len(text)})
        made |= {name: text, "manifest.json": json.dumps(manifest).encode()}
        said = json.loads(made["statement.intoto.json"])
        said["predicate"]["manifest"] |= {
            "digest": sha256(made["manifest.json"]), "fileCount": len(manifest["files"])
        }  # fmt: skip
        made["statement.intoto.json"] = json.dumps(said).encode()
        return {name: (content, 0o600) for name, content in made.items()}


@pytest.mark.parametrize("log", ["-v.log", "a" * 95 + ".log"], ids=["dash", "long"])
def test_whatever_may_be_bound_is_packed_and_verifies(
    server: LocalRegistry, tmp_path: Path, capsys: pytest.CaptureFixture[str], log: str
) -> None:
    made = type("Logged", (WithLogs,), {"log": log})(server, f"logs-{sha(log)[7:15]}", Wish())
    made.finish(made.bind())
    file = tmp_path / "a.tar.gz"
    _, mark = evidence_pack.write_archive(made.ledger, ROLLOUT, artifacts_of(made), None, file)
    assert main([str(file), "--fingerprint", mark]) == VALID
    assert "ok   aicr-evidence" in capsys.readouterr().out


def test_what_could_not_be_read_again_is_not_written(
    at_hand: EvidenceWorld, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """What is verified is the file's own bytes, as whoever gets it reads them."""
    for limit in ("MOST_FILES", "MOST_FILE_BYTES", "MOST_BYTES", "MOST_ARCHIVE_BYTES"):
        with monkeypatch.context() as small:
            small.setattr(layout, limit, 5)
            with refused(Reason.PlanUnreadable, "cannot be packed"):
                evidence_pack.write_archive(
                    at_hand.ledger, ROLLOUT, artifacts_of(at_hand), None, tmp_path / "a"
                )
    assert list(tmp_path.iterdir()) == []


def test_a_key_that_is_none_is_a_reason(at_hand: EvidenceWorld, tmp_path: Path) -> None:
    for key in [key for key in at_hand.s3.objects if "/keys/" in key]:
        at_hand.s3.objects[key] = b"no key"
        with refused(Reason.PlanUnreadable, "neither PEM nor DER"):
            evidence_pack.write_archive(at_hand.ledger, ROLLOUT, artifacts_of(at_hand), None, tmp_path / "a")
        del at_hand.s3.objects[key]
    with refused(Reason.PlanUnreadable, "--key names: the public key is neither"):
        evidence_pack.write_archive(at_hand.ledger, ROLLOUT, artifacts_of(at_hand), b"", tmp_path / "a")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_of_what_make_demo_leaves(
    at_hand: EvidenceWorld, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    from aicr_pipeline.adapters.aicr_artifact import FolderArtifacts

    for key, text in at_hand.s3.objects.items():
        (tmp_path / "ledger" / key).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "ledger" / key).write_bytes(text)
    reference = json.loads(read_envelope(envelope(at_hand)).payload)["predicate"]["aicrEvidence"]["reference"]
    found = artifacts_of(at_hand).get(reference, signed=False)
    assert found is not None
    FolderArtifacts(tmp_path / evidence_pack.BLOBS).keep(reference, found)
    assert evidence_pack.main([ROLLOUT, "--from", str(tmp_path), "--out", "a.tar.gz"]) == 0
    packed = layout.unpack((tmp_path / "a.tar.gz").read_bytes())
    assert packed == collect(at_hand.ledger, ROLLOUT, artifacts_of(at_hand), lambda: None)
    # The folder it was unpacked into does as well.
    for name, text in packed.items():
        (tmp_path / "open" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "open" / name).write_bytes(text)
    assert main([str(tmp_path / "open"), "--fingerprint", fingerprint(der_of(at_hand.kms.key))]) == VALID
    assert "VALID" in capsys.readouterr().out


@pytest.mark.parametrize(
    "arguments", [[], ["../x", "--ledger", "bucket"], [ROLLOUT], [ROLLOUT, "--ledger", "b", "--key", "none"]]
)
def test_a_command_line_that_is_not_understood(arguments: list[str]) -> None:
    with pytest.raises(SystemExit) as caught:
        evidence_pack.main(arguments)
    assert caught.value.code == 2
