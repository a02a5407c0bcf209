"""Who AICR's validators run as, by its version; the configuration refuses a key that nothing signs with."""

import pytest
from aicr_pipeline.model.aicr_generation import Generation, generation
from aicr_pipeline.model.config import parse_cluster_config
from aicr_pipeline.model.reasons import Reason

from local.aicr.release import names_its_account
from tests.unit.samples import CONFIG, VALIDATOR_IMAGE, changed, config, refused

KEY = "awskms:///alias/aicr-evidence"
ARN = "awskms:///arn:aws:kms:us-west-2:111122223333:key/11111111-2222-3333-4444-555555555555"
ENABLED = {"validation.enabled": True, "aicr.validatorImages": [VALIDATOR_IMAGE]}


@pytest.mark.parametrize(
    ("version", "signs"),
    [
        ("v1.0.0", False),
        ("1.0.12", False),
        ("v1.1.0", True),
        ("1.1.0", True),
        ("v1.1.2", True),
        ("v1.10.0", True),
        ("v2.0.0", True),
        # A pre-release is before its release; what AICR stamps `-next` is after it.
        ("v1.1.0-rc.1", False),
        ("v1.1.0-next", True),
        ("v1.0.9-next", False),
        ("v1.1.1-rc.1", True),
        ("v0.19.0-next", False),
        ("nonsense", False),
        ("v1.1", False),
    ],
)
def test_generations(version: str, signs: bool) -> None:
    assert generation(version).signs is signs
    assert generation(version) is (Generation.NAMED_ACCOUNT if signs else Generation.OWN_BINDING)
    assert names_its_account(version) is signs, "the stand-in behaves like the version that it claims"


@pytest.mark.parametrize("key", [KEY, ARN, f"{ARN.rpartition('/')[0]}/mrk-{'a' * 32}"])
def test_a_key_that_signs(key: str) -> None:
    made = config(**ENABLED, **{"validation.signingKey": key}).validation
    assert (made.signing_key, made.transparency_log) == (key, False)


@pytest.mark.parametrize(
    "key",
    [
        "",
        "alias/aicr-evidence",
        "awskms://alias/aicr-evidence",
        "awskms:///aicr-evidence",
        "awskms:///alias/",
        "awskms:///alias/a b",
        "awskms://localhost:4566/alias/a",
        "gcpkms://projects/p/locations/l/keyRings/r/cryptoKeys/k",
        "awskms:///arn:aws:kms:us-west-2:111122223333:alias/a",
        "awskms:///arn:aws:s3:::bucket",
        "awskms:///11111111-2222-3333-4444-555555555555",
        "awskms:///alias//",
        "awskms:///alias/a//b",
        "awskms:///alias/a/",
        KEY + "\n",
        7,
    ],
)
def test_keys_that_are_none(key: object) -> None:
    with refused(Reason.InvalidConfiguration, "validation.signingKey: "):
        config(**ENABLED, **{"validation.signingKey": key})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"validation.signingKey": KEY}, "validation.signingKey: only with validation.enabled: true"),
        (
            {**ENABLED, "validation.signingKey": KEY, "aicr.version": "v1.0.3"},
            "validation.signingKey: AICR v1.0.3 cannot sign with a key; aicr.version must be 1.1.0 or later",
        ),
        (
            {
                **ENABLED,
                "validation.signingKey": KEY,
                "aicr.version": "v0.19.0-next",
                "aicr.developmentVersions": ["v0.19.0-next"],
            },
            "AICR v0.19.0-next cannot sign",
        ),
        (
            {**ENABLED, "validation.signingKey": "awskms:///alias/aicr-pipeline-another-evidence"},
            "validation.signingKey: this is a pipeline's own key",
        ),
        (
            {**ENABLED, "validation.signingKey": "awskms:///alias/aws/s3"},
            "validation.signingKey: a key that AWS manages signs nothing",
        ),
        (
            {**ENABLED, "validation.signingKey": "gcpkms://projects/x"},
            "validation.signingKey: expected awskms:///alias/<name> or awskms:///<ARN of a key>",
        ),
        (
            {**ENABLED, "validation.transparencyLog": True},
            "validation.transparencyLog: only with validation.signingKey",
        ),
        ({"validation.enabled": True}, "aicr.validatorImages: required with validation.enabled"),
        ({"validation.signingkey": KEY}, "validation.signingkey: unknown field"),
        ({"validation.transparencyLog": "no"}, "validation.transparencyLog: "),
        ({"validation.serviceAccountAnnotations": {"a/b/c": "x"}}, "'a/b/c' is no annotation key"),
        ({"validation.serviceAccountAnnotations": {"a": " "}}, "'a': expected 1 to 2,048 characters"),
    ],
)
def test_validations_that_are_refused(changes: dict[str, object], words: str) -> None:
    document = CONFIG
    for path, value in changes.items():
        document = changed(document, path, value)
    with refused(Reason.InvalidConfiguration, words) as found:
        parse_cluster_config(document, "configuration demo.yaml")
    assert "(document)" not in str(found.info.value), "the sentence names its field itself"


def test_a_development_version_that_signs() -> None:
    """Its evidence never qualifies; that is no reason to leave it unsigned."""
    named = {"aicr.version": "v1.1.0-next", "aicr.developmentVersions": ["v1.1.0-next"]}
    assert config(**ENABLED, **named, **{"validation.signingKey": KEY}).validation.signing_key == KEY
