"""The AWS side as a CDK app: one construct per capability, ``stack.py`` only wires them."""

import sys
from pathlib import Path

# The stack reads the program's own configuration model, which is a layer and not an installed package.
_PROGRAM = str(Path(__file__).resolve().parent.parent / "layers" / "aicr_pipeline" / "python")
if _PROGRAM not in sys.path:
    sys.path.insert(0, _PROGRAM)

from infra.node import ensure_node  # noqa: E402 - needs nothing of the program

# Whatever of this package is imported first may import aws_cdk, whose jsii starts Node.js at once.
ensure_node()
