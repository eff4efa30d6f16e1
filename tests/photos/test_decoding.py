"""Decoders in processes: what a stranger's photo may cost, and that it costs nobody else anything."""

from __future__ import annotations

import os
import queue
import signal
import threading
import time

import numpy as np
import pytest

from support.pictures import of_many_chunks, of_many_segments, photo, png
from unseen.photos import PhotoTransform, UnreadablePhoto, read_photo
from unseen.photos.decoding import Decoders, TookTooLong

TRANSFORM = PhotoTransform(32)


@pytest.fixture
def decoders():
    decoders = Decoders(2, seconds=1.5, max_pixels=64_000_000)
    yield decoders
    decoders.close()


def test_a_decoder_gives_what_the_library_gives(decoders):
    for other in (TRANSFORM, PhotoTransform(64, squash=True)):
        first, second = decoders.decode(photo((900, 700)), [TRANSFORM, other])
        picture = read_photo(photo((900, 700)), short_side=other.resize)
        assert second.size == picture.size
        np.testing.assert_array_equal(second.pixels, other.crop(picture))
        assert first.pixels.shape == (32, 32, 3)


def test_an_unreadable_photo_is_reported_and_the_decoder_lives_on(decoders):
    decoders.decode(photo(), [TRANSFORM])
    (process,) = started(decoders)
    with pytest.raises(UnreadablePhoto, match="is not a picture in one of these formats"):
        decoders.decode(b"nothing", [TRANSFORM])
    assert started(decoders) == [process]


@pytest.mark.parametrize("attack", [of_many_segments, of_many_chunks])
def test_a_photo_that_takes_too_long_delays_no_other(decoders, attack):
    decoders.decode(photo(), [TRANSFORM])
    bad, problems = attack(), []

    def ask() -> None:
        try:
            decoders.decode(bad, [TRANSFORM])
        except TookTooLong as error:
            problems.append(error)

    attacker = threading.Thread(target=ask)
    attacker.start()
    began, answered = time.monotonic(), 0
    while attacker.is_alive():
        decoders.decode(photo(), [TRANSFORM])
        answered += 1
    assert len(problems) == 1 and "takes longer than 1.5 s" in problems[0].why
    assert answered >= 5 and time.monotonic() - began < 10
    assert decoders.decode(photo(), [TRANSFORM])[0].pixels.shape == (32, 32, 3)


def test_memory_has_a_limit():
    decoders = Decoders(1, seconds=30, max_pixels=64_000_000, memory=100_000_000)
    try:
        with pytest.raises(UnreadablePhoto, match=r"too much memory to decode|cannot be decoded"):
            decoders.decode(png(6000, 6000), [TRANSFORM])
        assert decoders.decode(photo(), [TRANSFORM])[0].size == (64, 48)
    finally:
        decoders.close()


def test_a_decoder_that_dies_is_replaced(decoders):
    decoders.decode(photo(), [TRANSFORM])
    (process,) = started(decoders)
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(UnreadablePhoto, match="cannot be decoded"):
        decoders.decode(photo(), [TRANSFORM])
    assert decoders.decode(photo(), [TRANSFORM])[0].size == (64, 48)
    (other,) = started(decoders)
    assert other.pid != process.pid and process.returncode == -signal.SIGKILL


def test_waiting_for_a_decoder_ends():
    decoders = Decoders(0, seconds=1, max_pixels=100, wait=0.05)
    with pytest.raises(queue.Empty):
        decoders.decode(photo(), [TRANSFORM])


def test_a_decoder_starts_without_torch_and_leaves_with_the_pool(decoders):
    decoders.decode(photo(), [TRANSFORM])
    (process,) = started(decoders)
    if os.path.exists(f"/proc/{process.pid}/maps"):
        with open(f"/proc/{process.pid}/maps") as maps:
            assert "libtorch" not in maps.read()
    decoders.close()
    assert process.returncode is not None


def started(decoders: Decoders) -> list:
    return [process for process in decoders._idle.queue if process is not None]
