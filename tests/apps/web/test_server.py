"""Batching, memory of photos, ports, marks."""

from __future__ import annotations

import socket
import threading

import numpy as np
import pytest
from PIL import Image

from support.colours import make_network
from unseen.apps.web.server import address_of, bind
from unseen.apps.web.service import NetworkWorker
from unseen.util.errors import UnseenError


def pixels(colour: str = "red") -> np.ndarray:
    return np.array(Image.new("RGB", (8, 8), colour))


def test_photos_of_many_threads_share_runs_of_the_network():
    worker = NetworkWorker(make_network(), most=8, wait=0.2)
    colours = ["red", "lime", "blue", "white"] * 6
    found = [None] * len(colours)

    def ask(at):
        found[at] = worker.submit(pixels(colours[at])).result(timeout=60)

    threads = [threading.Thread(target=ask, args=(at,)) for at in range(len(colours))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    worker.close()
    alone = {colour: NetworkWorker(make_network(), wait=0).submit(pixels(colour)).result() for colour in set(colours)}
    for colour, features in zip(colours, found, strict=True):
        np.testing.assert_allclose(features, alone[colour], atol=1e-6)
    assert worker.batcher.items == 24 and worker.batcher.batches < 24 and 1 < worker.batcher.largest <= 8


def test_a_failing_network_tells_and_lives_on():
    network = make_network()
    worker = NetworkWorker(network, wait=0)
    network.features, working = lambda batch: 1 / 0, network.features
    with pytest.raises(ZeroDivisionError):
        worker.submit(pixels()).result(timeout=60)
    network.features = working
    assert worker.submit(pixels()).result(timeout=60).shape == (3,)
    worker.close()


def test_ports():
    with bind("127.0.0.1", 0) as taken:
        taken.listen()
        number = taken.getsockname()[1]
        with pytest.raises(UnseenError, match=f"port {number} is in use"):
            bind("127.0.0.1", number)
        with bind("127.0.0.1", None, default=number) as other:
            assert number < other.getsockname()[1] < number + 20
            assert address_of(other, "127.0.0.1") == f"http://127.0.0.1:{other.getsockname()[1]}"
            assert address_of(other, "0.0.0.0").startswith("http://127.0.0.1:")
    with pytest.raises(UnseenError, match="no-such-host"):
        bind("no-such-host.invalid", None)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        number = free.getsockname()[1]
    bind("127.0.0.1", number).close()
