"""What a client cannot do to a server: hold it with half a request, fill its memory, its disk or its decoders.

A real server on a real port, in a thread; clients are sockets.
"""

from __future__ import annotations

import asyncio
import errno
import json
import socket
import threading
import time
from contextlib import ExitStack, contextmanager, suppress

import httpx
import pytest
from fastapi.testclient import TestClient

from support.colours import photo
from support.pictures import of_many_segments
from support.serving import renamed, running
from unseen.apps.web import guards, server, service
from unseen.apps.web.app import create_app

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
    monkeypatch.setattr(server, "HEADER_SECONDS", 0.5)
    with connected(address) as client:
        client.sendall(sent)
        assert said_until_closed(client) == b""


@pytest.mark.parametrize("path", ["/api/classify", "/api/rank"])
def test_half_of_a_body_is_not_waited_for(address, path, monkeypatch):
    monkeypatch.setattr(guards, "BODY_SECONDS", 0.5)
    kind = "multipart/form-data; boundary=x" if path == "/api/classify" else "application/json"
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {kind}\r\nContent-Length: 1000\r\n\r\n"
    with connected(address) as client:
        client.sendall(head.encode() + b"--x\r\n")
        said = said_until_closed(client)
    assert b"408 Request Timeout" in said and b"did not arrive in time" in said


def test_a_body_that_came_fast_and_stops_is_not_waited_for(address, monkeypatch):
    """What has arrived early is no credit."""
    monkeypatch.setattr(guards, "BODY_SECONDS", 0.5)
    head = b"POST /api/classify HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary=x\r\n"
    part = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\n' + b"a" * 400_000
    began = time.monotonic()
    with connected(address) as client:
        client.sendall(head + b"Content-Length: 1000000\r\n\r\n" + part)
        assert b"408 Request Timeout" in said_until_closed(client)
    assert time.monotonic() - began < 10  # 400 kB would take 20 s at the least rate


def test_a_body_that_comes_steadily_is_waited_for(address, monkeypatch):
    monkeypatch.setattr(guards, "BODY_SECONDS", 0.5)
    monkeypatch.setattr(guards, "RATE", 1_000)
    body = json.dumps({"tokens": ["a" * 22]}).encode().ljust(2_000)
    head = b"POST /api/rank HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    with connected(address) as client:
        client.sendall(head + b"Content-Length: 2000\r\n\r\n")
        for start in range(0, 2_000, 200):
            time.sleep(0.1)
            client.sendall(body[start : start + 200])
        assert b"404 Not Found" in client.recv(65536)  # nobody knows that photo


@pytest.mark.parametrize("reads", [False, True])
def test_who_does_not_read_the_answer_is_hung_up_on(monkeypatch, reads):
    """And who does gets all of it."""
    monkeypatch.setattr(server, "SEND_SECONDS", 30.0 if reads else 0.3)
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


def test_who_reads_too_slowly_is_hung_up_on(monkeypatch):
    """A little of an answer now and then would hold it, and its connection, for hours."""
    monkeypatch.setattr(server, "SEND_SECONDS", 1.0)
    monkeypatch.setattr(server, "RATE", 20_000_000)
    size, received = 24 << 20, 0

    async def answer(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % size)]})
        await send({"type": "http.response.body", "body": bytes(size)})

    with running(answer, lifespan="off") as address, connected(address) as client:
        client.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n")
        with suppress(ConnectionError):
            while some := client.recv(1 << 16):  # 3 MB/s
                received += len(some)
                if received >= size:
                    break
                time.sleep(0.02)
    assert received < size


# -- memory and disk -------------------------------------------------------------------------------------------------


def test_form_fields_are_few_and_short(client):
    files = {"files": ("a.png", photo())}
    assert client.post("/api/classify", files=files, data={"k": "2"}).status_code == 200
    assert client.post("/api/classify", files=files, data={"x": "a" * 20_000}).status_code == 400
    assert client.post("/api/classify", files=files, data={f"x{n}": "a" for n in range(200)}).status_code == 400
    many = client.post("/api/classify", files=[("files", ("a.png", photo()))] * 33)
    assert many.status_code == 413 and "at most 32" in many.json()["error"]


