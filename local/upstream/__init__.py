"""The publishers' chart servers, on one machine: Helm repositories and registries under one port."""

from local.upstream.server import UpstreamCharts

__all__ = ["UpstreamCharts"]
