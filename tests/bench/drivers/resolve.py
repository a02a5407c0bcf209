"""One reading in a process of its own: ``bundle FOLDER`` or ``nodes URL``; prints seconds and megabytes.

The peak is the process', with Python and the imports that the function has; the time is that of the reading.
"""

import json
import resource
import sys
import time
from pathlib import Path


def main(what: str, where: str) -> None:
    """Read once."""
    if what == "bundle":
        from aicr_pipeline.decide.bundle import content_list, read_bundle

        folder = Path(where)
        files = {
            file.relative_to(folder).as_posix(): file.read_bytes()
            for file in folder.rglob("*")
            if file.is_file()
        }
        began, spent = time.perf_counter(), time.process_time()
        found = len(read_bundle(files).releases)
        content_list(files)
    else:
        from aicr_pipeline.adapters.cluster import Cluster
        from aicr_pipeline.decide.discovery import view_group
        from aicr_pipeline.model.runtime import NodeGroup, Toleration

        group = NodeGroup(
            node_selector={"pool": "gpu"}, tolerations=(Toleration(key="nvidia.com/gpu", operator="Exists"),)
        )
        cluster = Cluster(where, None, lambda: "token")
        began, spent = time.perf_counter(), time.process_time()
        view = view_group(cluster.list("/api/v1/nodes", labelSelector="pool=gpu"), group)
        found = view.usable
    seconds, busy = time.perf_counter() - began, time.process_time() - spent
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(json.dumps({"found": found, "seconds": seconds, "busy": busy, "peak": peak}))


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
