"""What the demo prints of others' words."""

import ast
import io
from pathlib import Path

import pytest
from rich.console import Console

from local import demo
from local.view import View, closing, refusal


@pytest.mark.parametrize("words", ["[/x]", "[cli] command failed", "[bold]x", "[link=http://h]x[/link]"])
def test_brackets_are_text(words: str) -> None:
    out = io.StringIO()
    console = Console(file=out, width=200)
    refusal(
        console, {"outcome": "Stalled", "reason": "InvalidRuntime", "message": f"spec.{words}: unknown field"}
    )
    View(console).say(words)
    assert out.getvalue() == f"Stalled InvalidRuntime: spec.{words}: unknown field\n{words}\n"


def test_no_line_of_the_demo_asks_for_markup() -> None:
    """``say`` prints brackets as they are, so a line of ours that wants bold would show them."""
    tree = ast.parse(Path(demo.__file__).read_text())
    said = [
        node.value
        for call in ast.walk(tree)
        if isinstance(call, ast.Call) and getattr(call.func, "attr", "") == "say"
        for node in ast.walk(call)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    ]
    assert any("bypassed" in text for text in said)
    assert [text for text in said if "[" in text] == []


@pytest.mark.parametrize("width", [80, 100, 109, 110, 200])
def test_the_table_of_releases_is_whole_at_any_width(width: int) -> None:
    """Seconds and names are never cut; digests are as long as there is room."""
    out = io.StringIO()
    step = {
        "release": "k8s-ephemeral-storage-metrics", "namespace": "nvidia-dra-driver", "action": "Reconfigure",
        "chartDigest": "sha256:" + "a" * 64, "manifestDigest": "sha256:" + "b" * 64, "seconds": 1234.5,
    }  # fmt: skip
    evidence = {"path": "out/evidence.intoto.json", "fingerprint": "f" * 64}
    summary = {
        "rollout": "demo-af14ebd9-1", "outcome": "Succeeded", "steps": [step] * 17, "approval": None,
        "evidence": evidence,
    }  # fmt: skip
    closing(Console(file=out, width=width), summary, "verify")
    text = out.getvalue()
    assert text.count("1234.5") == text.count("k8s-ephemeral-storage-metrics") == 17
    assert "\N{HORIZONTAL ELLIPSIS}" not in text and "a" * 8 in text and "b" * 8 in text
