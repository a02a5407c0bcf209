"""Somebody who has the archive of a rollout's evidence, and nothing of ours: only what Debian has."""

import re
import subprocess
from pathlib import Path


def commands(readme: str) -> str:
    return "".join(re.findall(r"^```sh\n(.*?)^```$", readme, re.MULTILINE | re.DOTALL))


def run(folder: Path) -> subprocess.CompletedProcess[str]:
    """In a folder, with nothing but Debian's own programs."""
    script = commands((folder / "README.md").read_text())
    return subprocess.run(
        ["bash", "-c", script],
        cwd=folder,
        capture_output=True,
        text=True,
        check=False,
        env={"PATH": "/usr/bin:/bin"},
    )
