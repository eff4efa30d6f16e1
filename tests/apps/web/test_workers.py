"""Several processes behind one socket: restarted under load, killed, and stopped, without a request lost."""

from __future__ import annotations

import os
import signal
import threading
import time
from pathlib import Path

import httpx
import numpy as np
import pytest

from support.browser import serving
from support.colours import photo
from support.tiny_network import make_bundle
from unseen.apps.web.service import PhotoMemory, Remembered

pytestmark = pytest.mark.skipif(os.name != "posix", reason="workers need signals and inherited sockets")


def children(pid: int) -> list[int]:
    """The server processes: multiprocessing starts one for its own book-keeping too."""
    started = [int(text) for text in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    return [child for child in started if b"spawn_main" in Path(f"/proc/{child}/cmdline").read_bytes()]


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="needs /proc")
def test_workers_share_photos_and_are_restarted_without_losing_a_request(tmp_path):
    make_bundle().save(tmp_path / "bundle")
    with serving(tmp_path / "bundle", "--workers", "2", "--trust-code") as (address, process):
        before = children(process.pid)
        assert len(before) == 2

        # What one process was sent, another ranks: no connection is kept, so both are asked.
        token = httpx.post(f"{address}/api/classify", files={"files": photo()}).json()["photos"][0]["token"]
        ranked = [httpx.post(f"{address}/api/rank", json={"tokens": [token]}).status_code for _ in range(10)]
        assert ranked == [200] * 10
        assert httpx.post(f"{address}/api/add", json={"name": "x", "parents": ["y"]}).status_code == 403

        answers, problems, done = [], [], threading.Event()

        def ask() -> None:
            while not done.is_set():
                try:
                    answers.append(httpx.get(f"{address}/api/health", timeout=120).status_code)
                except httpx.HTTPError as error:
                    problems.append(error)

        asking = threading.Thread(target=ask)
        asking.start()
        process.send_signal(signal.SIGHUP)
        until = time.monotonic() + 240
        while set(children(process.pid)) & set(before) and time.monotonic() < until:
            time.sleep(0.2)
        done.set()
        asking.join()
        after = children(process.pid)
        assert len(after) == 2 and not set(after) & set(before)
        assert problems == [] and set(answers) == {200} and len(answers) > 10

        # What the processes before the restart did is still counted.
        text = httpx.get(f"{address}/metrics").text
        assert 'unseen_requests_total{method="POST",route="/api/rank",status="200"} 10.0' in text
        assert "unseen_photos_total 1.0\n" in text

        os.kill(after[0], signal.SIGKILL)  # one that dies is started again, and the other one answers meanwhile
        assert httpx.get(f"{address}/api/health", timeout=60).status_code == 200
        while after[0] in children(process.pid) or len(children(process.pid)) < 2:
            assert time.monotonic() < until
            time.sleep(0.2)
        last = children(process.pid)
    assert process.returncode == 0
    assert not any(Path(f"/proc/{pid}").exists() for pid in last)


def test_photos_in_a_shared_folder(tmp_path):
    one, other = PhotoMemory(tmp_path, most=2), PhotoMemory(tmp_path, most=2)
    features = {"network {'size': 8}": np.arange(3, dtype=np.float32), "b": np.ones(2, np.float32)}
    first, second = (one.keep(Remembered(name, features)) for name in ("a\u202e", "b"))
    found = other.get(first)
    assert found.name == "a\u202e" and list(found.features) == list(features)
    np.testing.assert_array_equal(found.features["b"], features["b"])
    third = one.keep(Remembered("c", features))
    assert other.get(first) is None and other.get(second).name == "b" and other.get(third).name == "c"
    assert len(list(tmp_path.iterdir())) == 2 == len(one)
    for token in ("../../etc/passwd", "", "x" * 22, f"{second}\n"):
        assert one.get(token) is None
