"""Which validators ran: read from pods as AICR makes them, held against the plan's images by digest."""

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from aicr_pipeline.decide.validators import (
    CHECK_LABEL,
    SELECTOR,
    SeenValidator,
    repository_of,
    seen_validators,
    validators_problem,
)

from local.kubelet.objects import pod_for

SINCE = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)
REPOSITORY = "ghcr.io/nvidia/aicr-validators/deployment"
GOOD, BAD = "sha256:" + "d" * 64, "sha256:" + "e" * 64
IMAGES = [f"{REPOSITORY}@{GOOD}"]


def pod(check: str = "operator-health", **changes: Any) -> dict[str, Any]:
    made = {
        "created": "2026-01-02T03:04:06Z",
        "image": f"{REPOSITORY}:v1.1.2",
        "image_id": f"{REPOSITORY}@{GOOD}",
        "run": "run-1",
        **changes,
    }
    return {
        "metadata": {
            "name": f"aicr-{check}-1-abc",
            "creationTimestamp": made["created"],
            "labels": {CHECK_LABEL: check},
        },
        "spec": {
            "containers": [
                {
                    "name": made.get("name", "validator"),
                    "image": made["image"],
                    "env": [{"name": "AICR_RUN_ID", "value": made["run"]}],
                },
                *made.get("beside", []),
            ]
        },
        "status": {
            "containerStatuses": [
                {"name": "istio-proxy", "imageID": "docker.io/istio@sha256:1"},
                {"name": "validator", "imageID": made["image_id"]},
            ]
        },
    }


def test_the_captured_jobs_pods_are_known(captured: Path) -> None:
    """Labels, container and environment as AICR wrote them; only the digest is the node's."""
    file = captured / "h100-eks-ubuntu-training-kubeflow/validate/api-requests-deployment.jsonl"
    bodies = [json.loads(line).get("body") or {} for line in file.read_text().splitlines()]
    jobs = [body for body in bodies if isinstance(body, dict) and body.get("kind") == "Job"]
    pods = []
    for number, job in enumerate(jobs):
        made = pod_for({**job, "metadata": {**job["metadata"], "uid": f"u{number}"}})
        image = made["spec"]["containers"][0]["image"]
        made["metadata"]["creationTimestamp"] = "2026-01-02T03:04:06Z"
        made["status"] = {
            "containerStatuses": [{"name": "validator", "imageID": f"{repository_of(image)}@{GOOD}"}]
        }
        assert all(
            made["metadata"]["labels"].get(key) == (value or made["metadata"]["labels"].get(key))
            for key, _, value in (part.partition("=") for part in SELECTOR.split(","))
        )
        pods.append(made)
    seen = seen_validators(pods, SINCE)
    checks = ["check-nvidia-smi", "expected-resources", "gpu-operator-version", "operator-health"]
    assert [item.check for item in seen] == checks
    assert {item.run for item in seen} == {"20261130-123134-f7c6759e5b03c88e"}
    assert validators_problem(seen, checks, IMAGES) is None
    assert validators_problem(seen, [*checks, "another"], IMAGES) is not None


@pytest.mark.parametrize(
    ("changes", "count"),
    [
        ({}, 1),
        ({"created": "2026-01-02T03:04:04Z"}, 1),  # the API server's clock has whole seconds
        ({"created": "2026-01-02T03:04:03Z"}, 0),
        ({"image_id": ""}, 0),
        ({"image_id": None}, 0),
    ],
)
def test_pods_of_this_run_that_began(changes: dict[str, Any], count: int) -> None:
    assert len(seen_validators([pod(**changes)], SINCE)) == count


def test_a_pod_without_label_status_or_age_is_not_taken_for_a_check() -> None:
    unlabelled, bare, ageless = pod(), pod(), pod()
    unlabelled["metadata"]["labels"] = {}
    del bare["status"]
    del ageless["metadata"]["creationTimestamp"]
    assert seen_validators([unlabelled, bare, ageless], SINCE) == []


def seen(check: str = "a", digest: str = GOOD, **changes: Any) -> SeenValidator:
    made = {"image": f"{REPOSITORY}:v1.1.2", "pod": f"p-{check}", "run": "run-1", **changes}
    return SeenValidator(check=check, digest=digest, **made)


@pytest.mark.parametrize(
    ("found", "ran", "images", "words"),
    [
        ([seen()], ["a"], IMAGES, None),
        ([seen()], [], IMAGES, None),
        ([seen(), seen("b")], ["a", "b"], IMAGES, None),
        ([seen(image=IMAGES[0])], ["a"], IMAGES, None),
        ([seen(digest=BAD)], ["a"], [*IMAGES, f"{REPOSITORY}@{BAD}"], None),
        ([seen(digest=BAD)], ["a"], IMAGES, f"check a ran {REPOSITORY}:v1.1.2 at {BAD}, but the plan's"),
        ([seen(digest=BAD)], ["a"], IMAGES, f"name {GOOD}"),
        ([seen()], ["a"], [], "name no digest of that repository"),
        # The right digest of another repository is another image, though it may be a copy.
        ([seen(image="ghcr.io/me/deployment:v1")], ["a"], IMAGES, "ran ghcr.io/me/deployment:v1 at"),
        # Side-loaded: the node knows the image's configuration only, not the manifest.
        ([seen(digest="sha256:" + "1" * 64)], ["a"], IMAGES, "at sha256:1111"),
        ([], ["a"], IMAGES, "the pods of a were gone before they were looked at"),
        ([seen()], ["a", "b", "c"], IMAGES, "the pods of b, c were gone"),
        ([seen(), seen("b", run="run-2")], ["a", "b"], IMAGES, "two validations ran at once"),
        ([seen("x\x1b[31m", digest=BAD)], [], IMAGES, "check x [31m ran"),
    ],
)
def test_what_counts(
    found: list[SeenValidator], ran: list[str], images: list[str], words: str | None
) -> None:
    problem = validators_problem(found, ran, images)
    assert (problem is None) if words is None else (problem is not None and words in problem)


@pytest.mark.parametrize(
    ("image", "repository"),
    [
        ("a/b:v1", "a/b"),
        ("a/b", "a/b"),
        ("host:5000/a/b", "host:5000/a/b"),
        ("host:5000/a/b:v1", "host:5000/a/b"),
        ("host:5000/a/b:v1@sha256:" + "1" * 64, "host:5000/a/b"),
        ("b", "b"),
    ],
)
def test_repositories(image: str, repository: str) -> None:
    assert repository_of(image) == repository
