"""What the Argo CD stand-in is told."""

from __future__ import annotations

from dataclasses import dataclass, field

from local.argocd.scenario import Scenario


@dataclass(frozen=True)
class ArgoCdSettings:
    """Settings of the stand-in; durations in seconds.

    Attributes
    ----------
    namespace
        Where Applications, AppProjects and credentials are.
    sync_seconds
        How long an operation is Running at least.
    health_seconds
        How long new workloads are Progressing.
    poll_seconds
        An Application that nothing changed is refreshed this often (Argo CD: 120 and jitter).
    error_grace_seconds
        How long a refresh that was only due keeps quiet about an unreachable repository.
    server
        The destination server that is this cluster.
    kube_version
        What charts see as the cluster's version.
    scenario
        Faults, by Application.
    """

    namespace: str = "argocd"
    sync_seconds: float = 0.1
    health_seconds: float = 0.3
    poll_seconds: float = 150.0
    error_grace_seconds: float = 180.0
    server: str = "https://kubernetes.default.svc"
    kube_version: str = "1.34.0"
    scenario: Scenario = field(default_factory=Scenario)
