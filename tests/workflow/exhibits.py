"""What people see for each reason, kept from real runs: ``make reasons`` makes docs/reasons.md of it.

Off unless ``REASONS_TO`` names a folder. A reason's first run is kept; one that ended with the reason is
worth more than a look at the status that only says it.
"""

from __future__ import annotations

import json
import os
import re
import sys
import textwrap
from collections.abc import Mapping
from html.parser import HTMLParser
from pathlib import Path
from typing import TYPE_CHECKING, Any

from aicr_pipeline import approvals, status
from aicr_pipeline.model.reasons import Reason

if TYPE_CHECKING:
    from local.progress import Progress
    from tests.workflow.machine import Machine

_READY = re.compile(r"Ready=\w+ \((\w+)\)\n  (.*)")
_STALLED = re.compile(r"^Stalled +True", re.MULTILINE)
_LINK = re.compile(r"https?://\S+/approvals/\S+")
#: What differs between two runs that are the same.
_VARYING = (
    (re.compile(r"https?://127\.0\.0\.1:\d+"), "https://127.0.0.1:8443"),
    (re.compile(r"127\.0\.0\.1:\d+"), "127.0.0.1:5000"),
    (re.compile(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|\+00:00)"), "2026-01-01T12:00:00Z"),
    (re.compile(r"\d{1,2} [A-Z][a-z]{2} \d{4}, \d\d:\d\d UTC"), "1 Jan 2026, 12:00 UTC"),
    (re.compile(r"\d+ h \d+ min"), "5 h 59 min"),
    (re.compile(r"\b[0-9a-f]{64}\b"), "0123456789abcdef" * 4),
    (re.compile(r"sha256:[0-9a-f]{12}\b"), "sha256:0123456789ab"),
    (re.compile(r"\bdemo-[0-9a-f]{8}-"), "demo-01234567-"),
    (re.compile(r"\b[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}\b"), "01234567-89ab-cdef-0123-456789abcdef"),
    (re.compile(r"\?s=[\w-]+"), "?s=…"),
)  # fmt: skip


def ended(machine: Machine, which: str, found: Progress) -> None:
    """An execution ended: what everything says of a bad end, and the status of a good one."""
    if _folder() is not None and (which, found.status) == ("rollout", "SUCCEEDED"):
        told(machine, _run(machine, status, "--rebuild"))
    if _folder() is None or found.error not in Reason.__members__ or _kept(found.error) == "end":
        return
    terminal = _run(machine, status, "--rebuild")
    described = _run(machine, approvals, "describe", found.name) if which == "rollout" else ""
    _keep(
        found.error,
        "end",
        machine=which,
        sentence=found.cause or "",
        terminal=terminal,
        described=described,
        page=_page(machine, found.name) if which == "rollout" else "",
        mail=machine.pipeline.aws.messages[-1].subject or "",
    )


def told(machine: Machine, text: str) -> None:
    """A look at the status; one where nothing stalled shows its reason best."""
    said = _READY.search(text)
    if _folder() is None or said is None:
        return
    kept = _kept(said[1])
    if kept is not None and not (kept == "stalled" and _STALLED.search(text) is None):
        return
    runs = machine.pipeline.aws.executions(machine.pipeline.machine("rollout"))
    page = _page(machine, runs[-1].name) if runs else ""
    kind = "stalled" if _STALLED.search(text) else "status"
    _keep(said[1], kind, machine="", sentence=said[2], terminal=text, described="", page=page, mail="")


def seen(machine: Machine, reason: str, sentence: str, rollout: str = "") -> None:
    """What is neither an end that failed nor the status's own reason; of a rollout its page, too."""
    if _folder() is not None and _kept(reason) is None:
        _keep(
            reason,
            "seen",
            machine="rollout" if rollout else "resolve",
            sentence=sentence,
            terminal=_run(machine, status, "--rebuild"),
            described=_run(machine, approvals, "describe", rollout) if rollout else "",
            page=_page(machine, rollout) if rollout else "",
            mail="",
        )


def main() -> int:
    """``python -m tests.workflow.exhibits FOLDER``: the document, of what was kept there."""
    folder = Path(sys.argv[1])
    print(document({file.stem: json.loads(file.read_text()) for file in folder.glob("*.json")}), end="")
    return 0


_HEAD = """# Reasons, as people see them

Made by `make reasons` from real runs of the whole machine: for each reason the sentence, and what terminal
and page show. What to do is in the [runbook](runbook.md#reasons). Times, digests, names and ports are
always the same here.

{index}
"""
#: Of a page, before what it shows of every rollout.
_REST = ("Mind this", "What changes", "Records")
_WIDTH = 108
_MOST_SENTENCE = 600


def document(kept: Mapping[str, Mapping[str, str]]) -> str:
    """docs/reasons.md. A reason that no run came to is said to be missing."""
    parts = [_HEAD.format(index=" · ".join(f"[{reason}](#{str(reason).lower()})" for reason in Reason))]
    for reason in Reason:
        found = kept.get(str(reason))
        parts.append(f"## {reason}\n")
        parts.append("No run of `make reasons` came to it.\n" if found is None else _entry(found))
    return "\n".join(parts)


def _entry(found: Mapping[str, str]) -> str:
    said = " ".join(found["sentence"].split())
    cut = said if len(said) <= _MOST_SENTENCE else f"{said[:_MOST_SENTENCE]} …"
    quoted = "\n".join(f"> {line}" for line in textwrap.wrap(cut, _WIDTH, break_on_hyphens=False))
    text = f"{quoted}\n"
    if found["mail"]:
        text += f"\nMail: {found['mail']}\n"
    terminal = found["terminal"].partition("active plan")[0]
    text += f"\nTerminal, `python -m aicr_pipeline.status`:\n\n{_block(terminal)}"
    if found["described"]:
        shown = [line for line in found["described"].splitlines() if re.match(r"rollout |\d{4}-", line)]
        text += f"\n`approvals describe`:\n\n{_block(chr(10).join(shown))}"
    if found["page"]:
        lines: list[str] = []
        for line in found["page"].splitlines():
            if line.startswith(_REST):
                break
            lines.append(line)
        text += f"\nPage:\n\n{_block(chr(10).join(lines))}"
    elif found["machine"] == "resolve":
        text += "\nThere is no rollout yet, so no page.\n"
    else:
        text += "\nNobody was asked, so nobody has a link to its page.\n"
    return f"{text}\nSeen in `{found['test'].rpartition('/')[2]}`.\n"


def _block(text: str) -> str:
    lines = [
        part
        for line in text.strip().splitlines()
        for part in textwrap.wrap(
            line, _WIDTH, drop_whitespace=False, subsequent_indent="  ", break_on_hyphens=False
        )
        or [""]
    ]
    return "```text\n" + "\n".join(line.rstrip() for line in lines) + "\n```\n"


def _run(machine: Machine, module: Any, *arguments: str) -> str:
    from tests.workflow.small.terminal import run

    return run(machine, module, *arguments)


def _page(machine: Machine, rollout: str) -> str:
    """The page of a rollout, by the link that somebody was sent; empty when nobody was asked."""
    import urllib3

    sent = [message.message for message in machine.pipeline.aws.messages]
    links = [link for text in sent for link in _LINK.findall(text) if rollout in link]
    return _text(urllib3.request("GET", links[-1]).data.decode()) if links else ""


class _Text(HTMLParser):
    """The words of a page, a line for each block."""

    _BLOCKS = frozenset(
        {"p", "h1", "h2", "h3", "li", "tr", "div", "section", "dt", "form", "summary", "button"}
    )

    def __init__(self) -> None:
        super().__init__()
        self.words: list[str] = []
        self._hidden = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._hidden += tag in ("style", "title", "script")
        self.words.append("\n" if tag in self._BLOCKS else " ")

    def handle_endtag(self, tag: str) -> None:
        self._hidden -= tag in ("style", "title", "script")

    def handle_data(self, data: str) -> None:
        if not self._hidden:
            self.words.append(data.replace("\n", " "))


def _text(html: str) -> str:
    reader = _Text()
    reader.feed(html)
    lines = (" ".join(line.split()) for line in "".join(reader.words).split("\n"))
    return "\n".join(line for line in lines if line)


def _folder() -> Path | None:
    name = os.environ.get("REASONS_TO")
    return Path(name) if name else None


def _kept(reason: str) -> str | None:
    folder = _folder()
    file = None if folder is None else folder / f"{reason}.json"
    return str(json.loads(file.read_text())["kind"]) if file is not None and file.exists() else None


def _keep(reason: str, kind: str, **what: str) -> None:
    folder = _folder()
    assert folder is not None
    same = {name: _same(text) for name, text in what.items()}
    test = os.environ.get("PYTEST_CURRENT_TEST", "").partition(" ")[0]
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{reason}.json").write_text(json.dumps({"kind": kind, "test": test, **same}, indent=1))


def _same(text: str) -> str:
    for found, instead in _VARYING:
        text = found.sub(instead, text)
    return text


if __name__ == "__main__":
    sys.exit(main())
