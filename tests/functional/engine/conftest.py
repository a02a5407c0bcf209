"""A small cdk.out folder with everything the engine runs, and one engine on it per module."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from infra.sources import ROOT
from infra.synth import synthesize
from local.aws import LocalAws
from tests.functional.engine.sample import template
from tests.functional.engine.sample_parts import HANDLERS, LAYER, ecr_token

STACK = "Sample"


def write_cdk_out(
    folder: Path,
    document: dict[str, Any],
    handlers: dict[str, str],
    layers: dict[str, dict[str, str]] | None = None,
) -> Path:
    """A cdk.out as the CDK writes it; asset hashes are the handlers' names."""
    folder.mkdir(parents=True, exist_ok=True)
    files: dict[str, Any] = {}
    contents = {name: {"handler.py": code} for name, code in handlers.items()} | (layers or {})
    for name, tree in contents.items():
        for path, text in tree.items():
            target = folder / f"asset.{name}" / path
            target.parent.mkdir(parents=True, exist_ok=True)
            target.write_text(text)
        files[name] = {
            "source": {"path": f"asset.{name}", "packaging": "zip"},
            "destinations": {"here": {"bucketName": "assets", "objectKey": f"{name}.zip"}},
        }
    (folder / f"{STACK}.template.json").write_text(json.dumps(document))
    (folder / f"{STACK}.assets.json").write_text(json.dumps({"version": "1", "files": files}))
    manifest = {
        "artifacts": {
            STACK: {
                "type": "aws:cloudformation:stack",
                "environment": "aws://111122223333/us-west-2",
                "properties": {"templateFile": f"{STACK}.template.json", "stackName": STACK},
            }
        }
    }
    (folder / "manifest.json").write_text(json.dumps(manifest))
    return folder


@pytest.fixture(scope="session")
def demo_template() -> Path:
    """The cdk.out of the project's own demo cluster; making it is what takes longest in these modules."""
    return synthesize(ROOT / "clusters" / "demo.yaml")


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[LocalAws]:
    base = tmp_path_factory.mktemp("engine")
    cdk_out = write_cdk_out(base / "cdk.out", template(), HANDLERS, LAYER)
    opt = base / "opt"
    opt.mkdir()
    (opt / "cluster.json").write_text('{"from": "the override"}')
    with LocalAws(
        cdk_out,
        STACK,
        workdir=base / "work",
        opt_overrides={"/opt/cluster": opt},
        ecr_token=ecr_token,
        retry_delays=(0.05,),
        idle_seconds=30.0,
        max_processes=4,
        preload=("boto3.session", "botocore.httpsession", "botocore.parsers"),
    ) as running:
        yield running
