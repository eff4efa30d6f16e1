"""A server with a token answers those who know it, and nobody else."""

from __future__ import annotations

import pytest
from fastapi.testclient import TestClient

from support.command_line import run_command
from unseen.apps.web.app import create_app
from unseen.apps.web.guards import check_token
from unseen.util.errors import UnseenError

TOKEN = "correct-horse"


@pytest.fixture
def client(service):
    return TestClient(create_app(service, token=TOKEN), base_url="http://127.0.0.1:8000", follow_redirects=False)


@pytest.mark.parametrize(
    "headers",
    [
        {},
        {"authorization": "Bearer wrong"},
        {"authorization": f"Basic {TOKEN}"},
        {"authorization": "Bearer "},
        {"cookie": "unseen_token=" + TOKEN},
        {"cookie": "unseen_token"},
        {"authorization": "Bearer corr\u00e9ct-horse".encode("latin-1")},
    ],
)
def test_without_it_nothing_is_answered(client, headers):
    for path in ("/", "/api/health", "/openapi.json", "/static/index.html", "/nothing"):
        refused = client.get(path, headers=headers)
        assert refused.status_code == 401 and refused.headers["www-authenticate"] == "Bearer", path
        assert "needs its token" in refused.json()["error"] and TOKEN not in refused.text


def test_programs_send_it_in_a_header(client):
    assert client.get("/api/health", headers={"authorization": f"Bearer {TOKEN}"}).status_code == 200


def test_foreign_cookies_do_not_lock_out(client):
    """Servers on other ports of this machine set cookies too, of the same name even, and not all are well formed."""
    own = client.get(f"/?token={TOKEN}").headers["set-cookie"].partition(";")[0]
    client.cookies.clear()
    foreign = ["a[b]={x}", "unseen_token=other", "=", '"', "\u00e9=1", "x=a,b c"]
    for cookie in (*foreign, "; ".join([*foreign, own]), "; ".join([own, *foreign])):
        known = own in cookie
        answer = client.get("/api/health", headers={"cookie": cookie.encode("latin-1")})
        assert answer.status_code == (200 if known else 401), cookie
        headers = {"cookie": cookie.encode("latin-1"), "authorization": f"Bearer {TOKEN}"}
        assert client.get("/api/health", headers=headers).status_code == 200
    headers = {"cookie": own, "authorization": "Bearer of-another-program"}
    assert client.get("/api/health", headers=headers).status_code == 200


def test_a_page_opened_with_it_once_is_remembered(client):
    assert client.get(f"/?token={TOKEN}x").status_code == 401
    opened = client.get(f"/?token={TOKEN}")
    assert opened.status_code == 303 and opened.headers["location"] == "/"
    cookie = opened.headers["set-cookie"]
    assert "HttpOnly" in cookie and "SameSite=strict" in cookie and TOKEN not in cookie
    assert client.get("/").status_code == 200 and client.get("/api/health").status_code == 200
    assert client.post("/api/rank", json={"tokens": ["x"]}).status_code == 404


def test_it_leads_to_no_other_site(client):
    assert client.get(f"http://127.0.0.1:8000//evil.example/?token={TOKEN}").headers["location"] == "/evil.example/"


def test_other_sites_are_kept_out_even_with_it(client):
    headers = {"authorization": f"Bearer {TOKEN}", "host": "evil.example"}
    assert client.get("/api/health", headers=headers).status_code == 403


@pytest.mark.parametrize("token", ["short", "", "with blank in it", "línea-de-costa", "a&b=c12345"])
def test_tokens_that_cannot_be_used_are_refused(token):
    with pytest.raises(UnseenError, match="at least 8 characters"):
        check_token(token)
    done = run_command("serve", "nowhere", "--token", token)
    assert done.code == 1 and "at least 8 characters" in done.err


def test_an_empty_token_in_the_environment_is_a_mistake(monkeypatch):
    """Of a script whose variable is empty: it would serve everybody."""
    monkeypatch.setenv("UNSEEN_TOKEN", "")
    done = run_command("serve", "nowhere", "--port", "0")
    assert done.code == 1 and "at least 8 characters" in done.err
