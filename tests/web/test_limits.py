"""What a client cannot do to a server: hold it with half a request, fill its memory, its disk or its decoders.

A real server on a real port, in a thread; clients are sockets.
"""

from __future__ import annotations

import json
import re
import socket
import threading
import time
from contextlib import contextmanager

import httpx
import pytest
from fastapi.testclient import TestClient

from support.colours import network, photo
from support.serving import renamed, running
from unseen.photos import UnreadablePhoto
from unseen.web import batching, connections, limits, service
from unseen.web.app import create_app
from unseen.web.metrics import ROUTES
from unseen.web.names import escape_hidden

SPOOF = "gpj.\u202eexe"  # shown as exe.jpg, and not what it is


@pytest.fixture
def address(service):
    """The server at work."""
    with running(create_app(service)) as address:
        yield address


@contextmanager
def connected(address):
    with socket.create_connection(address, timeout=20) as client:
        yield client


def said_until_closed(client: socket.socket) -> bytes:
    """All that the server says before it hangs up; it must not wait for ever."""
    said = b""
    while part := client.recv(65536):
        said += part
    return said


@pytest.mark.parametrize("sent", [b"", b"GET /api/health HT", b"GET /api/health HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: "])
def test_half_of_the_headers_are_not_waited_for(address, sent, monkeypatch):
    monkeypatch.setattr(connections, "HEADER_SECONDS", 0.5)
    with connected(address) as client:
        client.sendall(sent)
        assert said_until_closed(client) == b""


