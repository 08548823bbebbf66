"""Apps, installations, tokens, and what each may not do."""

from __future__ import annotations

import time
from datetime import timedelta

import jwt
import pytest
import requests
from github import Auth, BadCredentialsException, Github, GithubException, UnknownObjectException

from deploy.localhub.world import utc_now
from tests.service.localhub.conftest import Place


def ask(place: Place, path: str, authorization: str) -> requests.Response:
    return requests.get(place.server.api_url + path, headers={"Authorization": authorization}, timeout=10)


def claims(place: Place, **changes: object) -> dict[str, object]:
    now = int(time.time())
    return {"iat": now - 30, "exp": now + 500, "iss": str(place.app_id), **changes}


def test_an_app_finds_its_installation_and_speaks_as_its_bot(place: Place) -> None:
    integration = place.integration()
    assert integration.get_app().slug == "smith"
    assert [one.id for one in integration.get_installations()] == [place.installation_id]
    installation = integration.get_repo_installation("acme", "lib")
    assert installation.id == place.installation_id
    issue = installation.get_github_for_installation().get_repo("acme/lib").create_issue("From the bot")
    assert (issue.user.login, issue.user.type) == ("smith[bot]", "Bot")


def test_a_personal_token_knows_its_user(place: Place) -> None:
    assert place.as_person("alice").get_user().login == "alice"


def test_an_installation_is_no_user(place: Place) -> None:
    with pytest.raises(GithubException) as refused:
        place.as_app().get_user().login  # noqa: B018
    assert refused.value.status == 403


def test_a_token_that_is_none_is_refused(place: Place) -> None:
    github = Github(base_url=place.server.api_url, auth=Auth.Token("ghp_wrong"), retry=None)
    with pytest.raises(BadCredentialsException) as refused:
        github.get_repo("acme/lib")
    assert refused.value.data["message"] == "Bad credentials"


def test_a_token_expires_by_the_hubs_clock(place: Place) -> None:
    value = place.integration().get_access_token(place.installation_id).token
    assert ask(place, "/repos/acme/lib", f"token {value}").status_code == 200
    place.hub.world.clock = lambda: utc_now() + timedelta(hours=1, seconds=1)
    assert ask(place, "/repos/acme/lib", f"token {value}").status_code == 401


def test_a_token_that_is_revoked_is_refused_and_the_next_one_is_not(place: Place) -> None:
    for _ in range(2):
        value = place.integration().get_access_token(place.installation_id).token
        assert ask(place, "/repos/acme/lib", f"token {value}").status_code == 200
        place.hub.revoke_installation_tokens()
        assert ask(place, "/repos/acme/lib", f"token {value}").status_code == 401
    assert place.as_person("alice").get_user().login == "alice"


@pytest.mark.parametrize(
    ("seconds", "words"),
    [
        ({"exp": -5}, "'exp'"),
        ({"exp": 3_600}, "too far in the future"),
        ({"iat": 3_600, "exp": 3_700}, "'iat'"),
    ],
)
def test_a_jwt_out_of_its_time_is_refused(place: Place, seconds: dict[str, int], words: str) -> None:
    now = int(time.time())
    token = jwt.encode(
        claims(place, **{name: now + more for name, more in seconds.items()}), place.private_key, algorithm="RS256"
    )
    answer = ask(place, "/app", f"Bearer {token}")
    assert answer.status_code == 401
    assert words in answer.json()["message"]


def test_a_jwt_of_another_app_is_refused(place: Place) -> None:
    token = jwt.encode(claims(place, iss="999999"), place.private_key, algorithm="RS256")
    answer = ask(place, "/app", f"Bearer {token}")
    assert answer.status_code == 401
    assert "'iss'" in answer.json()["message"]


def test_a_jwt_may_be_issued_by_the_client_id(place: Place) -> None:
    client_id = place.integration().get_app().raw_data["client_id"]
    token = jwt.encode(claims(place, iss=client_id), place.private_key, algorithm="RS256")
    assert ask(place, "/app", f"Bearer {token}").json()["slug"] == "smith"


