"""Decoders in processes: what a stranger's photo may cost, and that it costs nobody else anything."""

from __future__ import annotations

import os
import queue
import signal
import subprocess
import sys
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
            decoders.decode(bad, [TRANSFORM], "attacker")
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


def test_a_client_gets_half_of_what_is_free():
    """Whatever it sends, and however much at a time, the photo of another one does not wait for it."""
    decoders, bad, finished = Decoders(4, seconds=3, max_pixels=64_000_000), of_many_segments(), []

    def attack() -> None:
        with pytest.raises(TookTooLong):
            decoders.decode(bad, [TRANSFORM], "attacker")
        finished.append(time.monotonic())

    attackers = [threading.Thread(target=attack) for _ in range(4)]
    for attacker in attackers:
        attacker.start()
    try:
        while len(decoders._idle) > 2:
            time.sleep(0.01)
        time.sleep(0.2)
        assert len(decoders._idle) == 2
        decoders.decode(photo(), [TRANSFORM], "another")
        assert not finished
    finally:
        for attacker in attackers:
            attacker.join()
        decoders.close()
    assert len(finished) == 4 and not decoders._busy


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


CAUGHT = """
import os, pickle, struct, sys
class Attack:
    def __reduce__(self):
        return os.mkdir, (sys.argv[1],)
answers = {
    "pickle": pickle.dumps(Attack()),
    "no end": struct.pack("<QQ", 1 << 60, 0),
    "too many pixels": struct.pack("<QQ", 2, 1 << 60) + b"{}",
    "too few pixels": struct.pack("<QQ", 18, 4) + b'{"sizes": [[1,1]]}' + bytes(4),
    "no sizes": struct.pack("<QQ", 2, 0) + b"{}",
    "a list": struct.pack("<QQ", 2, 0) + b"[]",
    "not JSON": struct.pack("<QQ", 2, 0) + b"\\xff\\xff",
    "half": b"\\x00",
}
sys.stdin.buffer.read(16)
sys.stdout.buffer.write(answers[sys.argv[2]])
"""


@pytest.mark.parametrize(
    "answer", ["pickle", "no end", "too many pixels", "too few pixels", "no sizes", "a list", "not JSON", "half"]
)
def test_a_decoder_that_a_photo_has_taken_over_reaches_nothing(monkeypatch, tmp_path, answer):
    decoders = Decoders(1, seconds=20, max_pixels=100)
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    caught = subprocess.Popen([sys.executable, "-c", CAUGHT, tmp_path / "harm", answer], **pipes)
    monkeypatch.setattr(decoders, "_start", lambda: caught)
    with pytest.raises(UnreadablePhoto, match="cannot be decoded"):
        decoders.decode(photo(), [TRANSFORM])
    assert not (tmp_path / "harm").exists() and caught.returncode is not None and started(decoders) == []


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="reads /proc")
def test_a_decoder_knows_no_secrets_and_may_write_no_file(monkeypatch, tmp_path, decoders):
    monkeypatch.setenv("UNSEEN_TOKEN", "a-secret-of-the-server")
    monkeypatch.chdir(tmp_path)
    (tmp_path / "PIL.py").write_text("raise SystemExit('a module of the current folder')")
    decoders.decode(photo(), [TRANSFORM])
    (process,) = started(decoders)
    with open(f"/proc/{process.pid}/environ") as environment, open(f"/proc/{process.pid}/limits") as limits:
        assert "UNSEEN" not in environment.read()
        limit = next(line for line in limits if line.startswith("Max file size"))
    assert limit.split()[3] == "0"


def started(decoders: Decoders) -> list:
    return [process for process in decoders._idle if process is not None]
