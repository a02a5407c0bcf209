"""``python -m infra.resolve CLUSTER``: resolve the runtime of a deployed cluster again, as who asks.

It takes one right, ``lambda:InvokeFunction`` on the function ``start_resolve``. Exit status: 0 started,
1 not started and why, 2 no such cluster.
"""

import json
import sys
from pathlib import Path

import boto3
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.config import load_cluster_config
from botocore.exceptions import BotoCoreError, ClientError

from infra.names import function_name
from infra.sources import ROOT


def main(name: str) -> int:
    """Ask for ``clusters/<name>.yaml``; returns the exit status."""
    file = ROOT / "clusters" / f"{Path(name).stem}.yaml"
    if not file.is_file():
        print(f"There is no {file.relative_to(ROOT)}; CLUSTER is a name of clusters/.", file=sys.stderr)
        return 2
    try:
        cluster = load_cluster_config(file).cluster
        found = boto3.client("lambda", region_name=cluster.region).invoke(
            FunctionName=function_name(cluster.name, "start_resolve"), Payload=b'{"source":"hand"}'
        )
        answer = json.loads(found["Payload"].read())
    except (PipelineError, BotoCoreError, ClientError) as error:
        print(error, file=sys.stderr)
        return 1
    if "FunctionError" in found:
        print(f"start_resolve failed; its log says why: {answer.get('errorMessage')}", file=sys.stderr)
        return 1
    if not answer["started"]:
        print(f"Not started: {answer.get('because', 'it was asked for within the same second')}.")
        return 1
    print(f"Started {answer['execution']}.")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
