"""The contender that is ours: all charts of a job with the adapter, eight at a time, on one transport.

``ours.py JOB [MODULE]``; a module named is imported first, as boto3 is in the functions.
"""

import importlib
import json
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, cast

from aicr_pipeline.adapters.http import Transport
from aicr_pipeline.adapters.mirror import Destination, mirror_chart
from aicr_pipeline.adapters.registry_auth import FixedCredentials


class Source(NamedTuple):
    """The fields of ``model.plan.UpstreamSource``, whose pydantic is no part of a copy."""

    chart: str
    repo: str
    version: str


def main(path: str) -> None:
    """Mirror the job's charts and print the requests and what was pushed."""
    job: dict[str, Any] = json.loads(Path(path).read_text())
    transport = Transport(frozenset(job["plain"]))
    destination = Destination(
        job["host"], job["prefix"], transport, FixedCredentials(job["user"], job["password"])
    )
    sources = [Source(chart["chart"], chart["repo"], chart["version"]) for chart in job["charts"]]
    with ThreadPoolExecutor(8) as pool:
        results = list(pool.map(lambda source: mirror_chart(cast(Any, source), destination), sources))
    print(
        json.dumps({"requests": sum(r.requests for r in results), "pushed": sum(r.pushed for r in results)})
    )


if __name__ == "__main__":
    for module in sys.argv[2:]:
        importlib.import_module(module)
    main(sys.argv[1])
