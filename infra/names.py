"""Physical names, where something outside the stack must know them before it exists.

Role names go into access entries that another account may make; machine names break the circle
between a machine, the functions that it calls and the functions that call it.
"""

import hashlib


def function_name(cluster: str, function: str) -> str:
    """``aicr-pipeline-<cluster>-<function>``, of a function and of its role; at most 64 characters."""
    name = f"aicr-pipeline-{cluster}-{function}"
    if len(name) <= 64:
        return name
    # Long cluster names are cut; the digest of the whole keeps two of them apart.
    tail = f"-{hashlib.sha256(cluster.encode()).hexdigest()[:6]}-{function}"
    return f"aicr-pipeline-{cluster}"[: 64 - len(tail)] + tail


def machine_name(cluster: str, machine: str) -> str:
    """``aicr-pipeline-<cluster>-<machine>``; a cluster has at most 40 characters, a machine 80."""
    return f"aicr-pipeline-{cluster}-{machine}"


def kubernetes_group(function: str) -> str:
    """The group that the function's role is mapped to in the cluster; RBAC speaks of it."""
    return f"aicr-pipeline:{function}"


def metrics_namespace(cluster: str) -> str:
    """Where the functions of a cluster put their metrics."""
    return f"AicrPipeline/{cluster}"


def partition_of(region: str) -> str:
    """AWS's partition of a region."""
    prefixes = {"cn-": "aws-cn", "us-gov-": "aws-us-gov", "eusc-": "aws-eusc"}
    return next((name for prefix, name in prefixes.items() if region.startswith(prefix)), "aws")
