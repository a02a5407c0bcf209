"""The terminal: a live line of where the work is, and at the end a table of what was done."""

import time
from typing import Any

from rich import box
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from local.progress import Progress

#: Columns from which on the namespaces fit too.
_WIDE = 110


class View:
    """Shows progress; on a terminal it is redrawn in place, elsewhere each change is a line."""

    def __init__(self, console: Console) -> None:
        self.console = console
        self._link: str | None = None
        self._said = ""
        self._began = time.monotonic()
        self._live = (
            Live(console=console, refresh_per_second=8, transient=True) if console.is_terminal else None
        )

    def __enter__(self) -> "View":
        if self._live:
            self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live:
            self._live.stop()

    def say(self, text: str) -> None:
        """A line that stays; brackets in it are text."""
        self.console.print(text, highlight=False, soft_wrap=True, markup=False)

    def link(self, link: str | None) -> None:
        """Show the approval link until it is answered."""
        self._link = link
        if link is not None:
            self.say(f"\nApproval link (opening it changes nothing):\n{link}\n")

    def show(self, resolve: Progress | None, rollout: Progress | None) -> None:
        """Draw where the work is."""
        words = _words(resolve, rollout)
        if self._live:
            self._live.update(self._draw(words, rollout))
        elif words != self._said:
            self.say(f"{time.monotonic() - self._began:6.1f} s  {words}")
        self._said = words

    def _draw(self, words: str, rollout: Progress | None) -> RenderableType:
        elapsed = time.monotonic() - self._began
        lines: list[RenderableType] = [Text(f"{elapsed:6.1f} s  {words}", style="bold")]
        if rollout is not None and rollout.steps:
            done = sum(1 for step in rollout.steps.values() if step.seconds is not None)
            total = next(iter(rollout.steps.values())).of
            lines.append(
                Text("█" * done + "░" * (total - done) + f"  {done}/{total} releases ready", style="green")
            )
        if self._link:
            lines.append(Text(f"waiting for a person: {self._link}", style="yellow", overflow="fold"))
        return Panel(Group(*lines), title="aicr-pipeline", border_style="cyan")


def _words(resolve: Progress | None, rollout: Progress | None) -> str:
    if rollout is not None:
        running = [step for step in rollout.steps.values() if step.seconds is None]
        if running:
            step = running[-1]
            if step.held:
                return f"rollout {rollout.name} waits for a person: {step.held}"
            return f"rollout {rollout.name}: step {step.index}/{step.of} {step.release} ({step.action})"
        return f"rollout {rollout.name}: {rollout.state or 'started'}"
    if resolve is not None:
        return f"resolve {resolve.name}: {resolve.state or 'started'}"
    return "the runtime is submitted"


def refusal(console: Console, summary: dict[str, Any]) -> None:
    """How it ended, in the words of whoever refused; their brackets are text."""
    text = Text(str(summary["outcome"]), style="bold red")
    console.print(text.append(f" {summary['reason']}: {summary['message']}", style="default"), soft_wrap=True)


def closing(console: Console, summary: dict[str, Any], verify: str) -> None:
    """The table of releases, where the evidence is, and how to verify it."""
    table = Table(
        title=f"{summary['rollout']}: {summary['outcome']}",
        box=box.SIMPLE_HEAD,
        pad_edge=False,
        collapse_padding=True,
    )
    wide = console.width >= _WIDE
    names = ["#", "release", *(["namespace"] if wide else []), "action", "chart", "manifest", "s"]
    for name in names:
        table.add_column(name, justify="right" if name in ("#", "s") else "left", no_wrap=True)
    for number, step in enumerate(summary["steps"], 1):
        seconds = "-" if step["seconds"] is None else f"{step['seconds']:.1f}"
        digests = [
            step[name].removeprefix("sha256:")[: 12 if wide else 8]
            for name in ("chartDigest", "manifestDigest")
        ]
        namespace = [step["namespace"]] if wide else []
        table.add_row(str(number), step["release"], *namespace, step["action"] or "-", *digests, seconds)
    console.print(table)
    if (summary["approval"] or {}).get("identity") == "bypass":
        console.print(
            "Approval    bypassed: nobody was asked, and the evidence never qualifies", highlight=False
        )
    if summary["outcome"] != "Succeeded":
        refusal(console, summary)
        return
    console.print(f"Evidence    {summary['evidence']['path']}", highlight=False, soft_wrap=True)
    console.print(f"Fingerprint {summary['evidence']['fingerprint']}", highlight=False, soft_wrap=True)
    console.print(f"Verify it   {verify}", highlight=False, soft_wrap=True)
