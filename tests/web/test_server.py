"""Batching, memory of photos, ports, marks."""

from __future__ import annotations

import socket
import threading
from dataclasses import replace

import numpy as np
import pytest

from support.colours import network, photo
from unseen.classifier import ZeroShotClassifier
from unseen.errors import UnseenError
from unseen.web.batching import NetworkWorker
from unseen.web.memory import PhotoMemory, Remembered
from unseen.web.served import GUESSWORK, Served
from unseen.web.server import address_of, bind


def test_photos_of_many_threads_share_runs_of_the_network():
    worker = NetworkWorker(network(), most=8, wait=0.2)
    colours = ["red", "lime", "blue", "white"] * 6
    found = [None] * len(colours)

    def ask(at):
        found[at] = worker.submit(photo(colours[at])).result(timeout=60)

    threads = [threading.Thread(target=ask, args=(at,)) for at in range(len(colours))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    worker.close()
    alone = {colour: NetworkWorker(network(), wait=0).submit(photo(colour)).result() for colour in set(colours)}
    for colour, features in zip(colours, found, strict=True):
        np.testing.assert_allclose(features, alone[colour], atol=1e-6)
    assert worker.batcher.items == 24 and worker.batcher.batches < 24 and 1 < worker.batcher.largest <= 8


def test_a_failing_network_tells_and_lives_on():
    backbone = network()
    worker = NetworkWorker(backbone, wait=0)
    backbone.features, working = lambda batch: 1 / 0, backbone.features
    with pytest.raises(ZeroDivisionError):
        worker.submit(photo()).result(timeout=60)
    backbone.features = working
    assert worker.submit(photo()).result(timeout=60).shape == (3,)
    worker.close()


def test_an_unreadable_photo_is_told_to_its_sender_only():
    worker = NetworkWorker(network(), wait=0)
    with pytest.raises(UnseenError, match="not a picture"):
        worker.submit(b"no photo")
    assert worker.submit(photo("red")).result(timeout=60)[0] == pytest.approx(1, abs=0.01)
    worker.close()
    assert worker.batcher.items == 1


def test_rankings_that_arrive_together_are_each_answered_for_themselves(service):
    (red, _), (blue, _) = (service.look_at([(colour, photo(colour))])[0][0] for colour in ("red", "blue"))
    wanted = [(red, "any"), (blue, "any"), (red, "unseen"), (blue, "seen"), (red, "any")] * 4
    found = [None] * len(wanted)
    served = service.served("steep")

    def ask(at):
        token, candidates = wanted[at]
        photos = [(token, service.recall(token))]
        found[at] = service.rank(served, photos, k=3, candidates=candidates, shift=0.0)

    threads = [threading.Thread(target=ask, args=(at,)) for at in range(len(wanted))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for (token, candidates), answer in zip(wanted, found, strict=True):
        features = service.recall(token).features[served.network][None]
        alone = served.rank(features, 3, candidates, 0.0)[0]
        assert [label["id"] for label in answer[0]["labels"]] == [label["id"] for label in alone["labels"]]
        assert answer[0]["token"] == token


def test_a_ranking_that_fails_fails_alone(service):
    token, remembered = service.look_at([("red", photo("red"))])[0][0]
    served = service.served("steep")
    with pytest.raises(UnseenError):
        service.rank(served, [(token, remembered)], k=3, candidates="nothing", shift=0.0)
    assert service.rank(served, [(token, remembered)], k=3, candidates="any", shift=0.0)[0]["labels"]


def test_the_memory_forgets_what_was_not_asked_for_the_longest():
    memory = PhotoMemory(most=2)
    first, second = (memory.keep(Remembered(name, {})) for name in "ab")
    assert memory.get(first).name == "a"
    third = memory.keep(Remembered("c", {}))
    assert memory.get(second) is None and memory.get(first).name == "a" and memory.get(third).name == "c"
    assert len({first, second, third}) == 3 and all(len(token) >= 20 for token in (first, second, third))


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


def test_marks(colour_models):
    model = colour_models["steep"]
    rows = model.bundle.taxonomy.indices(["tomato", "cherry", "moss"])
    trust = np.ones(len(model.bundle), np.float32)
    trust[rows[2]] = GUESSWORK / 2
    bundle = replace(model.bundle, solution=replace(model.bundle.solution, trust=trust))
    served = Served("x", ZeroShotClassifier(bundle, model.backbone))
    assert [served.mark(int(row)) for row in rows] == ["seen", "unseen", "guesswork"]
    served.__dict__["is_class"] = np.zeros(len(bundle), bool)
    assert served.mark(int(rows[1])) == "link"
    assert Served("x", model).mark(int(rows[2])) == "unseen"  # no trust figure: no guess about guesswork
