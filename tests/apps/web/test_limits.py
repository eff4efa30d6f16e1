"""What a client cannot do to a server: fill its memory or its disk, or occupy its decoder."""

from __future__ import annotations

import json
import threading

import httpx
import pytest
from fastapi.testclient import TestClient

from support.colours import photo
from support.pictures import of_many_segments
from support.serving import renamed, running
from unseen.apps.web import guards
from unseen.apps.web.app import create_app
from unseen.apps.web.service import Service

SPOOF = "gpj.\u202eexe"  # shown as exe.jpg, and not what it is


def test_form_fields_are_few_and_short(client):
    files = {"files": ("a.png", photo())}
    assert client.post("/api/classify", files=files, data={"k": "2"}).status_code == 200
    assert client.post("/api/classify", files=files, data={"x": "a" * 100_000}).status_code == 400
    assert client.post("/api/classify", files=files, data={f"x{n}": "a" for n in range(200)}).status_code == 400
    many = client.post("/api/classify", files=[("files", ("a.png", photo()))] * 33)
    assert many.status_code == 400 and "Maximum number of files is 32" in many.json()["error"]


def test_only_so_many_bundles_are_saved(client, tmp_path):
    for number in range(guards.MAX_SAVED):
        (tmp_path / "saved" / f"old-{number}").mkdir(parents=True)
    refused = client.post("/api/save", json={"name": "another"})
    assert refused.status_code == 409 and "20 bundles were saved already" in refused.json()["error"]
    assert not (tmp_path / "saved" / "another").exists()


def test_a_request_asks_for_so_many_labels_in_all(client):
    tokens = []
    for _ in range(2):
        sent = client.post("/api/classify", files=[("files", photo())] * 20).json()
        tokens += [answer["token"] for answer in sent["photos"]]
    assert client.post("/api/rank", json={"tokens": tokens, "k": 80}).status_code == 200
    refused = client.post("/api/rank", json={"tokens": tokens, "k": 81})
    assert refused.status_code == 422 and "81 labels for each of 40 photos are too many" in refused.json()["error"]


def test_a_photo_that_takes_too_long_costs_its_own_request(client, service):
    """Of that request no other photo is tried, and other requests are answered afterwards."""
    service.decoder.seconds = 1.5
    answer = client.post("/api/classify", files=[("files", part) for part in (of_many_segments(), photo(), photo())])
    assert answer.status_code == 422 and "takes longer than 1.5 s to decode" in answer.text
    assert answer.text.count("took too long") == 4  # in the message and in the list
    assert client.post("/api/classify", files={"files": photo()}).status_code == 200


def test_many_uploads_at_once_are_all_answered_and_health_meanwhile(service):
    """Also more of them than there are threads."""
    with running(create_app(service)) as address:
        rest, statuses = "http://{}:{}".format(*address), []

        def upload() -> None:
            statuses.append(httpx.post(f"{rest}/api/classify", files=[("files", photo())] * 4, timeout=60).status_code)

        uploads = [threading.Thread(target=upload) for _ in range(60)]
        for thread in uploads:
            thread.start()
        assert httpx.get(f"{rest}/api/health", timeout=20).status_code == 200
        for thread in uploads:
            thread.join(60)
        assert statuses == [200] * 60


def test_lists_of_classes_have_an_end(client, monkeypatch):
    monkeypatch.setattr("unseen.apps.web.view.MAX_LISTED", 2)
    first, rest = (client.get("/api/classes/thing", params={"after": after}).json() for after in (0, 2))
    assert first["children"] == 3
    assert [one["name"] for one in first["below"] + rest["below"]] == ["fruit", "plant", "water"]
    for name in ("one", "two", "three"):
        answer = client.post("/api/add", json={"name": name, "parents": ["fruit"]}).json()
    assert [one["name"] for one in answer["added"]] == ["two", "three"]


# -- names -----------------------------------------------------------------------------------------------------------


def test_names_that_are_not_what_they_seem(client):
    for name in (SPOOF, "bell\x07", "\u2066x", "esc\x1b[31m"):
        for body in ({"name": name}, {"name": "plum", "definition": name}, {"name": "plum", "names": [name]}):
            refused = client.post("/api/add", json={"parents": ["fruit"], **body})
            assert refused.status_code == 422
            assert "holds control or direction characters" in refused.json()["error"]
        assert client.post("/api/save", json={"name": name}).status_code == 422
    for number, name in enumerate(("می\u200cخواهم", "two\twords", "Ø 👩\u200d🔬")):
        added = client.post("/api/add", json={"name": name, "parents": ["fruit"], "definition": f"a {number}\nb"})
        assert added.status_code == 201, added.text


@pytest.mark.parametrize("path", ["/api/suggest", "/api/save"])
def test_characters_that_stand_for_many_others_are_limited(client, path):
    """NFKC turns U+FDFA into eighteen characters."""
    refused = client.post(path, json={"name": "\ufdfa" * 200})
    assert refused.status_code == 422 and "stand for too many others" in refused.json()["error"]
    assert client.post("/api/suggest", json={"name": "½ \ufdfa"}).status_code == 200


def test_names_that_are_in_a_bundle_already_come_as_escapes(colour_model):
    """JSON means the same with them, and neither a terminal nor a log is turned around."""
    spoofed = Service(renamed(colour_model, "moss", f"<b>{SPOOF}\x9b</b>"))
    client = TestClient(create_app(spoofed), base_url="http://127.0.0.1:8000")
    for answer in (
        client.get("/api/classes/moss"),
        client.get("/api/classes", params={"query": "<b>gpj"}),
        client.post("/api/classify", files={"files": photo("green")}, data={"k": 9}),
    ):
        assert answer.content.isascii() and b"\\u202e" in answer.content, answer.url
        assert "\u202e" in json.dumps(answer.json(), ensure_ascii=False)
    spoofed.close()
