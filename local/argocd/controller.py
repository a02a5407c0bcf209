"""The controller: one worker that reconciles Applications when something changed or time has come."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

from local.argocd import lies, reconcile
from local.argocd.manifests import Object, Resource, Target
from local.argocd.project import resource_error, spec_errors
from local.argocd.reconcile import Live
from local.argocd.record import Record
from local.argocd.repository import Repository, RepositoryError
from local.argocd.scenario import Fault, Scenario
from local.argocd.settings import ArgoCdSettings
from local.argocd.targets import Targets
from local.argocd.work import WorkQueue
from local.kube.errors import ApiError
from local.kube.options import WriteOptions
from local.kube.resources import APP_PROJECTS, APPLICATIONS
from local.kube.storage import Watch
from local.kube.store import Store

_WRITER = WriteOptions(manager="argocd-controller")
_FINALIZER = "resources-finalizer.argocd.argoproj.io"


class ArgoCdStandin:
    """Reconciles the Applications of a cluster's store.

    Parameters
    ----------
    store
        ``KubeServer.store``; Argo CD's CRDs are installed (``local.kube.argocd_crds``).
    helm
        The Helm program.
    workdir
        Where charts and Helm's own folders are kept.
    settings
        See ArgoCdSettings.
    """

    def __init__(
        self, store: Store, *, helm: Path, workdir: Path, settings: ArgoCdSettings | None = None
    ) -> None:
        self._store = store
        self._settings = settings or ArgoCdSettings()
        self._scenario = self._settings.scenario
        repository = Repository(helm, workdir, self._settings.kube_version)
        self._targets = Targets(store, repository, self._settings.namespace)
        self._silent_until = 0.0
        self._records: dict[str, Record] = {}
        self._queue = WorkQueue()
        self._watches: list[Watch] = []
        self._threads: list[threading.Thread] = []
        self.problems: list[str] = []

    def start(self) -> None:
        """Begin with the Applications that exist."""
        for ref, handle in ((APPLICATIONS, self._application), (APP_PROJECTS, self._project)):
            watch = self._store.watch(ref, namespace=self._settings.namespace)
            self._watches.append(watch)
            self._run(f"argocd-{ref.plural}", self._follow, watch, handle)
        self._run("argocd-controller", self._work)

    def stop(self) -> None:
        """End every thread; a render that runs is waited for."""
        self._queue.close()
        for watch in self._watches:
            watch.close()
        for thread in self._threads:
            thread.join()

    @property
    def scenario(self) -> Scenario:
        """The faults in force."""
        return self._scenario

    @scenario.setter
    def scenario(self, scenario: Scenario) -> None:
        self._scenario = scenario
        for name, record in list(self._records.items()):
            record.forced, record.fault_ends = True, None
            record.synced = record.cached = record.restarted = False
            record.missed, record.operations = set(), 0
            self._queue.put(name)

    def restart(self, seconds: float = 1.0) -> None:
        """Forget everything, as the controller's process does, and be away for a while."""
        names, self._records = list(self._records), {}
        self._silent_until = time.monotonic() + seconds
        for name in names:
            self._queue.put(name, seconds)

    def _fault(self, name: str, record: Record) -> Fault:
        """What goes wrong with an Application now."""
        fault = self._scenario.fault(name, record.operations)
        if fault.seconds is None:
            return fault
        if record.fault_ends is None:
            record.fault_ends = time.monotonic() + fault.seconds
        if time.monotonic() < record.fault_ends:
            if fault.health:
                record.look_again_at = record.fault_ends + 0.01
            return fault
        return Fault()

    def _run(self, name: str, work: Callable[..., None], *arguments: object) -> None:
        thread = threading.Thread(target=work, args=arguments, name=name, daemon=True)
        self._threads.append(thread)
        thread.start()

    @staticmethod
    def _follow(watch: Watch, handle: Callable[[str, Object], None]) -> None:
        for event in watch:
            handle(event.type, event.object)

    def _application(self, kind: str, application: Object) -> None:
        self._queue.put(str(application["metadata"]["name"]))

    def _project(self, kind: str, project: Object) -> None:
        name = project["metadata"]["name"]
        for item in self._store.list(APPLICATIONS, namespace=self._settings.namespace):
            if item["spec"].get("project", "default") == name:
                record = self._records.get(item["metadata"]["name"])
                if record is not None:
                    record.forced = True
                self._queue.put(str(item["metadata"]["name"]))

    def _work(self) -> None:
        while (name := self._queue.next()) is not None:
            try:
                self._reconcile(name)
                self._schedule(name)
            except Exception as error:  # noqa: BLE001  (outermost: one Application must not end the rest)
                self.problems.append(f"{name}: {error!r}")
                self._queue.put(name, 1.0)

    def _schedule(self, name: str) -> None:
        """Come back when the operation ends, workloads have had their time, or a routine refresh is due."""
        record = self._records.get(name)
        if record is None:
            return
        times = [record.finish_at, record.look_again_at, record.refreshed_at + self._settings.poll_seconds]
        self._queue.put(name, max(0.0, min(item for item in times if item is not None) - time.monotonic()))

    def _reconcile(self, name: str) -> None:
        if (silent := self._silent_until - time.monotonic()) > 0:
            self._queue.put(name, silent)
            return
        application = self._store.find(APPLICATIONS, name, namespace=self._settings.namespace)
        if application is None:
            self._records.pop(name, None)
            return
        uid = str(application["metadata"]["uid"])
        record = self._records.get(name)
        if record is None or record.uid != uid:
            record = self._records[name] = Record(uid)
        if application["metadata"].get("deletionTimestamp"):
            self._finalize(application)
            return
        if self._fault(name, record).ignored:
            record.finish_at = record.look_again_at = None
            record.refreshed_at = time.monotonic()
            return
        if application.get("operation"):
            application = self._operate(application, record)
        else:
            record.finish_at = None
        self._refresh(application, record)

    def _finalize(self, application: Object) -> None:
        metadata = application["metadata"]
        kept = [item for item in metadata.get("finalizers") or [] if not item.startswith(_FINALIZER)]
        if kept != (metadata.get("finalizers") or []):
            self._patch(application, {"metadata": {"finalizers": kept}})

    def _operate(self, application: Object, record: Record) -> Object:
        """Take an operation up, or end it when its time has come; the Application as it is then."""
        name = application["metadata"]["name"]
        state = (application.get("status") or {}).get("operationState") or {}
        if state.get("phase") == "Terminating":
            record.finish_at = None
            return self._end(application, record, "Failed", "Operation terminated", "", [])
        if record.finish_at is None:
            record.finish_at = time.monotonic() + self._settings.sync_seconds
            if state.get("phase") == "Running":
                return application  # begun by the process before
            record.operations += 1
            return self._begin(application, record)
        if time.monotonic() < record.finish_at:
            return application
        fault = self._fault(name, record)
        if fault.blocked:
            record.finish_at = min(time.monotonic() + 5.0, record.fault_ends or math.inf)
            done = self._targets.wanted(application) if fault.half else None
            return self._patch(application, reconcile.blocked(done))
        record.finish_at = None
        return self._sync(application, record, fault)

    def _begin(self, application: Object, record: Record) -> Object:
        name = str(application["metadata"]["name"])
        fault = self._fault(name, record)
        record.synced, record.refused = False, reconcile.refused(application)
        begun = self._patch(application, reconcile.begin(application, _now()))
        if fault.leaks:
            begun = self._patch(begun, lies.leaked(self._targets.wanted(application)))
        if fault.automates:
            begun = self._patch(begun, {"spec": {"syncPolicy": {"automated": {"prune": True}}}})
        if fault.restarts and not record.restarted:
            self.restart()
            self._records[name] = Record(record.uid, operations=record.operations, restarted=True)
        return begun

    def _sync(self, application: Object, record: Record, fault: Fault) -> Object:
        # Like the real one it goes on with what operationState has, whatever leaked into that.
        state = (application.get("status") or {}).get("operationState") or {}
        operation = state.get("operation") or application["operation"]
        source, revision = reconcile.sync_source(application, operation)
        project = self._project_of(application)
        if errors := spec_errors(application, project) or record.refused:
            text = "; ".join(f"InvalidSpecError: {message}" for message in errors)
            return self._end(application, record, "Error", text, revision, [])
        try:
            target = self._targets.at(application, source, revision)
        except RepositoryError as error:
            patch = reconcile.not_loaded(application, str(error), _now())
            text = f"ComparisonError: {patch['status']['conditions'][0]['message']}"
            return self._end(application, record, "Error", text, revision, [])
        persons = lies.is_persons(operation)
        if fault.operation or (persons and fault.somebody == "failed"):
            namespace = str((application["spec"].get("destination") or {}).get("namespace", ""))
            results = lies.blamed(fault, namespace)
            words = lies.NOT_COMPLETE if results else fault.message or lies.NOT_COMPLETE
            phase = fault.operation or "Failed"
            return self._end(application, record, phase, words, target.revision, results)
        refused: dict[Resource, str] = {
            resource: text
            for resource in target.resources
            if project is not None and (text := resource_error(project, application, resource))
        }
        results = reconcile.applied(target, refused)
        if (operation.get("sync") or {}).get("resources"):
            # One resource was applied: the rest is as it was before.
            return self._end(
                application, record, "Succeeded", reconcile.ALL_RUN, target.revision, results[:1]
            )
        if refused:
            return self._end(application, record, "Failed", reconcile.NOT_VALID, target.revision, results)
        moved = record.live is None or record.live.digest != target.digest
        if moved or record.live is None:
            plain = tuple(resource for resource in target.resources if not resource.hook)
            record.live = Live(target.digest, _now(), plain)
        ended = self._end(application, record, "Succeeded", reconcile.ALL_RUN, target.revision, results)
        if fault.stale:
            ended = self._patch(ended, lies.from_before(ended, target))
        if fault.somebody and not persons:
            ended = self._patch(ended, lies.somebodys(fault.somebody, target))
        return ended

    def _end(
        self,
        application: Object,
        record: Record,
        phase: str,
        message: str,
        revision: str,
        results: list[Object],
    ) -> Object:
        state = (application.get("status") or {}).get("operationState") or {}
        operation = state.get("operation") or application["operation"]
        source, _ = reconcile.sync_source(application, operation)
        patch = reconcile.ended(application, operation, source, phase, message, revision, results, _now())
        record.synced = phase == "Succeeded"
        # A sync is followed by a comparison, so that health is not from before it.
        record.forced = not self._fault(str(application["metadata"]["name"]), record).stale
        return self._patch(application, patch)

    def _refresh(self, application: Object, record: Record) -> None:
        name = application["metadata"]["name"]
        since = time.monotonic() - record.refreshed_at
        due = since >= self._settings.poll_seconds
        forced = record.forced or (
            record.look_again_at is not None and time.monotonic() >= record.look_again_at
        )
        reason = reconcile.refresh_reason(application, forced=forced, due=due)
        fault = self._fault(name, record)
        if reason is None or (reason == "annotation" and self._misses(application, record, fault)):
            return
        record.forced = False
        record.look_again_at = None
        record.refreshed_at = time.monotonic()
        if errors := spec_errors(application, self._project_of(application)):
            self._patch(application, reconcile.invalid(application, errors, _now()))
            return
        annotations = application["metadata"].get("annotations") or {}
        hard = annotations.get(reconcile.REFRESH) == "hard"
        try:
            if record.synced and fault.away:
                raise RepositoryError(lies.AWAY)
            if record.synced and fault.cached and not record.cached:
                record.cached = True
                self._targets.remember(application, fault.message)
            target = self._targets.wanted(application, hard=hard)
        except RepositoryError as error:
            # A new spec and a request are answered; what Argo CD compares on its own it keeps quiet about.
            if reason in ("due", "forced") and self._within_grace(record):
                return
            self._patch(application, reconcile.not_loaded(application, str(error), _now()))
            return
        record.failing_since = None
        if record.live is None:
            record.live = self._recover(application, target)
        settled = self._settled(record)
        synced = record.live is not None and record.live.digest == target.digest
        operation, sync_error = reconcile.auto_sync(application, target, synced=synced)
        patch = reconcile.compared(
            application,
            target,
            record.live,
            _now(),
            settled=settled,
            fault=fault,
            sync_error=sync_error,
        )
        self._patch(application, patch)
        if operation is not None:
            self._start(name, operation)

    def _start(self, name: str, operation: Object) -> None:
        """Automated sync, as SetAppOperation starts it: never over another operation, whoever is faster."""
        found = self._store.find(APPLICATIONS, name, namespace=self._settings.namespace)
        if found is None or found.get("operation") or not reconcile.is_automated(found):
            return
        version = {"resourceVersion": found["metadata"]["resourceVersion"]}
        patch = {"metadata": version, "operation": operation, "status": {"operationState": None}}
        try:
            self._patch(found, patch)
        except ApiError as error:
            if error.code != 409:
                raise

    @staticmethod
    def _misses(application: Object, record: Record, fault: Fault) -> bool:
        """Whether this request for a refresh is not seen: only another write makes the controller look."""
        record.missed.add(str(application["metadata"]["resourceVersion"]))
        return len(record.missed) <= fault.missed

    def _within_grace(self, record: Record) -> bool:
        """Argo CD keeps quiet for a while about a repository that a routine refresh could not reach."""
        if record.failing_since is None:
            record.failing_since = time.monotonic()
        return time.monotonic() - record.failing_since < self._settings.error_grace_seconds

    def _settled(self, record: Record) -> bool:
        """Whether workloads had their time; has another look taken when they had not."""
        if record.live is None:
            return False
        healthy_at = record.live.changed_at + timedelta(seconds=self._settings.health_seconds)
        remaining = (healthy_at - _now()).total_seconds()
        if remaining <= 0:
            return True
        record.look_again_at = time.monotonic() + remaining
        return False

    def _recover(self, application: Object, target: Target) -> Live | None:
        """What was applied before this process began, from the history that Argo CD keeps."""
        history = (application.get("status") or {}).get("history") or []
        if not history:
            return None
        last = history[-1]
        try:
            before = self._targets.at(application, last["source"], str(last["revision"]))
        except RepositoryError:
            before = replace(target, digest="")
        plain = tuple(resource for resource in before.resources if not resource.hook)
        return Live(before.digest, _now() - timedelta(days=1), plain)

    def _project_of(self, application: Object) -> Object | None:
        name = str(application["spec"].get("project") or "default")
        return self._store.find(APP_PROJECTS, name, namespace=self._settings.namespace)

    def _patch(self, application: Object, patch: Object) -> Object:
        name = application["metadata"]["name"]
        try:
            return self._store.merge(
                APPLICATIONS, name, patch, namespace=self._settings.namespace, options=_WRITER
            )
        except ApiError as error:
            if error.code != 404:
                raise
            return application


def _now() -> datetime:
    return datetime.now(UTC)
