"""One sweep over whatever waits, as the function does it: seconds and peak memory of the whole process.

Argument: the cluster's address. AWS is where the environment says.
"""

import json
import resource
import sys
import time

from aicr_pipeline.actions.look_at_waiters import World
from aicr_pipeline.actions.sweep_waiters import Sweep
from aicr_pipeline.adapters import aws
from aicr_pipeline.adapters.argocd import ArgoCd
from aicr_pipeline.adapters.cluster import Cluster
from aicr_pipeline.adapters.coordination import Coordination
from aicr_pipeline.adapters.ledger import Inbox, Ledger
from aicr_pipeline.clock import now
from aicr_pipeline.model.config import ClusterConfig, Engine


def unasked() -> ClusterConfig:
    """No release asks for the configuration."""
    raise AssertionError("the configuration was asked for")


def main(address: str) -> None:
    """Print what it took."""
    began, busy = time.perf_counter(), time.process_time()
    cluster = Cluster(address, None, lambda: "token")
    world = World(
        Ledger(aws.client("s3"), "ledger"),
        Coordination(aws.client("dynamodb"), "coordination"),
        lambda: cluster,
        lambda: ArgoCd(cluster, Engine()),
        now,
        lambda: Inbox(aws.client("s3"), "inbox"),
        unasked,  # of a Job alone
    )
    sweep = Sweep(world, aws.client("stepfunctions"), "bench", 2.0, -1.0, lambda problem, waiter: None)
    done = sweep.run()
    found = {
        **done,
        "seconds": time.perf_counter() - began,
        "busy": time.process_time() - busy,
        "peak": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024,
    }
    print(json.dumps(found))


if __name__ == "__main__":
    main(sys.argv[1])
