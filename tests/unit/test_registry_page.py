"""docs/registry.md names every refusal of a mirror, in the words that people see."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import aicr_pipeline
import pytest
from aicr_pipeline.model.reasons import Reason

PROGRAM = Path(aicr_pipeline.__file__).parent
PAGE = (Path(__file__).parents[2] / "docs" / "registry.md").read_text()
MODULES = sorted(
    [
        *PROGRAM.glob("adapters/registry*.py"),
        *(PROGRAM / "adapters" / f"{name}.py" for name in
          ("artifact", "chart_folder", "chart_manifest", "chart_sources", "docker_config", "ecr", "http",
           "mirror")),
        *(PROGRAM / "decide" / f"{name}.py" for name in
          ("addresses", "chart_archive", "chart_package", "chart_yaml", "helm_index", "provenance",
           "tar_gz", "unpack")),
    ]
)  # fmt: skip
#: Functions that put a sentence around what their callers say.
AROUND = ("_unsupported", "_invalid", "invalid", "_too_large", "_refused", "UnsoundError", "TooLargeError")


def sections() -> dict[str, str]:
    """Reason to its part of the page."""
    refusals = PAGE.partition("\n## Refusals\n")[2].partition("\n## ")[0]
    parts = re.split(r"^### `(\w+)`$", refusals, flags=re.MULTILINE)
    return dict(zip(parts[1::2], parts[2::2], strict=True))


def phrases() -> list[str]:
    """The quoted words in the first column of the refusals' tables."""
    rows = [
        line for section in sections().values() for line in section.splitlines() if line.startswith("| `")
    ]
    return [phrase for row in rows for phrase in re.findall(r"`([^`]+)`", row.split(" | ")[0])]


def text(node: ast.expr) -> str:
    """A string of the program, its variables written as dots."""
    if isinstance(node, ast.Constant) and isinstance(node.value, str):
        return node.value
    if isinstance(node, ast.JoinedStr):
        return "".join(text(part) for part in node.values)
    if isinstance(node, ast.BinOp):
        return text(node.left) + text(node.right)
    return "…"


def nodes() -> Iterator[tuple[str, str, ast.AST]]:
    """Module, enclosing function and node."""
    for module in MODULES:
        for function in ast.walk(ast.parse(module.read_text())):
            if isinstance(function, ast.FunctionDef):
                yield from ((module.stem, function.name, node) for node in ast.walk(function))


def refusals() -> list[tuple[str, str]]:
    """Where each refusal is made, and its words."""
    found = set()
    for module, function, node in nodes():
        if not isinstance(node, ast.Call) or function in AROUND or ast.unparse(node.func) == "yaml.load":
            continue
        given = [ast.unparse(argument) for argument in node.args]
        if any(one.startswith("Reason.") for one in given) or ast.unparse(node.func) in AROUND:
            words = " / ".join(text(argument) for argument in node.args)
            if len(re.findall(r"[A-Za-z]{2,}", words)) > 1:
                found.add((f"{module}:{node.lineno}", words))
    return sorted(found)


def squeezed(words: str) -> str:
    return re.sub(r"\s+", " ", words)


def test_each_reason_that_is_raised_has_its_section() -> None:
    raised = {
        node.attr
        for _, _, node in nodes()
        if isinstance(node, ast.Attribute) and ast.unparse(node.value) == "Reason"
    }
    assert raised == set(sections())
    assert raised <= set(Reason.__members__)


@pytest.mark.parametrize("refusal", refusals(), ids=lambda refusal: refusal[0])
def test_each_refusal_is_on_the_page(refusal: tuple[str, str]) -> None:
    found = [one for one in phrases() if one in squeezed(refusal[1])]
    assert found, f"docs/registry.md has no row, under its reason, that quotes a part of: {refusal[1]}"


def test_no_words_that_the_program_does_not_say() -> None:
    said = squeezed(
        "\n".join(text(node) for _, _, node in nodes() if isinstance(node, ast.Constant | ast.JoinedStr))
    )
    spoken = "\n".join(words for _, words in refusals())
    assert [one for one in phrases() if one not in said and one not in squeezed(spoken)] == []


def test_each_kind_is_on_the_page() -> None:
    kinds = {
        node.name.removesuffix("Error")
        for module in MODULES
        for node in ast.parse(module.read_text()).body
        if isinstance(node, ast.ClassDef) and ast.unparse(node.bases[0] if node.bases else ast.Name("")) in
        ("PipelineError", "TransientError")
    }  # fmt: skip
    assert {"TagImmutable", "Throttled", "DigestMismatch"} < kinds
    shown = {
        row.split(" | ")[1].strip()
        for row in PAGE.splitlines()
        if row.startswith("| `") and row.count(" | ") == 3
    }
    assert kinds == shown - {""}


def test_links_within_the_page_lead_somewhere() -> None:
    headings = re.findall(r"^#+ (.+)$", PAGE, flags=re.MULTILINE)
    anchors = {re.sub(r"[^a-z0-9 -]", "", heading.lower()).replace(" ", "-") for heading in headings}
    assert set(re.findall(r"\]\(#([^)]+)\)", PAGE)) - anchors == set()
