"""Verify the evidence of a rollout: offline, fail-closed.

EVIDENCE is an archive (make evidence-pack), the folder it was unpacked into, or the DSSE envelope alone. The
key is pinned by --fingerprint, or named by --key; for an envelope --key is needed. Exit status: 0 valid;
1 valid, but the rollout failed, or --require-qualifying was given and it does not qualify; 2 invalid;
3 incomplete (a file that is named is not there, no key was pinned, no plan was given, the rollout had not
ended, AWS or the registry not reached).
"""

import argparse
import re
import sys
from collections.abc import Mapping
from pathlib import Path

from aicr_pipeline.command import is_file, is_folder
from aicr_pipeline.decide import evidence_archive as layout
from aicr_pipeline.decide.verify import (
    INCOMPLETE,
    INVALID,
    NOT_ENOUGH,
    VALID,
    Check,
    Looks,
    SignedStatement,
    Stop,
    Verdict,
    as_json,
    look_at_envelope,
)
from aicr_pipeline.decide.verify_archive import look_at_archive
from aicr_pipeline.model.plan import plan_key

_WORDS = {VALID: "VALID", NOT_ENOUGH: "VALID, BUT NOT ENOUGH", INVALID: "INVALID", INCOMPLETE: "INCOMPLETE"}
#: Checks that an archive has, or the ledger.
_WHOLE = frozenset({"archive", "ledger-end"})
#: Checks of what is written after the statement: in an archive, and in the ledger.
_LATER, _LEDGER = frozenset({"pointer", "end"}), frozenset({"ledger-pointer"})
_GZIP = b"\x1f\x8b"
#: What a tar has at a place of its first header.
_TAR, _TAR_AT = b"ustar", 257
_FINGERPRINT = re.compile(r"[0-9a-f]{64}")


def main(arguments: list[str] | None = None) -> int:
    """Run the command line; returns the exit status. What argparse refuses is ``SystemExit(2)``."""
    parser = argparse.ArgumentParser(
        prog="python -m aicr_pipeline.verify", description=__doc__, allow_abbrev=False
    )
    parser.add_argument("evidence", type=Path, metavar="EVIDENCE", help="archive, folder or DSSE envelope")
    parser.add_argument("--key", type=Path, metavar="FILE", help="the pipeline's public key, PEM or DER")
    parser.add_argument(
        "--fingerprint", action="append", default=[], metavar="HEX",
        help="the key has to be this one; again for each key that is trusted",
    )  # fmt: skip
    parser.add_argument(
        "--plan",
        type=Path,
        metavar="FILE",
        help="the plan that it has to be about; an envelope alone needs it",
    )
    parser.add_argument("--require-qualifying", action="store_true", help="fail evidence that never counts")
    parser.add_argument(
        "--live", action="store_true", help="also against ledger and registry, with your AWS credentials"
    )
    parser.add_argument("--ledger", metavar="BUCKET", help="with --live: the stack's output LedgerBucket")
    parser.add_argument(
        "--registry", metavar="oci://HOST/PREFIX", help="with --live: else as the statement says"
    )
    parser.add_argument("--json", action="store_true", help="print the verdict as JSON")
    options = parser.parse_args(arguments)
    if any(not _FINGERPRINT.fullmatch(mark) for mark in options.fingerprint):
        parser.error("--fingerprint is not the lower-case hex SHA-256 of a key")
    if options.live != (options.ledger is not None):
        parser.error("--live and --ledger go together")
    if options.registry is not None and not options.live:
        parser.error("--registry is for --live")
    if options.registry is not None and not _is_address(options.registry):
        parser.error("--registry is not oci://HOST/PREFIX")
    try:
        return _judge(options)
    except BrokenPipeError:
        sys.stderr.close()
        return INCOMPLETE
    except OSError as error:
        return _unjudged(options, INCOMPLETE, Check("given", None, f"cannot be read: {error.strerror}"))
    except Exception as error:  # noqa: BLE001 - Python's own exit status would be 1, which says "valid"
        return _unjudged(
            options, INVALID, Check("judged", False, f"cannot be judged ({type(error).__name__})")
        )


def _judge(options: argparse.Namespace) -> int:
    named = [file for file in (options.key, options.plan) if file is not None]
    missing = [str(file)[:200] for file in named if not is_file(file)]
    if not is_file(options.evidence) and not is_folder(options.evidence):
        missing.insert(0, str(options.evidence)[:200])
    if missing:
        return _unjudged(options, INCOMPLETE, Check("given", None, f"no such file: {', '.join(missing)}"))
    verdict = _verdict(options)
    print(as_json(verdict) if options.json else _text(verdict), flush=True)
    return verdict.code


def _unjudged(options: argparse.Namespace, code: int, why: Check) -> int:
    """Nothing was looked at: a sentence for people, and for machines a verdict as any other."""
    print(f"{_WORDS[code]}: {_shown(why)}", file=sys.stderr)
    if options.json:
        print(as_json(Verdict(code, (why,), None)), flush=True)
    return code


