"""The decoder's process: what a crafted picture may cost, and that it ends nobody else's work."""

from __future__ import annotations

import os
import pickle
import signal
import threading
import time

import numpy as np
import pytest

from support.pictures import of_many_chunks, of_many_segments, photo, png
from unseen.apps.web.decoder import Decoder, TookTooLong
from unseen.photos import PhotoTransform, UnreadablePhoto, read_photo

TRANSFORM = PhotoTransform(32)


@pytest.fixture
def decoder():
    decoder = Decoder(TRANSFORM, max_pixels=64_000_000, seconds=3)
    yield decoder
    decoder.close()


def test_it_starts_with_the_first_photo_and_gives_what_the_library_gives(decoder):
    assert decoder._process is None
    decoded, picture = (
        decoder.decode("a", photo((900, 700))),
        read_photo(photo((900, 700)), short_side=TRANSFORM.resize),
    )
    assert decoded.size == picture.size
    np.testing.assert_array_equal(decoded.pixels, TRANSFORM.crop(picture))


def test_an_unreadable_photo_is_reported_and_the_decoder_lives_on(decoder):
    decoder.decode("a", photo())
    process = decoder._process
    with pytest.raises(UnreadablePhoto, match=r"notes\.txt: is not a picture in one of these formats"):
        decoder.decode("notes.txt", b"nothing")
    assert decoder._process is process


@pytest.mark.parametrize("attack", [of_many_segments, of_many_chunks])
def test_a_photo_that_takes_too_long_ends_its_decoder_and_others_go_on(decoder, attack):
    decoder.decode("a", photo())
    decoder.seconds, bad, problems = 1.0, attack(), []

    def ask() -> None:
        with pytest.raises(TookTooLong) as caught:
            decoder.decode("bad", bad)
        problems.append(caught.value.why)

    attacker, began = threading.Thread(target=ask), time.monotonic()
    attacker.start()
    time.sleep(0.1)
    decoder.decode("good", photo())  # waits for the other, and gets a decoder of its own
    assert time.monotonic() - began < 10
    attacker.join()
    assert problems == ["takes longer than 1 s to decode: save it again as a plain JPEG or PNG."]


def test_memory_has_a_limit():
    decoder = Decoder(TRANSFORM, max_pixels=64_000_000, seconds=30, memory=600_000_000)
    try:
        with pytest.raises(UnreadablePhoto, match=r"too much memory to decode|cannot be decoded"):
            decoder.decode("large", png(7900, 7900, 6))
        assert decoder.decode("small", photo()).size == (64, 48)
    finally:
        decoder.close()


def test_a_decoder_that_dies_is_replaced(decoder):
    decoder.decode("a", photo())
    process = decoder._process
    os.kill(process.pid, signal.SIGKILL)
    with pytest.raises(UnreadablePhoto, match="cannot be decoded"):
        decoder.decode("a", photo())
    assert decoder.decode("a", photo()).size == (64, 48) and decoder._process.pid != process.pid


@pytest.mark.skipif(not os.path.isdir("/proc/self"), reason="reads /proc")
def test_it_needs_no_torch_and_leaves_with_the_server(decoder):
    decoder.decode("a", photo())
    with open(f"/proc/{decoder._process.pid}/maps") as maps:
        assert "libtorch" not in maps.read()
    process = decoder._process
    decoder.close()
    assert process.exitcode is not None


class Attack:
    def __reduce__(self):
        return os.mkdir, ("harm",)


ANSWERS = {
    "pickle": [pickle.dumps(Attack())],
    "a long header": [b"{" * 100_000],
    "too many pixels": [b'{"size": [1, 1]}', bytes(4 * 32 * 32)],
    "too few pixels": [b'{"size": [1, 1]}', bytes(4)],
    "no size": [b"{}"],
    "a list": [b"[]"],
    "not JSON": [b"\xff\xff"],
}


class Caught:
    """The other end of a pipe to a decoder that a photo has taken over."""

    def __init__(self, parts):
        self.parts = list(parts)

    def send_bytes(self, photo):
        pass

    def recv_bytes(self, most):
        part = self.parts.pop(0)
        if len(part) > most:
            raise OSError("bad message length")
        return part

    def close(self):
        pass


@pytest.mark.parametrize("answer", ANSWERS)
def test_a_decoder_that_a_photo_has_taken_over_is_ended(monkeypatch, tmp_path, decoder, answer):
    monkeypatch.chdir(tmp_path)
    decoder.decode("a", photo())
    process, decoder._pipe = decoder._process, Caught(ANSWERS[answer])
    with pytest.raises(UnreadablePhoto, match="cannot be decoded"):
        decoder.decode("a", photo())
    assert not (tmp_path / "harm").exists() and process.exitcode is not None
    assert decoder.decode("a", photo()).size == (64, 48)
