"""Readers of word-vector files: every format, every way a file can be wrong, and the cache."""

from __future__ import annotations

import gzip
import io
import os
import struct
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unseen.util.errors import UnseenError
from unseen.vectors import files
from unseen.vectors.files import load_vector_file, parse

WORDS = ["dog", "café", "new_york"]
MATRIX = np.array([[1, 2.5, -3], [0.5, 0, 1e-3], [4, 5, 6]], np.float32)
GLOVE = "".join(
    f"{word} {' '.join(map(str, row))}\n" for word, row in zip(WORDS, MATRIX.tolist(), strict=True)
).encode()
HEADED = b"3 3\n" + GLOVE


@pytest.fixture(autouse=True)
def cache(tmp_path_factory, monkeypatch) -> Path:
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("UNSEEN_CACHE", str(folder))
    return folder


@pytest.fixture
def write(tmp_path):
    def write(content: bytes, name: str = "vectors") -> Path:
        path = tmp_path / name
        path.write_bytes(content)
        return path

    return write


def refusal(path) -> str:
    with pytest.raises(UnseenError) as caught:
        load_vector_file(path)
    return str(caught.value)


# --- formats ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "content",
    [
        GLOVE,
        GLOVE.rstrip(b"\n"),
        GLOVE.replace(b"\n", b"\r\n"),
        GLOVE.replace(b"\n", b" \n"),
        GLOVE.replace(b" ", b"\t"),
        GLOVE.replace(b" ", b"  "),
        b"\xef\xbb\xbf" + GLOVE,
        GLOVE + b"\n\n",
        GLOVE.replace(b"\n", b"\n\n"),
        HEADED,
        HEADED.replace(b"\n", b" \n"),  # fastText ends its lines so
    ],
    ids=[
        *("plain", "unended", "crlf", "trailing-space", "tabs", "double-spaces", "bom", "blank-end", "blank-between"),
        *("header", "fasttext"),
    ],
)
@pytest.mark.parametrize("wrap", ["plain", "gzip", "zip"])
def test_every_format_and_wrapping_gives_the_same_table(write, tmp_path, content, wrap):
    path = write(content if wrap == "plain" else gzip.compress(content))
    if wrap == "zip":
        path = tmp_path / "archive"  # no suffix: content decides
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("folder/vectors.txt", content)
    table = load_vector_file(path)
    assert (table.words, table.duplicates) == (WORDS, 0)
    np.testing.assert_array_equal(table.vectors, MATRIX)


def test_words_may_hold_spaces_and_look_like_numbers(write):
    table = load_vector_file(write(b"the 1 2\n. . . 3 4\nat name@domain.com 5 6\n2000 7 8\nnan 9 10\n\xc2\xa0 11 12\n"))
    assert table.words == ["the", ". . .", "at name@domain.com", "2000", "nan", "\xa0"]
    np.testing.assert_array_equal(table.vectors, np.arange(1, 13).reshape(6, 2))


def test_of_a_word_that_comes_twice_the_first_is_kept_and_the_rest_counted(write):
    table = load_vector_file(write(b"a 1 1\nb 2 2\na 3 3\na 4 4\nc 5 5\n"))
    assert (table.words, table.duplicates, len(table.vectors)) == (["a", "b", "c"], 2, 3)
    np.testing.assert_array_equal(table.vectors[:, 0], [1, 2, 5])


def test_an_archive_of_several_files_needs_a_name(tmp_path):
    path = tmp_path / "glove.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("glove.2d.txt", "a 1 2\n")
        archive.writestr("glove.3d.txt", "a 1 2 3\n")
        archive.writestr("__MACOSX/._glove.3d.txt", "junk")
    assert load_vector_file(f"{path}#glove.3d.txt").vectors.shape == (1, 3)
    assert load_vector_file(f"{path}#glove.2d.txt").vectors.shape == (1, 2)
    assert "contains 2 files" in (message := refusal(path))
    assert f"{path}#glove.2d.txt, {path}#glove.3d.txt" in message
    assert "no 'glove.9d.txt'" in (message := refusal(f"{path}#glove.9d.txt"))
    assert f"{path}#glove.2d.txt" in message


# --- what can be wrong with a file ------------------------------------------------------------------------------------

LONG = b"".join(b"w%d 1 2 3\n" % number for number in range(5000))