def test_nor_half_of_the_next_ones(address, monkeypatch):
    """Dripping keeps uvicorn's own patience alive."""
    monkeypatch.setattr(connections, "HEADER_SECONDS", 2.0)
    with connected(address) as client:
        client.sendall(b"GET /api/health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        assert b"200 OK" in client.recv(65536)
        ended = time.monotonic() + 40
        with pytest.raises(OSError):
            for letter in b"GET /api/health HTTP/1.1\r\nX-A: " + b"a" * 1000:
                client.sendall(bytes([letter]))
                time.sleep(0.05)
        assert time.monotonic() < ended


@pytest.mark.parametrize("path", ["/api/classify", "/api/rank"])
def test_half_of_a_body_is_not_waited_for(address, path, monkeypatch):
    monkeypatch.setattr(limits, "BODY_SECONDS", 0.5)
    kind = "multipart/form-data; boundary=x" if path == "/api/classify" else "application/json"
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\nContent-Length: 1000\r\n\r\n"
    with connected(address) as client:
        client.sendall(head.encode() + b"--x\r\n")
        said = said_until_closed(client)
    assert b"408 Request Timeout" in said and b"did not arrive whole in time" in said


@pytest.mark.parametrize("reads", [False, True])
def test_who_does_not_read_the_answer_is_hung_up_on(monkeypatch, reads):
    """And who does gets all of it."""
    monkeypatch.setattr(connections, "SEND_SECONDS", 30.0 if reads else 0.3)
    part, parts, over = b"a" * (1 << 20), 24, threading.Event()  # more than the system itself keeps for a client

    async def answer(scope, receive, send):
        length = b"%d" % (len(part) * parts)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", length)]})
        for number in range(parts):
            await send({"type": "http.response.body", "body": part, "more_body": number < parts - 1})
        over.set()

    with running(answer, lifespan="off") as address, connected(address) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
        if reads:
            received = 0
            while some := client.recv(1 << 16):
                received += len(some)
            assert received > len(part) * parts
        assert over.wait(60)


def test_a_slow_body_that_keeps_coming_is_read(address):
    body = json.dumps({"tokens": ["x"]}).encode()
    with connected(address) as client:
        client.sendall(b"POST /api/rank HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n")
        client.sendall(b"Content-Length: %d\r\n\r\n" % len(body))
        for letter in body:
            client.sendall(bytes([letter]))
            time.sleep(0.04)
        assert b"404 Not Found" in client.recv(65536)


# -- memory and disk -------------------------------------------------------------------------------------------------


def test_form_fields_are_few_and_short(client):
    files = {"files": ("a.png", photo())}
    assert client.post("/api/classify", files=files, data={"k": "2"}).status_code == 200
    assert client.post("/api/classify", files=files, data={"x": "a" * 20_000}).status_code == 400
    assert client.post("/api/classify", files=files, data={f"x{n}": "a" for n in range(200)}).status_code == 400
    many = client.post("/api/classify", files=[("files", ("a.png", photo()))] * 33)
    assert many.status_code == 413 and "at most 32" in many.json()["error"]


def test_only_so_many_bundles_are_saved(client, service, tmp_path, monkeypatch):
    monkeypatch.setattr("unseen.web.service.MAX_SAVED", 2)
    for name in ("one", "two"):
        assert client.post("/api/save", json={"name": name}).status_code == 201
    refused = client.post("/api/save", json={"name": "three"})
    assert refused.status_code == 409 and "2 bundles were saved already" in refused.json()["error"]
    assert not (tmp_path / "saved" / "three").exists()


# -- decoders --------------------------------------------------------------------------------------------------------


@pytest.fixture
def slow_photo(monkeypatch):
    """A photo that takes until the end of the test to decode, and a network that meets it."""
    monkeypatch.setattr(batching, "DECODE_SECONDS", 0.3)
    backbone, done = network(), threading.Event()
    decode = backbone.transform.open

    def open_slowly(photo: bytes, **options):
        if photo == b"slow":
            done.wait(30)
        return decode(photo, **options)

    object.__setattr__(backbone.transform, "open", open_slowly)
    yield backbone
    done.set()


def test_slow_photos_do_not_hold_the_others(slow_photo):
    """As many of them as there are decoders, which is where everyone had to wait."""
    worker = batching.NetworkWorker(slow_photo, wait=0)
    told = []

    def ask() -> None:
        with pytest.raises(UnreadablePhoto, match=r"takes longer than 0\.3 s to decode"):
            worker.submit(b"slow")
        told.append(True)

    asking = [threading.Thread(target=ask) for _ in range(limits.DECODERS)]
    for thread in asking:
        thread.start()
    for thread in asking:
        thread.join(10)
    assert len(told) == limits.DECODERS
    assert worker.submit(photo("red")).result(timeout=60)[0] == pytest.approx(1, abs=0.01)
    worker.close()


def test_more_slow_photos_than_memory_allows_are_refused(slow_photo, monkeypatch):
    monkeypatch.setattr(batching, "DECODE_WAIT", 0.3)
    worker = batching.NetworkWorker(slow_photo, wait=0)
    for _ in range(limits.DECODERS + limits.MAX_LATE):
        with pytest.raises(UnreadablePhoto):
            worker.submit(b"slow")
    with pytest.raises(batching.HTTPException, match="busy"):
        worker.submit(photo())
    names = [thread.name for thread in threading.enumerate()]
    assert names.count("unseen-decoder") >= limits.DECODERS + limits.MAX_LATE
    worker.close()


def test_waiting_uploads_leave_threads_for_the_others(address, monkeypatch):
    """More uploads than threads, none of which is answered: the page still is."""
    hold = threading.Event()
    monkeypatch.setattr(limits, "BODY_SECONDS", 30.0)
    monkeypatch.setattr(service.Service, "look_at", lambda self, files: hold.wait(30) and ([], []))
    base = "http://{}:{}".format(*address)
    answers = []

    def upload() -> None:
        answers.append(httpx.post(f"{base}/api/classify", files={"files": photo()}, timeout=60).status_code)

    uploads = [threading.Thread(target=upload) for _ in range(45)]
    for thread in uploads:
        thread.start()
    until = time.monotonic() + 60
    while len(answers) < 45 - limits.AT_A_TIME["upload"] and time.monotonic() < until:
        time.sleep(0.05)
    try:
        assert set(answers) == {503}
        assert httpx.get(f"{base}/api/health", timeout=60).status_code == 200
    finally:
        hold.set()
    for thread in uploads:
        thread.join(30)
    assert len(answers) == 45


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


def test_names_of_photos_are_shown_escaped(client):
    told = client.post("/api/classify", files={"files": (SPOOF, photo())}).json()
    assert told["photos"][0]["photo"] == "gpj.\\u202eexe"
    assert escape_hidden("a\x1b[2J\nb\udcff") == "a\\x1b[2J b\\udcff"


# -- metrics ---------------------------------------------------------------------------------------------------------


def test_metrics(client):
    client.post("/api/classify", files={"files": photo()})
    client.get("/api/classes/nothing")
    client.get("/anything/else")
    text = client.get("/metrics").text
    found = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert found['unseen_requests_total{path="/api/classify",status="2xx"}'] == "1"
    assert found['unseen_requests_total{path="/api/classes/{id}",status="4xx"}'] == "1"
    assert found['unseen_requests_total{path="other",status="4xx"}'] == "1"
    assert found['unseen_request_seconds_bucket{path="/api/classify",le="+Inf"}'] == "1"
    assert float(found['unseen_request_seconds_sum{path="/api/classify"}']) > 0
    assert found["unseen_photos_total"] == "1" and found["unseen_requests_in_progress"] == "1"  # this one
    assert all(re.fullmatch(r"[a-z_]+(\{.*\})?", name) for name in found)


def test_every_route_is_counted_apart(service):
    known = {re.sub(r":path", "", path) for path in create_app(service).openapi()["paths"]}
    assert known <= set(ROUTES)


def test_names_that_are_in_a_bundle_already_come_as_escapes(colour_models):
    """JSON means the same with them, and neither a terminal nor a log is turned around."""
    spoofed = service.Service({"steep": renamed(colour_models["steep"], "moss", f"<b>{SPOOF}\x9b</b>")})
    client = TestClient(create_app(spoofed), base_url="http://127.0.0.1:8000")
    for answer in (
        client.get("/api/classes/moss"),
        client.get("/api/classes", params={"query": "<b>gpj"}),
        client.post("/api/classify", files={"files": photo("green")}, data={"k": 9}),
    ):
        assert answer.content.isascii() and b"\\u202e" in answer.content, answer.url
        assert "\u202e" in json.dumps(answer.json(), ensure_ascii=False)
    spoofed.close()
