"""``release.json``: what a release consists of, by digest. ``make release`` writes it.

``python -m infra.release CLUSTER FILE``. No network: the same checkout gives the same bytes on any machine.
Exit status: 0 written; 1 not written and why; 2 no such cluster.
"""

import hashlib
import json
import subprocess
import sys
from pathlib import Path

from aicr_pipeline.decide.tree_digest import counts
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model import yaml
from aicr_pipeline.model.base import parse
from aicr_pipeline.model.config import ClusterConfig, load_cluster_config
from aicr_pipeline.model.reasons import Reason
from aicr_pipeline.model.release import QualifiedProfile, Release, ReleasedCluster

from infra.assets import DIGESTED, pipeline_assets
from infra.sources import LOCK, ROOT, Sources

QUALIFIED = ROOT / "qualified.yaml"


def release(config: ClusterConfig, sources: Sources, qualified: Path) -> Release:
    """The document of this checkout, for one cluster's configuration.

    Raises
    ------
    PipelineError
        ``InvalidConfiguration`` for a list of qualified profiles that is none.
    """
    assets = pipeline_assets(config, sources)
    if assets.manifests is None or assets.configuration is None:
        raise PipelineError(
            Reason.InvalidConfiguration, "What is deployed has no manifests; that is a defect."
        )
    return Release(
        version=assets.version,
        commit=commit(ROOT),
        functions=assets.functions,
        layers=assets.layers,
        lock="sha256:" + hashlib.sha256(LOCK.read_bytes()).hexdigest(),
        cluster=ReleasedCluster(
            name=config.cluster.name,
            aicr_image=config.aicr.image,
            aicr_version=config.aicr.version,
            validator_images=config.aicr.validator_images,
            manifests=assets.manifests,
            configuration=assets.configuration,
        ),
        qualified_profiles=_qualified(qualified),
    )


def as_text(made: Release) -> str:
    """The file's content."""
    return json.dumps(made.wire(), indent=2, sort_keys=True) + "\n"


def commit(checkout: Path) -> str | None:
    """The commit that the files are those of; None without git, or where they are not.

    A file that git does not track counts where the digests are made of it: they would be of no commit.
    """
    try:
        head = _git(checkout, "rev-parse", "HEAD")
        changed = _git(checkout, "status", "--porcelain", "--untracked-files=no")
        more = _git(checkout, "ls-files", "--others", "-z", "--", *DIGESTED).split("\0")
        top = _git(checkout, "rev-parse", "--show-toplevel")
    except (OSError, subprocess.SubprocessError):
        return None
    # A folder inside of somebody else's repository is no checkout of this one.
    same = not changed and not any(path and counts(path) for path in more)
    return head if same and Path(top) == checkout.resolve() else None


def _git(checkout: Path, *arguments: str) -> str:
    done = subprocess.run(  # noqa: S603 - our own command line
        ["git", "-C", str(checkout), *arguments],  # noqa: S607 - the one on PATH
        capture_output=True, text=True, check=True, timeout=30,
    )  # fmt: skip
    return done.stdout.strip()


def _qualified(file: Path) -> tuple[QualifiedProfile, ...]:
    found = yaml.load(file.read_bytes(), Reason.InvalidConfiguration, file.name)
    if not isinstance(found, list):
        raise PipelineError(Reason.InvalidConfiguration, f"{file.name} is not a list of profiles.")
    return tuple(
        parse(QualifiedProfile, one, Reason.InvalidConfiguration, f"{file.name}, entry {number}")
        for number, one in enumerate(found, 1)
    )


def main(name: str, target: str) -> int:
    """Write the document of ``clusters/<name>.yaml``; returns the exit status."""
    file = ROOT / "clusters" / f"{Path(name).stem}.yaml"
    if not file.is_file():
        print(f"There is no {file.relative_to(ROOT)}; CLUSTER is a name of clusters/.", file=sys.stderr)
        return 2
    sources = Sources.found(ROOT / "build")
    try:
        made = release(load_cluster_config(file), sources, QUALIFIED)
        Path(target).parent.mkdir(parents=True, exist_ok=True)
        Path(target).write_text(as_text(made))
    except (PipelineError, OSError) as error:
        print(error, file=sys.stderr)
        return 1
    print(
        f"{target}: {made.version}, {len(made.functions)} functions, {len(made.qualified_profiles)} qualified"
    )
    if not sources.dependencies_built:
        print("note: without the dependencies' layer, which is not built: make layer", file=sys.stderr)
    if made.commit is None:
        print("note: without a commit: the files are not those of one", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1], sys.argv[2]))
