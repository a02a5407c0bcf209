"""The embedded cluster with so many accelerated nodes, until its input ends; prints its address."""

import sys

from local.kube import NODES, KubeServer

#: Images that a kubelet reports: most of a node's 15 KB on a real cluster.
IMAGES = [
    {"names": [f"registry.example/team/image-{number}@sha256:{number:064x}"], "sizeBytes": number * 1_000_000}
    for number in range(50)
]


def node(number: int) -> dict[str, object]:
    """As large as a real one, most of it of no interest here."""
    labels = {f"feature.node.kubernetes.io/cpu-{index}": "true" for index in range(60)}
    labels |= {"pool": "gpu", "node.kubernetes.io/instance-type": "p5.48xlarge"}
    taint = {"key": "nvidia.com/gpu", "value": "present", "effect": "NoSchedule"}
    return {
        "metadata": {"name": f"node-{number:05d}", "labels": labels},
        "spec": {"providerID": f"aws:///us-west-2a/i-{number:017x}", "taints": [taint]},
        "status": {"nodeInfo": {"osImage": "Ubuntu 24.04.3 LTS"}, "images": IMAGES},
    }


def main(count: int) -> None:
    """Serve until standard input is closed."""
    with KubeServer() as server:
        for number in range(count):
            server.store.create(NODES, node(number))
        print(server.url, flush=True)
        sys.stdin.read()


if __name__ == "__main__":
    main(int(sys.argv[1]))