def _verdict(options: argparse.Namespace) -> Verdict:
    looks, key = Looks(), options.key.read_bytes() if options.key else None
    plan = options.plan.read_bytes() if options.plan else None
    try:
        files = None
        if not _is_envelope(options.evidence):
            files = looks.at("archive", lambda: _files(options.evidence))
        if files is not None:
            signed = look_at_archive(looks, files, fingerprints=options.fingerprint, key=key)
            if plan is not None:
                looks.at("plan-given", lambda: _same_plan(files, signed, plan))
            sealed = files[layout.ENVELOPE]
        else:
            sealed = looks.at("size", lambda: _envelope(options.evidence))
            if key is None:
                looks.unseen("key", "not given: pass --key, since an envelope has none")
                return looks.verdict_without()
            signed = look_at_envelope(looks, sealed, key, plan, options.fingerprint)
        if options.live:
            _look_live(looks, sealed, signed, files or {}, options)
    except Stop:
        return looks.verdict(None)
    looks.enough(signed.statement.predicate, options.require_qualifying)
    return looks.verdict(signed.statement.predicate)


def _same_plan(files: Mapping[str, bytes], signed: SignedStatement, plan: bytes) -> tuple[None, str]:
    """The plan that was named beside an archive: somebody wants to know whether that one was installed."""
    key = layout.LEDGER + plan_key(signed.statement.predicate.plan.digest)
    if files.get(key) != plan:
        raise ValueError(f"the file that --plan names is not the archive's {key}")
    return None, f"the file that --plan names is {key}"


def _look_live(
    looks: Looks,
    sealed: bytes,
    signed: SignedStatement,
    files: Mapping[str, bytes],
    options: argparse.Namespace,
) -> None:
    from botocore.exceptions import BotoCoreError

    from aicr_pipeline.adapters import aws
    from aicr_pipeline.adapters.ledger import Ledger
    from aicr_pipeline.adapters.live_evidence import Live, look_live
    from aicr_pipeline.registry_access import open_repository

    try:
        s3 = aws.client("s3")
    except BotoCoreError as error:
        unread = aws.unread(error)
        looks.unseen("ledger", unread.message if unread else type(error).__name__)
        return
    live = Live(Ledger(s3, options.ledger), open_repository, options.registry)
    copies = {
        path.removeprefix(layout.LEDGER): text
        for path, text in files.items()
        if path.startswith(layout.LEDGER)
    }
    look_live(looks, sealed, signed.statement.predicate, signed.fingerprint, live, copies)


def _is_address(text: str) -> bool:
    from aicr_pipeline.adapters.registry import parse_reference
    from aicr_pipeline.errors import PipelineError

    try:
        parse_reference(text)
    except PipelineError:
        return False
    return True


def _is_envelope(path: Path) -> bool:
    """JSON, for better or worse; anything else is an archive, or no evidence at all."""
    if is_folder(path):
        return False
    with path.open("rb") as file:
        return file.read(64).lstrip().startswith(b"{")


def _envelope(path: Path) -> tuple[bytes, str]:
    size = path.stat().st_size
    if size > layout.MOST_FILE_BYTES:
        raise ValueError(f"an envelope has at most {layout.MOST_FILE_BYTES >> 20} MiB")
    return path.read_bytes(), f"{size:,} bytes"


def _files(path: Path) -> tuple[dict[str, bytes], str]:
    found = layout.read_folder(path) if is_folder(path) else layout.unpack(_packed(path))
    return found, f"{len(found)} files, {sum(map(len, found.values())):,} bytes"


def _packed(path: Path) -> bytes:
    with path.open("rb") as file:
        data = file.read(layout.MOST_ARCHIVE_BYTES + 1)
    if not data:
        raise ValueError("the file is empty")
    if data[_TAR_AT : _TAR_AT + len(_TAR)] == _TAR:
        raise ValueError("it is a tar that is not compressed: compress it with gzip, or name its folder")
    if not data.startswith(_GZIP):
        raise ValueError("it is neither an archive (tar.gz) nor an envelope (JSON)")
    return data


def _text(verdict: Verdict) -> str:
    marks = {True: "ok  ", False: "FAIL", None: "?   "}
    lines = [f"{marks[check.ok]} {check.name}: {_shown(check)}" for check in verdict.checks]
    binding, names = verdict.binding, {check.name for check in verdict.checks}
    if binding is not None and binding.aicr_evidence is not None and not binding.aicr_evidence.signed:
        lines.append("note AICR's own evidence is unsigned; signed is what the pipeline says of it")
    if binding is not None and not _WHOLE & names:
        lines.append(
            "note an envelope alone: approval, report, AICR's evidence and whether somebody stopped the "
            "rollout were not looked at; the archive or --live shows them"
        )
    if binding is not None and _LATER & names and not _LEDGER & names:
        lines.append(
            "note binding.json, outcome.json and whether somebody stopped the rollout are signed by nobody: "
            "--live holds them against the ledger"
        )
    if binding is not None and not binding.qualifying:
        lines.append(f"note never qualifies a profile: {'; '.join(binding.not_qualifying_because)}")
    return "\n".join([*lines, _WORDS[verdict.code]])


def _shown(check: Check) -> str:
    """What a file says of itself may hold anything: no line of it may pass for one of ours."""
    return "".join(letter if letter.isprintable() else "?" for letter in check.detail)


if __name__ == "__main__":
    sys.exit(main())