def test_only_so_many_bundles_are_saved(client, service, tmp_path, monkeypatch):
    monkeypatch.setattr("unseen.apps.web.service.MAX_SAVED", 2)
    for name in ("one", "two"):
        assert client.post("/api/save", json={"name": name}).status_code == 201
    refused = client.post("/api/save", json={"name": "three"})
    assert refused.status_code == 409 and "2 bundles were saved already" in refused.json()["error"]
    assert not (tmp_path / "saved" / "three").exists()


def test_a_request_asks_for_so_many_labels_in_all(client, monkeypatch):
    monkeypatch.setattr(service, "MAX_RANKED_LABELS", 9)
    token = [client.post("/api/classify", files={"files": photo()}).json()["photos"][0]["token"] for _ in range(3)]
    assert client.post("/api/rank", json={"tokens": token, "k": 3}).status_code == 200
    refused = client.post("/api/rank", json={"tokens": token, "k": 4})
    assert refused.status_code == 422 and "4 labels for each of 3 photos are too many" in refused.json()["error"]


def test_many_photos_are_ranked_some_at_a_time(client, monkeypatch):
    """Another request has its turn after each piece; the answers are those of one piece."""
    tokens = [client.post("/api/classify", files={"files": photo()}).json()["photos"][0]["token"] for _ in range(7)]
    whole, pieces, rank = client.post("/api/rank", json={"tokens": tokens}).json(), [], service.View.rank
    monkeypatch.setattr(service, "RANKED_TOGETHER", 3)
    monkeypatch.setattr(service.View, "rank", lambda *given: pieces.append(len(given[1])) or rank(*given))
    assert client.post("/api/rank", json={"tokens": tokens}).json()["photos"] == whole["photos"]
    assert pieces == [3, 3, 1]


def test_a_bundle_is_compared_once_however_often_it_is_named(client, service):
    token = client.post("/api/classify", files={"files": photo()}).json()["photos"][0]["token"]
    (name, *_) = service.views
    columns = client.post("/api/compare", json={"token": token, "bundles": [name] * 20}).json()["columns"]
    assert [column["bundle"] for column in columns] == ["network", name]


# -- decoders --------------------------------------------------------------------------------------------------------


def test_a_photo_that_takes_too_long_delays_no_other(client, service):
    """And of its own request no other photo is tried."""
    service.decoders.seconds = 3.0
    client.post("/api/classify", files={"files": photo()})
    bad, answers = of_many_segments(), []

    def attack() -> None:
        answers.append(client.post("/api/classify", files=[("files", bad), ("files", photo()), ("files", photo())]))

    attacker = threading.Thread(target=attack)
    attacker.start()
    slowest = 0.0
    while attacker.is_alive():
        began = time.monotonic()
        assert client.post("/api/classify", files={"files": photo()}).status_code == 200
        slowest = max(slowest, time.monotonic() - began)
    (answer,) = answers
    assert answer.status_code == 422 and "takes longer than 3 s to decode" in answer.text
    assert answer.text.count("took too long") == 4  # in the message and in the list
    assert slowest < 3


# -- places ----------------------------------------------------------------------------------------------------------


def test_more_uploads_than_places_wait_and_health_answers(address, monkeypatch):
    """Also more of them than there are threads."""
    hold = threading.Event()
    rest = "http://{}:{}".format(*address)
    monkeypatch.setattr(service.Service, "look_at", lambda self, files, client: hold.wait(30) and ([], []))
    answers = []

    def upload() -> None:
        answers.append(httpx.post(f"{rest}/api/classify", files={"files": photo()}, timeout=60).status_code)

    uploads = [threading.Thread(target=upload) for _ in range(60)]
    for thread in uploads:
        thread.start()
    try:
        assert httpx.get(f"{rest}/api/health", timeout=20).status_code == 200
        assert httpx.get(f"{rest}/api/topics", timeout=20).status_code == 200
        assert answers == []
    finally:
        hold.set()
    for thread in uploads:
        thread.join(30)
    assert answers == [422] * 60  # as `look_at` found no photo