def test_a_jwt_signed_by_somebody_else_is_refused(place: Place) -> None:
    forged = jwt.encode(claims(place), "x" * 64, algorithm="HS256")
    assert ask(place, "/app", f"Bearer {forged}").status_code == 401
    unsigned = jwt.encode(claims(place), None, algorithm="none")
    assert ask(place, "/app", f"Bearer {unsigned}").status_code == 401


def test_a_narrowed_token_does_no_more_than_it_says(place: Place) -> None:
    place.hub.create_repository("acme", "other", files={"a": b"b"}, private=True)
    auth = place.app_auth().get_installation_auth(place.installation_id, token_permissions={"issues": "write"})
    repo = place.repo(place._github(auth))
    repo.create_issue("allowed")
    with pytest.raises(GithubException) as refused:
        repo.create_git_blob("x", "utf-8")
    assert (refused.value.status, refused.value.data["message"]) == (403, "Resource not accessible by integration")


def test_a_token_for_one_repository_does_not_see_another(place: Place) -> None:
    place.hub.create_repository("acme", "other", files={"a": b"b"}, private=True)
    answer = requests.post(
        f"{place.server.api_url}/app/installations/{place.installation_id}/access_tokens",
        headers={"Authorization": f"Bearer {place.app_auth().create_jwt()}"},
        json={"repositories": ["lib"], "permissions": {"contents": "read"}},
        timeout=10,
    )
    assert answer.status_code == 201
    shape = answer.json()
    assert [one["full_name"] for one in shape["repositories"]] == ["acme/lib"]
    assert shape["permissions"] == {"contents": "read", "metadata": "read"}
    assert ask(place, "/repos/acme/lib", f"token {shape['token']}").status_code == 200
    assert ask(place, "/repos/acme/other", f"token {shape['token']}").status_code == 404
    assert [
        one["name"]
        for one in ask(place, "/installation/repositories", f"token {shape['token']}").json()["repositories"]
    ] == ["lib"]


@pytest.mark.parametrize("asked", [{"permissions": {"actions": "write"}}, {"repositories": ["not-there"]}])
def test_a_token_cannot_be_widened(place: Place, asked: dict[str, object]) -> None:
    answer = requests.post(
        f"{place.server.api_url}/app/installations/{place.installation_id}/access_tokens",
        headers={"Authorization": f"Bearer {place.app_auth().create_jwt()}"},
        json=asked,
        timeout=10,
    )
    assert answer.status_code == 422


def test_somebody_who_may_read_cannot_write_code(place: Place) -> None:
    repo = place.repo(place.as_person("carol"))
    with pytest.raises(GithubException) as refused:
        repo.create_git_ref("refs/heads/hers", repo.get_git_ref("heads/main").object.sha)
    assert refused.value.status == 403


def test_a_request_for_another_host_is_refused(place: Place) -> None:
    answer = requests.get(
        place.server.url + "/api/v3/repos/nobody/nothing", headers={"Host": "evil.example"}, timeout=10
    )
    assert answer.status_code == 400


def test_an_unknown_route_is_404_in_json(place: Place) -> None:
    answer = ask(place, "/no/such/thing", "")
    assert (answer.status_code, answer.json()["message"]) == (404, "Not Found")


def test_an_answer_that_did_not_change_is_304(place: Place) -> None:
    url = place.server.api_url + "/repos/acme/lib"
    tag = requests.get(url, timeout=10).headers["etag"]
    assert requests.get(url, headers={"If-None-Match": tag}, timeout=10).status_code == 304


def test_an_app_that_is_not_installed_finds_no_installation(place: Place) -> None:
    place.hub.create_repository("stranger", "lib", files={"a": b"b"})
    with pytest.raises(UnknownObjectException):
        place.integration().get_repo_installation("stranger", "lib")
