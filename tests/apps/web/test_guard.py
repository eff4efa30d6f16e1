"""What keeps other sites out: hosts, origins, headers; and that the page loads nothing foreign."""

from __future__ import annotations

import re

import pytest
from fastapi.testclient import TestClient

from unseen.apps.web import STATIC, samples
from unseen.apps.web.app import create_app

MALFORMED = (
    *("[::1]evil.com:8471", "[::1].evil.com", "[localhost]evil.com", "localhost:8471@evil.com", "localhost:evil.com"),
    *("[127.0.0.1", "127.0.0.1]", "localhost:", "[localhost]", "localhost:1:2", "localhost/"),
)


def test_own_names_are_answered_and_foreign_ones_are_not(client):
    for host in ("127.0.0.1", "127.0.0.1:8000", "localhost:9", "LOCALHOST", "[::1]:8000", "127.1.2.3"):
        assert client.get("/api/health", headers={"host": host}).status_code == 200, host
    for host in ("evil.example", "evil.example:8000", "localhost.evil.example", "192.168.1.7", "", *MALFORMED):
        answer = client.get("/api/health", headers={"host": host})
        assert answer.status_code == 403 and "error" in answer.json(), host


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({}, 404),  # no browser at all: curl
        ({"origin": "http://127.0.0.1:8000"}, 404),
        ({"origin": "http://127.0.0.1:8000", "sec-fetch-site": "same-origin"}, 404),
        ({"sec-fetch-site": "none"}, 404),
        ({"origin": "http://evil.example"}, 403),
        ({"origin": "null"}, 403),
        ({"origin": "http://127.0.0.1:9999"}, 403),
        ({"sec-fetch-site": "cross-site"}, 403),
        ({"sec-fetch-site": "same-site"}, 403),
        ({"origin": "http://127.0.0.1:8000", "sec-fetch-site": "cross-site"}, 403),
    ],
)
def test_only_the_own_page_may_change_things(client, headers, status):
    assert client.delete("/api/classes/nothing", headers=headers).status_code == status
    rank = client.post("/api/rank", json={"tokens": ["x"]}, headers=headers)
    assert rank.status_code == status
    assert client.get("/api/health", headers=headers).status_code == (403 if status == 403 else 200)
    assert client.get("/", headers=headers).status_code == 200  # a link on another site


def test_all_addresses_but_no_foreign_names(service):
    client = TestClient(
        create_app(service, host="0.0.0.0", allowed_hosts=["lab.example"]), base_url="http://10.0.0.5:8000"
    )
    assert client.get("/api/health").status_code == 200
    assert client.get("/api/health", headers={"host": "lab.example:8000"}).status_code == 200
    assert client.get("/api/health", headers={"host": "evil.example"}).status_code == 403


def test_every_answer_carries_the_security_headers(client):
    for path in ("/", "/static/app.js", "/api/health", "/nowhere", "/openapi.json"):
        headers = client.get(path).headers
        policy = headers["content-security-policy"]
        assert "default-src 'self'" in policy and "frame-ancestors 'none'" in policy and "unsafe" not in policy, path
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["cross-origin-resource-policy"] == "same-origin"


def test_a_refusal_carries_them_too(client):
    assert "content-security-policy" in client.get("/", headers={"host": "evil.example"}).headers


def test_the_page_names_no_foreign_resource():
    for path in STATIC.rglob("*"):
        if path.suffix in (".html", ".js", ".css", ".svg"):
            foreign = set(re.findall(r"https?://[^\s\"'`)]+", path.read_text(encoding="utf-8")))
            assert foreign <= {"http://www.w3.org/2000/svg"}, path


def test_the_page_sets_text_only_as_text():
    for path in STATIC.glob("*.js"):
        assert not re.search(r"innerHTML|outerHTML|insertAdjacentHTML|document\.write|\beval\(", path.read_text()), path


def test_every_sample_has_its_licence():
    recorded = {sample["file"]: sample for sample in samples()}
    notice = (STATIC.parents[4] / "NOTICE").read_text(encoding="utf-8")
    photos = list((STATIC / "samples").glob("*.jpg"))
    assert 4 <= len(photos) <= 8 and {photo.name for photo in photos} == set(recorded)
    for photo in photos:
        assert recorded[photo.name]["licence"] in ("CC0", "public domain") and recorded[photo.name]["by"] in notice
        assert photo.stat().st_size <= 40_000