def test_a_slow_upload_holds_no_place(address, monkeypatch):
    monkeypatch.setattr(guards, "AT_A_TIME", {"upload": 1, "change": 1, "other": 1})
    head = b"POST /api/classify HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary=x\r\n"
    with ExitStack() as slow:
        for _ in range(30):
            slow.enter_context(connected(address)).sendall(head + b"Content-Length: 1000\r\n\r\n--x\r\n")
        rest = "http://{}:{}".format(*address)
        assert httpx.post(f"{rest}/api/classify", files={"files": photo()}, timeout=20).status_code == 200


def test_silent_connections_make_room(address, monkeypatch):
    """The oldest goes; one that waits for its answer stays."""
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 20)
    hold = threading.Event()
    monkeypatch.setattr(service.Service, "look_at", lambda self, files, client: hold.wait(30) and ([], []))
    rest = "http://{}:{}".format(*address)
    answers = []
    asking = threading.Thread(
        target=lambda: answers.append(httpx.post(f"{rest}/api/classify", files={"files": photo()}, timeout=60))
    )
    asking.start()
    time.sleep(0.5)
    with ExitStack() as silent:
        clients = [silent.enter_context(connected(address)) for _ in range(60)]
        for _ in range(5):
            assert httpx.get(f"{rest}/api/health", timeout=20).status_code == 200
        assert all(said_until_closed(client) == b"" for client in clients[:30])
    hold.set()
    asking.join(30)
    assert answers[0].status_code == 422


def test_the_next_place_goes_to_who_has_fewest(monkeypatch):
    monkeypatch.setattr(guards, "MAX_WAITING", 6)

    async def ask(line, client: str, order: list[str]) -> None:
        try:
            async with line.place(client):
                order.append(client)
                await asyncio.sleep(0.01)
        except guards.Busy:
            order.append(f"{client} refused")

    async def run() -> list[str]:
        line, order = guards.Line(3), []
        await asyncio.gather(*(ask(line, client, order) for client in "aaaaaaaabbc"))
        assert line.free == 3 and not line.under_way and not line.waiting
        return order

    order = asyncio.run(run())
    assert order.count("a refused") == 2 and "b refused" not in order and "c refused" not in order
    served = [client for client in order if len(client) == 1]
    assert served[:4] == list("aabc") and sorted(served) == list("aaaaaabbc")


def test_a_client_has_at_most_half_of_the_places():
    async def run() -> None:
        line, release, inside = guards.Line(4), asyncio.Event(), []

        async def ask(client: str) -> None:
            async with line.place(client):
                inside.append(client)
                await release.wait()

        asking = [asyncio.ensure_future(ask(client)) for client in "aaaaaabbc"]
        await asyncio.sleep(0.01)
        assert inside == list("aabc")
        release.set()
        await asyncio.gather(*asking)
        assert sorted(inside) == list("aaaaaabbc") and line.free == 4

    asyncio.run(run())


def test_who_reads_slowly_holds_no_place():
    """An answer is made at a place, and sent without one."""
    reading, seen = asyncio.Event, []

    async def answer(scope, receive, send):
        await send({"type": "http.response.start", "status": 200, "headers": []})
        await send({"type": "http.response.body", "body": b"x"})

    async def run() -> None:
        limits, taken = guards.Limits(answer), reading()

        async def send(message) -> None:
            seen.append((message["type"], limits.lines["other"].free))
            await taken.wait()

        scope = {"type": "http", "method": "GET", "path": "/api/map", "headers": [], "client": ("a", 1)}
        asking = asyncio.ensure_future(limits(scope, None, send))
        await asyncio.sleep(0.01)
        taken.set()
        await asking

    asyncio.run(run())
    assert seen[0] == ("http.response.start", guards.AT_A_TIME["other"])


