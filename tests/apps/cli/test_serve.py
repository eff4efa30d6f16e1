"""`unseen serve` on the command line: what goes wrong is told in one line."""

from __future__ import annotations

import os
import signal
import socket
import threading
import time
from pathlib import Path

import httpx
import pytest

from support.browser import serving
from support.command_line import run_command
from support.pictures import photo


def test_a_port_in_use_is_reported_before_anything_is_loaded():
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        number = taken.getsockname()[1]
        result = run_command("serve", "nowhere", "--port", str(number))
    assert result.code == 1 and f"port {number} is in use" in result.err


def test_what_is_not_a_bundle(tmp_path):
    result = run_command("serve", str(tmp_path / "nowhere"))
    assert result.code == 1 and "is not a bundle" in result.err


@pytest.fixture
def started(monkeypatch) -> list[str]:
    """A server that ends as soon as the page was announced; the addresses that a browser was to open."""
    opened: list[str] = []
    monkeypatch.setattr("webbrowser.open", opened.append)

    def run(app, bound, ready) -> None:
        ready()
        bound.close()

    monkeypatch.setattr("unseen.apps.web.server.run", run)
    return opened


def test_it_says_where_the_page_is_and_what_it_serves(here, started):
    done = run_command("serve", "bundle", "--port", 0, "--open")
    assert done.code == 0, done.err
    assert "bundle: kin, 43 classes, 6 of them seen by cli_networks:build" in done.out
    (address,) = started
    assert f"The page is at {address}" in done.out and "password" not in done.err


def test_json_has_the_address_and_the_bundle(here, started):
    done = run_command("serve", "bundle", "--port", 0, "--json")
    assert done.code == 0, done.err
    assert done.json["bundle"]["name"] == "bundle" and done.json["address"].startswith("http://127.0.0.1:")
    assert not started


def test_with_a_token_there_is_nothing_to_warn_of(here, started, monkeypatch):
    done = run_command("serve", "bundle", "--host", "0.0.0.0", "--port", 0, "--open", "--token", "correct-horse")
    assert done.code == 0 and "password" not in done.err
    assert started[0].endswith("/?token=correct-horse") and f"The page is at {started[0]}" in done.out
    monkeypatch.setenv("UNSEEN_TOKEN", "battery-staple")
    done = run_command("serve", "bundle", "--host", "0.0.0.0", "--port", 0, "--open", "--json")
    assert started[1].endswith("/?token=battery-staple") and "battery" not in done.out


@pytest.mark.parametrize(("options", "says"), [([], "unless you start it with --read-only"), (["--read-only"], "")])
def test_letting_others_in_is_warned_of(here, started, options, says):
    done = run_command("serve", "bundle", "--host", "0.0.0.0", "--port", 0, *options)
    assert done.code == 0 and "there is no password" in done.err and says in done.err
    assert ("--read-only" in done.err) == bool(says)


@pytest.mark.slow
@pytest.mark.skipif(os.name == "nt", reason="signals of POSIX")
@pytest.mark.parametrize("signals", [["SIGTERM"], ["SIGINT"], ["SIGINT", "SIGINT"]])
def test_requests_under_way_are_answered_at_the_end_and_nothing_is_left(here, signals):
    """Of a second Ctrl-C they are not, but it is as quiet."""
    with serving("bundle", "--trust-code") as (address, server):
        statuses: list[int] = []

        def ask() -> None:
            files = [("files", ("a.bmp", photo((600, 600), "BMP")))] * 4
            statuses.append(httpx.post(f"{address}/api/classify", files=files, timeout=60).status_code)

        ask()  # the decoder has started
        requests = [threading.Thread(target=ask) for _ in range(20)]
        for request in requests:
            request.start()
        time.sleep(0.3)
        decoders = children(server.pid)
        for name in signals:
            server.send_signal(getattr(signal, name))
            time.sleep(0.1)
        for request in requests:
            request.join(60)
        said = server.stderr.read()
        server.wait(30)
    assert server.returncode == 0 and "Traceback" not in said and "The server has stopped." in said, said[-2000:]
    assert not any(os.path.exists(f"/proc/{pid}") for pid in decoders)
    if len(signals) == 1:
        assert set(statuses) == {200}  # one that came too late found nobody, and is not among them


def children(pid: int) -> list[str]:
    path = f"/proc/{pid}/task/{pid}/children"
    return Path(path).read_text().split() if os.path.exists(path) else []
