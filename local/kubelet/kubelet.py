"""The stand-in itself: two watches that start and end the runs of Jobs."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path

from local.kube.resources import JOBS, PODS
from local.kube.storage import Watch
from local.kube.store import Store
from local.kubelet.job_run import JobRun
from local.kubelet.objects import Object, is_finished
from local.kubelet.settings import KubeletSettings

__all__ = ["Kubelet", "KubeletSettings"]


class Kubelet:
    """Runs the Jobs of a cluster's store.

    Parameters
    ----------
    store
        ``KubeServer.store``.
    workdir
        Where Pods' volumes and kubeconfigs go; each Pod's folder is removed when it ends.
    settings
        See KubeletSettings.
    """

    def __init__(self, store: Store, *, workdir: Path, settings: KubeletSettings) -> None:
        self._store = store
        self._workdir = workdir
        self._settings = settings
        self._lock = threading.Lock()
        self._runs: dict[str, JobRun] = {}
        self._by_pod: dict[tuple[str, str], JobRun] = {}
        self._watches: list[Watch] = []
        self._threads: list[threading.Thread] = []
        self._stopping = False

    def start(self) -> None:
        """Begin with the Jobs that exist."""
        for ref, handle in ((PODS, self._pod), (JOBS, self._job)):
            watch = self._store.watch(ref)
            thread = threading.Thread(
                target=self._follow, args=(watch, handle), name=f"kubelet-{ref.plural}", daemon=True
            )
            self._watches.append(watch)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        """End every child process and thread."""
        self._stopping = True
        for watch in self._watches:
            watch.close()
        for thread in self._threads:
            thread.join()
        with self._lock:
            runs = list(self._runs.values())
        for run in runs:
            run.forget_job()
            run.cancel()
        for run in runs:
            run.join()

    @staticmethod
    def _follow(watch: Watch, handle: Callable[[str, Object], None]) -> None:
        for event in watch:
            handle(event.type, event.object)

    def _job(self, kind: str, job: Object) -> None:
        uid = str(job["metadata"]["uid"])
        with self._lock:
            run = self._runs.get(uid)
        if kind == "DELETED":
            if run is not None:
                run.forget_job()
            return
        if (
            run is not None
            or is_finished(job)
            or job["spec"].get("suspend")
            or job["metadata"].get("deletionTimestamp")
            or (job.get("status") or {}).get("startTime")
        ):
            return
        run = JobRun(self._store, job, self._workdir / uid, self._settings, lambda: self._finished(uid))
        with self._lock:
            self._runs[uid] = run
            self._by_pod[(str(job["metadata"]["namespace"]), run.pod_name)] = run
        run.start()

    def _pod(self, kind: str, pod: Object) -> None:
        metadata = pod["metadata"]
        if kind != "DELETED" and not metadata.get("deletionTimestamp"):
            return
        with self._lock:
            run = self._by_pod.get((str(metadata["namespace"]), str(metadata["name"])))
        if run is not None:
            run.cancel()

    def _finished(self, uid: str) -> None:
        with self._lock:
            run = self._runs.pop(uid)
            self._by_pod = {key: value for key, value in self._by_pod.items() if value is not run}