def test_a_crowd_that_waits_for_answers_shuts_nobody_else_out(address, monkeypatch):
    """Of the address with most connections one goes, if need be one that waits for its answer."""
    monkeypatch.setattr(server, "MAX_CONNECTIONS", 10)
    hold = threading.Event()
    monkeypatch.setattr(service.Service, "look_at", lambda self, files, client: hold.wait(30) and ([], []))
    body = b'--x\r\nContent-Disposition: form-data; name="files"; filename="a"\r\n\r\na\r\n--x--\r\n'
    head = b"POST /api/classify HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: multipart/form-data; boundary=x\r\n"
    with ExitStack() as crowd:
        for _ in range(10):
            crowd.enter_context(connected(address)).sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        time.sleep(0.5)
        try:
            transport = httpx.HTTPTransport(local_address="127.0.0.2")
            with httpx.Client(transport=transport, base_url="http://{}:{}".format(*address)) as other:
                assert other.get("/api/health", timeout=20).status_code == 200
        finally:
            hold.set()


def test_a_server_may_open_as_many_files_as_it_takes_photos():
    resource = pytest.importorskip("resource")
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (900, before[1]))
    try:
        server._allow_files(1000)
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (1000, before[1])
        server._allow_files(10)  # never fewer
        assert resource.getrlimit(resource.RLIMIT_NOFILE) == (1000, before[1])
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)


def test_who_waits_too_long_or_leaves_has_no_place(monkeypatch):
    monkeypatch.setattr(guards, "WAIT_SECONDS", 0.05)

    async def run() -> None:
        line = guards.Line(1)
        async with line.place("a"):
            with pytest.raises(guards.Busy):
                async with line.place("b"):
                    pass
            with pytest.raises(guards.Busy):
                async with line.place("c", asyncio.sleep(0.01)):
                    pass
            waiting = asyncio.ensure_future(line.place("d").__aenter__())
            await asyncio.sleep(0)
            waiting.cancel()
            await asyncio.gather(waiting, return_exceptions=True)
            assert not line.waiting and not line.free
        assert line.free == 1 and not line.under_way

    asyncio.run(run())


def test_bodies_held_at_a_time_have_a_limit(client, monkeypatch):
    monkeypatch.setattr(guards, "MAX_HELD_BYTES", 2_000)
    for _ in range(5):
        assert client.post("/api/classify", files={"files": photo()}).status_code == 200
    refused = client.post("/api/classify", files={"files": photo(size=(600, 600), format="BMP")})
    assert refused.status_code == 503 and refused.headers["retry-after"] == "5"


def test_a_full_temporary_folder_is_the_servers_fault(client, monkeypatch):
    def full(self, data):
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("starlette.datastructures.UploadFile.write", full)
    answer = client.post("/api/classify", files={"files": photo()})
    assert answer.status_code == 507 and "No space left on device" in answer.json()["error"]


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


# -- metrics ---------------------------------------------------------------------------------------------------------


def test_metrics(client):
    client.post("/api/classify", files={"files": photo()})
    client.get("/api/classes/nothing")
    client.get("/anything/else")
    for method in ("BREW", "PROPFIND"):
        client.request(method, "/api/health")
    text = client.get("/metrics").text
    assert "BREW" not in text
    figures = dict(line.rsplit(" ", 1) for line in text.splitlines() if not line.startswith("#"))
    assert figures['unseen_requests_total{method="POST",route="/api/classify",status="200"}'] == "1.0"
    assert figures['unseen_requests_total{method="GET",route="/api/classes/{id:path}",status="404"}'] == "1.0"
    assert figures['unseen_requests_total{method="GET",route="other",status="404"}'] == "1.0"
    assert figures["unseen_photos_total"] == "1.0"


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
