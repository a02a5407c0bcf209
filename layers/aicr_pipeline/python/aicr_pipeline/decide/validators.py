"""Which validators really ran: what AICR's pods say of their images, held against what the plan names.

AICR starts a Job for each check. Its pods carry ``aicr.run/validator`` and run an image that AICR names by
tag; the digest stands in the pod's status, as the node pulled it.
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from aicr_pipeline.clock import parse_time
from aicr_pipeline.decide.redact import plain_words

CHECK_LABEL = "aicr.run/validator"
#: Names every pod of a check; the run's id stands only on its Job, and in the pod's environment.
SELECTOR = f"{CHECK_LABEL},app.kubernetes.io/component=validation"
_RUN_VARIABLE = "AICR_RUN_ID"
_CONTAINER = "validator"
#: Clocks of the API server are whole seconds.
_SECOND = timedelta(seconds=1)


@dataclass(frozen=True)
class SeenValidator:
    """A pod of a check, and the image that it ran: as AICR names it, and its digest on the node.

    ``run`` is AICR's id of the whole validation.
    """

    check: str
    image: str
    digest: str
    pod: str
    run: str = ""

    def wire(self) -> dict[str, str]:
        """As the ledger keeps it."""
        return {
            "check": self.check,
            "image": self.image,
            "digest": self.digest,
            "pod": self.pod,
            "run": self.run,
        }

    @property
    def repository(self) -> str:
        """The image without tag and digest."""
        return repository_of(self.image)


def repository_of(image: str) -> str:
    """``host:5000/a/b:tag@sha256:…`` as ``host:5000/a/b``."""
    bare = image.partition("@")[0]
    folder, slash, name = bare.rpartition("/")
    return f"{folder}{slash}{name.partition(':')[0]}"


def seen_validators(pods: Iterable[Mapping[str, Any]], since: datetime) -> list[SeenValidator]:
    """The checks' pods that a node has begun to run, of those made since then.

    A pod whose image is not pulled yet has no digest, and is left for the next look.
    """
    found = []
    for pod in pods:
        metadata = pod["metadata"]
        created = metadata.get("creationTimestamp")
        check = (metadata.get("labels") or {}).get(CHECK_LABEL)
        if not check or created is None or parse_time(str(created)) < since - _SECOND:
            continue
        container = _named(pod["spec"].get("containers") or [])
        status = _named((pod.get("status") or {}).get("containerStatuses") or [])
        image_id = str(status.get("imageID") or "")
        if image_id:
            digest = image_id.rpartition("@")[2]
            found.append(
                SeenValidator(
                    str(check),
                    str(container.get("image", "")),
                    digest,
                    str(metadata["name"]),
                    _run(container),
                )
            )
    return sorted(found, key=lambda seen: (seen.check, seen.pod))


def validators_problem(
    seen: Sequence[SeenValidator], ran: Iterable[str], plan_images: Iterable[str]
) -> str | None:
    """Why the rollout fails, or None.

    Parameters
    ----------
    ran
        The checks that the report says ran.
    plan_images
        The plan's validator images, by digest.
    """
    runs = sorted({item.run for item in seen if item.run})
    if len(runs) > 1:
        return (
            f"two validations ran at once in the namespace ({', '.join(runs[:2])}), so it cannot be said "
            "whose pods are whose; let nobody run `aicr validate` there meanwhile"
        )
    named: dict[str, set[str]] = {}
    for image in plan_images:
        named.setdefault(repository_of(image), set()).add(image.rpartition("@")[2])
    for item in seen:
        wanted = named.get(item.repository, set())
        if item.digest not in wanted:
            words = " or ".join(sorted(wanted)) or "no digest of that repository"
            return (
                f"check {plain_words(item.check, 80)} ran {plain_words(item.image, 200)} at "
                f"{plain_words(item.digest, 80)}, but the plan's validator images name {words}"
            )
    missing = sorted(set(ran) - {item.check for item in seen})
    if missing:
        return (
            f"the pods of {', '.join(plain_words(name, 80) for name in missing[:5])} were gone before they "
            "were looked at, so nobody can say which image they ran"
        )
    return None


def _named(containers: Iterable[Mapping[str, Any]]) -> Mapping[str, Any]:
    """AICR's own container; a mesh may have put others beside it."""
    found = list(containers)
    return next(
        (item for item in found if item.get("name") == _CONTAINER), found[0] if len(found) == 1 else {}
    )


def _run(container: Mapping[str, Any]) -> str:
    variables = container.get("env") or []
    return next((str(item.get("value", "")) for item in variables if item.get("name") == _RUN_VARIABLE), "")
