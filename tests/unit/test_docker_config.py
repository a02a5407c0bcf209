"""The files of ``docker login`` and ``helm registry login``: strict, and never quoted."""

import base64
import json
from pathlib import Path

import pytest
from aicr_pipeline.adapters.docker_config import config_files, find_credentials
from aicr_pipeline.errors import PipelineError
from aicr_pipeline.model.reasons import Reason
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

HOST = "registry.example:5000"
SECRET = "secret-word"


def auth(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def find(folder: Path, config: object, host: str = HOST) -> tuple[str, str] | None:
    file = folder / "config.json"
    file.write_text(config if isinstance(config, str) else json.dumps(config))
    found = find_credentials(host, (folder / "not-there.json", file))
    return found.get() if found else None


@pytest.mark.parametrize(
    ("key", "entry", "found"),
    [
        (HOST, {"auth": auth(f"me:{SECRET}")}, ("me", SECRET)),
        (HOST, {"auth": auth(f"me:{SECRET}\0")}, ("me", SECRET)),
        (HOST, {"auth": auth("me:with:colons")}, ("me", "with:colons")),
        (HOST, {"username": "me", "password": SECRET}, ("me", SECRET)),
        (f"https://{HOST}", {"username": "me", "password": SECRET}, ("me", SECRET)),
        (f"https://{HOST}/v2/", {"username": "me", "password": SECRET}, ("me", SECRET)),
        (HOST, {}, None),
        (f"{HOST}/org", {"username": "me", "password": SECRET}, None),
        ("registry.example", {"username": "me", "password": SECRET}, None),
        (f"evil.example/{HOST}", {"username": "me", "password": SECRET}, None),
    ],
)
def test_entries(tmp_path: Path, key: str, entry: object, found: tuple[str, str] | None) -> None:
    assert find(tmp_path, {"auths": {key: entry}}) == found


@pytest.mark.parametrize("config", ["", "{}", '{"auths": null}', '{"credsStore": "desktop"}'])
def test_a_file_that_knows_nobody(tmp_path: Path, config: str) -> None:
    assert find(tmp_path, config) is None


def test_docker_hub_has_three_names(tmp_path: Path) -> None:
    config = {"auths": {"https://index.docker.io/v1/": {"username": "me", "password": SECRET}}}
    assert find(tmp_path, config, "registry-1.docker.io") == ("me", SECRET)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"credHelpers": {HOST: "ecr-login"}}, "credential helper (credHelpers)"),
        ({"credsStore": "desktop", "auths": {HOST: {}}}, "credential helper (credsStore)"),
        ({"auths": {HOST: {"identitytoken": SECRET}}}, "identitytoken"),
        ({"auths": {HOST: {"auth": SECRET}}}, "not base64"),
        ({"auths": {HOST: {"auth": auth(SECRET)}}}, "not user:password"),
        ({"auths": {HOST: {"auth": 7}}}, "not base64"),
        ({"auths": {HOST: {"auth": auth(f":{SECRET}")}}}, "no user or no password"),
        ({"auths": {HOST: {"username": "me"}}}, "no user or no password"),
        ({"auths": {HOST: {"username": ["me"], "password": SECRET}}}, "no user or no password"),
        ({"auths": {HOST: {"username": "m:e", "password": SECRET}}}, "cannot be sent"),
        ({"auths": {HOST: {"username": "m\ud800", "password": SECRET}}}, "cannot be sent"),
        ({"auths": {HOST: SECRET}}, "not an object"),
        ({"auths": [SECRET]}, "auths is not an object"),
        ({"credHelpers": SECRET}, "credHelpers is not an object"),
        ([SECRET], "not a JSON object"),
        ('{"auths": {"' + SECRET, "not JSON"),
        ("[" * 100_000, "not JSON"),
        (" " * (1 << 20) + "{}", "above 1,048,576 bytes"),
    ],
    ids=lambda value: str(value)[:40],
)
def test_what_cannot_be_used_is_refused(tmp_path: Path, config: object, said: str) -> None:
    with pytest.raises(PipelineError) as caught:
        find(tmp_path, config)
    assert caught.value.reason == Reason.RegistryCredentialsUnavailable
    assert said in caught.value.message
    assert str(tmp_path / "config.json") in caught.value.message
    assert SECRET not in caught.value.message


def test_a_folder_in_the_place_of_the_file(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="cannot be read \\(IsADirectoryError\\)"):
        find_credentials(HOST, (tmp_path,))


def test_helms_file_comes_first(tmp_path: Path) -> None:
    files = config_files({"HELM_REGISTRY_CONFIG": f"{tmp_path}/helm.json", "DOCKER_CONFIG": str(tmp_path)})
    assert files == (tmp_path / "helm.json", tmp_path / "config.json")
    for file, password in zip(files, ("helms", "dockers"), strict=True):
        file.write_text(json.dumps({"auths": {HOST: {"username": "me", "password": password}}}))
    found = find_credentials(HOST, files)
    assert found is not None
    assert found.get() == ("me", "helms")
    assert "helms" not in repr(found)


def test_where_docker_keeps_it_by_default() -> None:
    assert config_files({"HOME": "/home/me"}) == (Path("/home/me/.docker/config.json"),)
    assert config_files({}) == ()


_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8) | st.just(HOST),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["auths", "auth", "username", "password", "credHelpers", "credsStore", HOST]),
            inner,
            max_size=4,
        )
    ),
    max_leaves=12,
)


@given(_JSON | st.fixed_dictionaries({"auths": st.fixed_dictionaries({HOST: _JSON})}))
@settings(max_examples=200, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_json_is_a_pair_nothing_or_a_refusal(tmp_path: Path, config: object) -> None:
    try:
        found = find(tmp_path, json.dumps(config))
    except PipelineError as error:
        assert error.reason == Reason.RegistryCredentialsUnavailable
    else:
        assert found is None or all(found)
