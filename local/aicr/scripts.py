"""The bundle's texts for people: README.md, deploy.sh and each release's install.sh. Our own words."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from local.aicr.bundle import Release

_INSTALL_CHART = """#!/usr/bin/env bash
# Installs the release {name} from its upstream chart.
set -euo pipefail
cd "$(dirname "${{BASH_SOURCE[0]}}")"
source ./upstream.env
helm upgrade --install {name} "$CHART" ${{REPO:+--repo "$REPO"}} --version "$VERSION" \\
  --namespace {namespace} --create-namespace \\
  -f values.yaml -f cluster-values.yaml "$@"
"""

_INSTALL_WRAPPER = """#!/usr/bin/env bash
# Installs the release {name} from the templates in this folder.
set -euo pipefail
cd "$(dirname "${{BASH_SOURCE[0]}}")"
helm upgrade --install {name} . --namespace {namespace} --create-namespace \\
  -f values.yaml -f cluster-values.yaml "$@"
"""


def install(name: str, namespace: str, *, is_wrapper: bool) -> str:
    """install.sh of a release."""
    return (_INSTALL_WRAPPER if is_wrapper else _INSTALL_CHART).format(name=name, namespace=namespace)


def deploy(folders: list[str]) -> str:
    """deploy.sh: every install.sh in order."""
    steps = "".join(f'bash "$root/{folder}/install.sh" --wait\n' for folder in folders)
    return (
        "#!/usr/bin/env bash\n# Installs every release of this bundle, in order.\nset -euo pipefail\n"
        f'root="$(cd "$(dirname "${{BASH_SOURCE[0]}}")" && pwd)"\n{steps}'
    )


def readme(found: list[Release], folders: dict[str, str], recipe: dict[str, Any]) -> str:
    """README.md: what the bundle is for and what it installs, in order."""
    criteria = ", ".join(f"{key} {value}" for key, value in sorted(recipe["criteria"].items()))
    rows = "".join(
        f"| {folders[release.name]} | {release.component.namespace} | "
        + ("templates in the folder" if release.is_wrapper else f"{release.component.chart} ")
        + ("" if release.is_wrapper else release.component.version)
        + " |\n"
        for release in found
    )
    return (
        "# Sample bundle\n\n"
        f"Rendered by the local engine's stand-in for {criteria}.\n\n"
        f"| Folder | Namespace | Chart |\n| --- | --- | --- |\n{rows}\n"
        "`deploy.sh` installs the releases one after another with Helm.\n"
    )
