"""Job controller, scheduler and kubelet of the local engine, in one stand-in.

It watches ``batch/v1`` Jobs in the embedded cluster's store, makes each one's Pod, finds a node for it, and
runs its containers as child processes of this one. ``command: ["aicr"]`` becomes ``python -m local.aicr``,
or the program that ``AICR_BIN`` names. Volumes are temporary folders, and mount paths in arguments and
environment are rewritten to them; ``KUBECONFIG`` speaks with a token of the Pod's ServiceAccount.

What it reports is what the real parts report: phases, container states, exit codes, termination messages,
logs, the Job's counters and conditions with their reasons. One Pod per Job, as with ``backoffLimit: 0``.
"""

from local.kubelet.kubelet import Kubelet, KubeletSettings

__all__ = ["Kubelet", "KubeletSettings"]
