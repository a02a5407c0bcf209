"""The CDK app: one stack per ``clusters/<name>.yaml``. ``-c cluster=<name>`` picks one."""

import json
import os
import sys
from pathlib import Path

from infra.node import ensure_node

ensure_node()

from aicr_pipeline.errors import PipelineError  # noqa: E402
from aicr_pipeline.model.config import load_cluster_config  # noqa: E402
from aws_cdk import App, Validations  # noqa: E402 - jsii starts Node.js when imported
from cdk_nag import AwsSolutionsChecks  # noqa: E402

from infra.sources import ROOT, Sources  # noqa: E402
from infra.stack import PipelineStack  # noqa: E402


def main() -> None:
    """Synthesize into CDK_OUTDIR."""
    # The CLI passes cdk.json's context along; here it is read, so that both give the same template.
    app = App(analytics_reporting=False, context=json.loads((ROOT / "cdk.json").read_text())["context"])
    Validations.of(app).add_plugins(AwsSolutionsChecks(app))
    build = Path(os.environ.get("BUILD_DIR", ROOT / "build"))
    folder = Path(os.environ.get("CLUSTERS_DIR", ROOT / "clusters"))
    chosen = app.node.try_get_context("cluster") or os.environ.get("CLUSTER") or "*"
    files = sorted(folder.glob(f"{chosen}.yaml"))
    if not files:
        sys.exit(f"There is no {folder}/{chosen}.yaml.")
    named: dict[str, Path] = {}
    for file in files:
        try:
            config = load_cluster_config(file)
        except PipelineError as error:
            sys.exit(str(error))
        if (other := named.setdefault(config.cluster.name, file)) != file:
            sys.exit(
                f"{other.name} and {file.name} both have cluster.name {config.cluster.name}; one is a copy."
            )
        PipelineStack(
            app,
            config,
            Sources.found(build),
            account=app.node.try_get_context("account") or config.cluster.account,
            region=app.node.try_get_context("region") or config.cluster.region,
            deployment_role=app.node.try_get_context("deploymentRole"),
        )
    app.synth()


if __name__ == "__main__":
    main()
