"""Argo CD's application controller and repo server, for the local engine.

It reconciles the ``Application`` objects in the embedded cluster's store: finds credentials in the
repo-creds Secret, asks the OCI registry for the pinned digest, pulls the chart, renders it with real Helm,
checks the AppProject, compares, syncs and reports, in the order and with the words that Argo CD uses.
Rendered objects are listed, not created: health follows from the kinds and a short delay.

Where Argo CD surprises, so does this: status is written by merge patch (fields of an older operation stay
unless they are removed), there is no observedGeneration, a changed Secret refreshes nothing by itself, times
have whole seconds. ``Scenario`` makes single Applications fail on purpose. Not here: retries of operations,
sync windows as schedules, other sources than OCI.
"""

from local.argocd.controller import ArgoCdStandin
from local.argocd.scenario import Fault, Scenario
from local.argocd.settings import ArgoCdSettings

__all__ = ["ArgoCdSettings", "ArgoCdStandin", "Fault", "Scenario"]
