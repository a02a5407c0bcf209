"""One Job from its Pod to its end: a thread that makes the Pod, places it, runs it and reports."""

from __future__ import annotations

import json
import shutil
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

from local.kube.errors import ApiError
from local.kube.options import DeleteOptions, WriteOptions
from local.kube.resources import CONFIG_MAPS, EVENTS, JOBS, NODES, PODS, SECRETS, Ref
from local.kube.storage import Watch
from local.kube.store import Store
from local.kubelet import objects
from local.kubelet.mounts import environment, expand, kubeconfig, mount_table, prepare_volumes, rewrite
from local.kubelet.objects import Object
from local.kubelet.process import ContainerProcess
from local.kubelet.settings import KubeletSettings, entrypoint

_CONTROLLER = WriteOptions(manager="kube-controller-manager")
_KUBELET = WriteOptions(manager="kubelet")
_LOOKUP = {"secrets": SECRETS, "configmaps": CONFIG_MAPS}


class _Over(Exception):  # noqa: N818  (not an error: the run's way out)
    """The run ends now: its Pod was deleted, its deadline passed or the stand-in stops."""


class JobRun:
    """The run of one Job. ``cancel`` ends it from any thread; ``done`` is called once, last."""

    def __init__(
        self, store: Store, job: Object, folder: Path, settings: KubeletSettings, done: Callable[[], None]
    ) -> None:
        self._store = store
        self._job = job
        self._namespace = str(job["metadata"]["namespace"])
        self._name = str(job["metadata"]["name"])
        self._folder = folder
        self._settings = settings
        self._done = done
        seconds = job["spec"].get("activeDeadlineSeconds")
        self._deadline = time.monotonic() + seconds if seconds is not None else None
        self._wake = threading.Condition()
        self._cancelled = False
        self._gone = False
        self._watch: Watch | None = None
        self._processes: list[ContainerProcess] = []
        self.pod_name = str(objects.pod_for(job)["metadata"]["name"])
        self._thread = threading.Thread(target=self._run, name=f"job-{self._name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def cancel(self) -> None:
        """The Pod is being deleted, or the stand-in stops: end the containers."""
        with self._wake:
            self._cancelled = True
            self._wake.notify_all()
            watch = self._watch
        if watch is not None:
            watch.close()

    def forget_job(self) -> None:
        """The Job is gone: its status is nobody's any more."""
        self._gone = True

    def join(self) -> None:
        """Wait for the end."""
        self._thread.join()

    def _run(self) -> None:
        try:
            self._attempt()
        except _Over:
            self._ended_early()
        except ApiError as error:
            # A refused Pod (Pod Security, say): the real controller retries until the deadline.
            self._store.create(
                EVENTS,
                objects.failed_create(self._job, error.message, _now()),
                namespace=self._namespace,
                options=_CONTROLLER,
            )
            self._wait_for_end()
        finally:
            for process in self._processes:
                process.kill()
                process.join()
            shutil.rmtree(self._folder, ignore_errors=True)
            self._done()

    def _wait_for_end(self) -> None:
        try:
            self._sleep(lambda: False)
        except _Over:
            self._ended_early()

    def _attempt(self) -> None:
        pod = self._store.create(
            PODS, objects.pod_for(self._job), namespace=self._namespace, options=_CONTROLLER
        )
        self._write_job(objects.job_started(_now()))
        pod = self._place(pod)
        self._folder.mkdir(parents=True)
        started = _now()
        init = pod["spec"].get("initContainers") or []
        containers = pod["spec"]["containers"]
        states = {item["name"]: objects.waiting("PodInitializing") for item in [*init, *containers]}

        def report(phase: str) -> None:
            statuses = [
                [objects.container_status(item, states[item["name"]], self._settings.tags) for item in group]
                for group in (init, containers)
            ]
            self._write_pod(objects.pod_status(phase, started, _now(), *statuses))

        if problem := self._image_problem([*init, *containers]):
            name, message = problem
            states[name] = objects.waiting("ImagePullBackOff", message)
            report("Pending")
            self._sleep(lambda: False)
        states |= {item["name"]: objects.waiting("ContainerCreating") for item in [*init, *containers]}
        report("Pending")
        folders = prepare_volumes(pod, self._folder, self._lookup)
        for group in [*([item] for item in init), containers]:
            phase = "Running" if group is containers else "Pending"
            if not self._run_group(pod, group, folders, states, partial(report, phase)):
                report("Failed")
                self._write_job(objects.job_failed(_now(), "BackoffLimitExceeded"))
                return
        report("Succeeded")
        self._write_job(objects.job_succeeded(_now()))

    def _run_group(
        self,
        pod: Object,
        group: list[Object],
        folders: dict[str, Path],
        states: dict[str, Object],
        report: Callable[[], None],
    ) -> bool:
        """Run containers beside each other; True when all end with 0."""
        running: dict[str, ContainerProcess] = {}
        began = _now()
        for container in group:
            running[container["name"]] = self._start(pod, container, folders)
            states[container["name"]] = {"running": {"startedAt": began}}
        report()
        self._sleep(lambda: all(process.exit_code is not None for process in running.values()))
        for container in group:
            process = running[container["name"]]
            code = process.exit_code or 0
            message = self._termination_message(container, process, failed=code != 0)
            states[container["name"]] = objects.terminated(code, began, _now(), message)
        return all(process.exit_code == 0 for process in running.values())

    def _start(self, pod: Object, container: Object, folders: dict[str, Path]) -> ContainerProcess:
        folder = self._folder / "containers" / container["name"]
        folder.mkdir(parents=True)
        mounts = mount_table(container, folders)
        message = str(folder / "message")
        mounts[container.get("terminationMessagePath", "/dev/termination-log")] = message
        command = [*(container.get("command") or [entrypoint(str(container.get("image", "")))])]
        program = self._settings.commands.get(command[0], (command[0],))
        arguments = [*command[1:], *(container.get("args") or [])]
        variables = environment(container, pod, self._lookup)
        arguments = [expand(item, variables) for item in arguments]
        config = folder / "kubeconfig"
        config.write_text(json.dumps(self._kubeconfig(pod, folder)))
        process = ContainerProcess(
            [*program, *(rewrite(item, mounts) for item in arguments)],
            {
                **self._settings.environment,
                "HOME": str(folder),
                "TMPDIR": str(folder),
                "KUBECONFIG": str(config),
                "TERMINATION_MESSAGE_PATH": message,
                **{key: rewrite(value, mounts) for key, value in variables.items()},
            },
            folder,
            log=partial(self._write_log, str(container["name"])),
            ended=self._notify,
        )
        self._processes.append(process)
        return process

    def _write_log(self, container: str, text: str) -> None:
        try:
            self._store.append_log(self._namespace, self.pod_name, container, text)
        except ApiError as error:
            if error.code != 404:  # a Pod that is deleted takes its log along
                raise

    def _kubeconfig(self, pod: Object, folder: Path) -> Object:
        ca_file = None
        if self._settings.ca_pem:
            ca_file = folder / "ca.pem"
            ca_file.write_text(self._settings.ca_pem)
        account = str(pod["spec"].get("serviceAccountName") or "default")
        token = self._settings.token(self._namespace, account)
        return kubeconfig(self._settings.server, ca_file, self._namespace, token)

    def _termination_message(self, container: Object, process: ContainerProcess, *, failed: bool) -> str:
        file = self._folder / "containers" / str(container["name"]) / "message"
        if file.is_file():
            return file.read_text(errors="replace")[:4096]
        fallback = container.get("terminationMessagePolicy") == "FallbackToLogsOnError"
        return str(process.tail) if failed and fallback else ""

    def _place(self, pod: Object) -> Object:
        """Give the Pod a node, waiting for one that fits."""
        with self._watching(NODES) as watch:
            while True:
                nodes = self._store.list(NODES)
                fitting = objects.feasible(pod["spec"], nodes)
                if fitting:
                    return self._store.merge(
                        PODS,
                        self.pod_name,
                        {"spec": {"nodeName": fitting[0]}},
                        namespace=self._namespace,
                        options=WriteOptions(manager="kube-scheduler"),
                    )
                self._write_pod(objects.pending_unschedulable(len(nodes), _now()))
                self._next(watch)

    def _image_problem(self, containers: list[Object]) -> tuple[str, str] | None:
        allowed = self._settings.images
        if allowed is None:
            return None
        for container in containers:
            image = str(container.get("image", ""))
            if image not in allowed and image.rpartition("@")[2] not in allowed:
                return str(container["name"]), f'Back-off pulling image "{image}": not found'
        return None

    def _lookup(self, kind: str, name: str) -> Object:
        """A Secret or ConfigMap, waiting for it: a Job's own Secret is written after the Job."""
        ref = _LOOKUP[kind]
        with self._watching(ref) as watch:
            while True:
                found = self._store.find(ref, name, namespace=self._namespace)
                if found is not None:
                    return found
                self._next(watch)

    def _watching(self, ref: Ref) -> Watch:
        namespaced = None if ref is NODES else self._namespace
        watch = self._store.watch(ref, namespace=namespaced)
        with self._wake:
            self._watch = watch
        return watch

    def _next(self, watch: Watch) -> None:
        """Wait for a change; raises _Over at the deadline or when cancelled."""
        event = None if self._cancelled else watch.next(self._remaining())
        if event is None:
            raise _Over

    def _notify(self) -> None:
        with self._wake:
            self._wake.notify_all()

    def _sleep(self, ready: Callable[[], bool]) -> None:
        """Wait until ``ready``; raises _Over at the deadline or when cancelled."""
        with self._wake:
            while not ready():
                remaining = self._remaining()
                if self._cancelled or (remaining is not None and remaining <= 0):
                    raise _Over
                self._wake.wait(remaining)

    def _remaining(self) -> float | None:
        return None if self._deadline is None else max(0.0, self._deadline - time.monotonic())

    def _ended_early(self) -> None:
        for process in self._processes:
            process.kill()
            process.join()
        # A Pod that is deleted under its Job counts as failed; a deadline that passed says so.
        reason = "BackoffLimitExceeded" if self._cancelled else "DeadlineExceeded"
        self._write_job(objects.job_failed(_now(), reason))
        # The job controller deletes the Pods of a Job whose deadline passed; a deleted one ends here.
        try:
            self._store.delete(
                PODS, self.pod_name, namespace=self._namespace, options=DeleteOptions(grace_seconds=0)
            )
        except ApiError as error:
            if error.code != 404:
                raise

    def _write_job(self, patch: Object) -> None:
        if self._gone:
            return
        try:
            self._store.merge_status(
                JOBS, self._name, {"status": patch}, namespace=self._namespace, options=_CONTROLLER
            )
        except ApiError as error:
            if error.code != 404:
                raise

    def _write_pod(self, status: Object) -> None:
        try:
            self._store.merge_status(
                PODS, self.pod_name, {"status": status}, namespace=self._namespace, options=_KUBELET
            )
        except ApiError as error:
            if error.code != 404:
                raise
            raise _Over from error


def _now() -> str:
    return datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
