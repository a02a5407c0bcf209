"""Where the assets come from, and one hash over the program for the machines' versions."""

import hashlib
import shutil
from dataclasses import dataclass
from pathlib import Path

from aicr_pipeline.model.config import ClusterConfig

ROOT = Path(__file__).resolve().parent.parent
PROGRAM = ROOT / "layers" / "aicr_pipeline"
FUNCTIONS_FOLDER = ROOT / "functions"
LOCK = ROOT / "requirements.lock"
NOT_SOURCE = ("__pycache__", "*.pyc")


@dataclass(frozen=True)
class Sources:
    """Folders that become assets. ``build`` is where generated ones are put."""

    build: Path
    dependencies: Path

    @classmethod
    def found(cls, build: Path) -> "Sources":
        """The dependency layer if ``infra.build_layer`` has made it, else an empty one to synthesize with."""
        dependencies = build / "layers" / "dependencies"
        if not (dependencies / "python").is_dir():
            dependencies = build / "layers" / "not-built"
            dependencies.mkdir(parents=True, exist_ok=True)
            (dependencies / "NOT_BUILT").write_text("Run python -m infra.build_layer before a deployment.\n")
        return cls(build, dependencies)

    @property
    def dependencies_built(self) -> bool:
        """Whether the stack could be deployed."""
        return (self.dependencies / "python").is_dir()

    def function(self, name: str) -> Path:
        """The folder of a function."""
        return FUNCTIONS_FOLDER / name

    def configuration(self, config: ClusterConfig) -> Path:
        """Write the validated configuration where functions find it as ``/opt/cluster/cluster.json``."""
        folder = self.build / "config" / config.cluster.name
        shutil.rmtree(folder, ignore_errors=True)
        (folder / "cluster").mkdir(parents=True)
        (folder / "cluster" / "cluster.json").write_text(
            config.model_dump_json(by_alias=True, exclude_none=True)
        )
        return folder

    def version(self, definition: str, config: ClusterConfig) -> str:
        """12 hex digits that change with the definition, the program, its dependencies or settings."""
        digest = hashlib.sha256(definition.encode())
        digest.update(config.model_dump_json(by_alias=True).encode())
        digest.update(tree_hash(PROGRAM, FUNCTIONS_FOLDER, LOCK).encode())
        return digest.hexdigest()[:12]


def tree_hash(*places: Path) -> str:
    """SHA-256 over the relative paths and bytes of all source files under ``places``."""
    digest = hashlib.sha256()
    for place in places:
        files = [place] if place.is_file() else sorted(place.rglob("*"))
        for file in files:
            if not file.is_file() or "__pycache__" in file.parts or file.suffix == ".pyc":
                continue
            name = file.name if file == place else file.relative_to(place).as_posix()
            digest.update(f"{place.name}/{name}\0".encode())
            digest.update(hashlib.sha256(file.read_bytes()).digest())
    return digest.hexdigest()