@pytest.mark.parametrize(
    ("content", "where", "what"),
    [
        (b"a 1 2 3\nb 1 2\nc 1 2 3\n", ":2:", "not a word and 3 numbers: 'b 1 2'"),
        (b"a 1 2 3\n\nb\n", ":3:", "not a word and 3 numbers"),
        (b"a 1 2\nb 1\nc 1 2 3\n", ":2:", "'b 1'"),  # two faults that make up for one another
        (b"2 3\na 1 2 3\nb 1 2\n", ":3:", "not a word and 3 numbers"),
        (b"a 1 2 3\nb 1 x 3\n", ":2:", "'b 1 x 3'"),
        (b"hello good world\n", ":1:", "'hello good world'"),
        (b"a 1 2 3\nb nan 2 3\n", ":2:", "'b' has a NaN"),
        (b"a 1 2 3\nb 1e99 2 3\n", ":2:", "'b' has a NaN"),  # infinite as float32
        (b"a 1 2\ncaf\xe9 1 2\n", ":2:", "utf-8"),
        (LONG + b"oops 1 2\n" + LONG, ":5001:", "not a word and 3 numbers"),
        (LONG + b"oops 1 2 nan\n" + LONG, ":5001:", "'oops' has a NaN"),
        (b"", "", "empty"),
        (b"5 3\na 1 2 3\n", ":1:", "promises 5 words, the file has 1. It seems to be cut short"),
        (b"1 3\na 1 2 3\nb 1 2 3\n", ":1:", "promises 1 words, the file has 2"),
        (b"5 0\na\n", ":1:", "promises 5 words of 0 dimensions"),
        ("a 1 2\n".encode("utf-16"), ":1:", "Readable: text with a word and its numbers on each line"),
        (b"\x80\x04\x95junk", ":1:", "not a word and 1 numbers"),  # a pickle
        (b"1 2\ndog " + struct.pack("<2f", 1, 2.5), ":2:", "not a word and 2 numbers: 'dog"),  # word2vec's binary
    ],
)
def test_what_is_wrong_is_said_with_its_line(write, content, where, what):
    path = write(content)
    message = refusal(path)
    assert message.startswith(f"{path}{where}")
    assert what in message


def packed(kind: str) -> bytes:
    """A file of word vectors in an archive of that kind."""
    if kind == "gzip":
        return gzip.compress(GLOVE * 40, mtime=0)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", getattr(zipfile, f"ZIP_{kind}")) as archive:
        archive.writestr(zipfile.ZipInfo("glove.txt"), GLOVE * 40, getattr(zipfile, f"ZIP_{kind}"))
    return buffer.getvalue()


PACKED = [packed(kind) for kind in ("STORED", "DEFLATED", "BZIP2", "LZMA", "gzip")]


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(PACKED), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=4), st.data())
def test_any_damage_to_an_archive_is_reported_with_its_name(tmp_path, content, changes, data):
    damaged = bytearray(content)
    for place, value in changes:
        damaged[2_654_435_761 * place % len(damaged)] = value  # hypothesis likes small numbers; these are anywhere
    if data.draw(st.booleans()):
        del damaged[data.draw(st.integers(0, len(damaged))) :]
    path = tmp_path / "archive"
    path.write_bytes(damaged)
    try:
        assert set(parse(path).words) == set(WORDS)
    except UnseenError as error:
        assert str(error).startswith(str(path))


@settings(deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.binary(max_size=200) | st.text("0123456789 .-e_\n\t\u00e9a", max_size=200).map(str.encode),
    st.sampled_from([b"", b"1 2\n", b"3 3\n", b"a 1 2 3\n", GLOVE, HEADED]),
)
def test_any_bytes_are_a_table_or_refused(tmp_path, rubbish, before):
    path = tmp_path / "vectors"
    path.write_bytes(before + rubbish)
    try:
        table = parse(path)
        assert len(table.words) == len(table.vectors) and np.isfinite(table.vectors).all()
    except UnseenError as error:
        assert str(error).startswith(str(path))


def test_places_without_a_file(tmp_path, write):
    assert "cannot be opened: No such file" in refusal(tmp_path / "absent.txt")
    assert "not a file of word vectors" in refusal(tmp_path)
    assert "cannot be opened" in refusal(tmp_path / ("long" * 100))
    os.mkfifo(tmp_path / "pipe")
    assert "not a file of word vectors" in refusal(tmp_path / "pipe")
    assert "not a zip archive" in refusal(f"{write(GLOVE)}#glove.txt")


# --- the cache --------------------------------------------------------------------------------------------------------


def entries(cache: Path) -> list[Path]:
    return sorted(cache.glob("word-vectors/*"))


def test_the_second_time_nothing_is_parsed(write, cache, monkeypatch):
    path = write(GLOVE)
    first = load_vector_file(path)
    monkeypatch.setattr(files, "parse", lambda *arguments: pytest.fail("parsed again"))
    second = load_vector_file(path)
    assert (second.words, second.sha256) == (first.words, first.sha256)
    np.testing.assert_array_equal(second.vectors, first.vectors)
    assert len(entries(cache)) == 1


def test_a_changed_file_is_parsed_again_and_the_old_entry_dropped(write, cache):
    path = write(b"a 1 2\n")
    load_vector_file(path)
    before = path.stat()
    path.write_bytes(b"b 3 4\n")  # the same size
    os.utime(path, ns=(before.st_atime_ns, before.st_mtime_ns + 1))
    table = load_vector_file(path)
    assert table.words == ["b"]
    np.testing.assert_array_equal(table.vectors, [[3, 4]])
    assert len(entries(cache)) == 1


def test_a_damaged_cache_is_made_again(write, cache):
    """Cut short, or with any bit changed."""
    path = write(GLOVE)
    load_vector_file(path)
    file = entries(cache)[0]
    content = file.read_bytes()
    for place in [None, *range(0, 8 * len(content), 8 * len(content) // 30 | 1)]:
        changed = bytearray(content[:5] if place is None else content)
        if place is not None:
            changed[place // 8] ^= 1 << place % 8
        file.write_bytes(changed)
        table = load_vector_file(path, show_progress=False)
        assert table.words == WORDS
        np.testing.assert_array_equal(table.vectors, MATRIX)
    assert file.read_bytes() == content


def test_a_file_that_is_refused_leaves_nothing_behind(write, cache):
    refusal(write(b"a 1 2\nb 1\n"))
    assert entries(cache) == []
