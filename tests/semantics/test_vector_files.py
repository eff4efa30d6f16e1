"""Readers of word-vector files: every format, every way a file can be wrong, and the cache."""

from __future__ import annotations

import gzip
import io
import json
import os
import struct
import tracemalloc
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from unseen.errors import UnseenError
from unseen.semantics import vector_cache, vector_files
from unseen.semantics.vector_cache import load_vector_file
from unseen.semantics.vector_files import open_vectors, read_blocks, read_layout

WORDS = ["dog", "café", "new_york"]
MATRIX = np.array([[1, 2.5, -3], [0.5, 0, 1e-3], [4, 5, 6]], np.float32)
GLOVE = "".join(
    f"{word} {' '.join(map(str, row))}\n" for word, row in zip(WORDS, MATRIX.tolist(), strict=True)
).encode()
HEADED = b"3 3\n" + GLOVE


def binary(words=WORDS, matrix=MATRIX, end=b"\n") -> bytes:
    header = f"{len(words)} {matrix.shape[1]}\n".encode()
    return header + b"".join(
        word.encode() + b" " + struct.pack(f"<{len(row)}f", *row) + end
        for word, row in zip(words, matrix.tolist(), strict=True)
    )


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
    ("content", "format"),
    [
        (GLOVE, "GloVe text"),
        (GLOVE.rstrip(b"\n"), "GloVe text"),
        (GLOVE.replace(b"\n", b"\r\n"), "GloVe text"),
        (GLOVE.replace(b"\n", b" \n"), "GloVe text"),
        (GLOVE.replace(b" ", b"\t"), "GloVe text"),
        (GLOVE.replace(b" ", b"  "), "GloVe text"),
        (b"\xef\xbb\xbf" + GLOVE, "GloVe text"),
        (GLOVE + b"\n\n", "GloVe text"),
        (GLOVE.replace(b"\n", b"\n\n"), "GloVe text"),
        (HEADED, "word2vec text"),
        (HEADED.replace(b"\n", b" \n"), "word2vec text"),  # fastText ends its lines so
        (binary(), "word2vec binary"),
        (binary(end=b""), "word2vec binary"),
    ],
    ids=[
        *("plain", "unended", "crlf", "trailing-space", "tabs", "double-spaces", "bom", "blank-end", "blank-between"),
        *("header", "fasttext", "binary", "binary-unended"),
    ],
)
@pytest.mark.parametrize("wrap", ["plain", "gzip", "zip"])
def test_every_format_and_wrapping_gives_the_same_table(write, tmp_path, content, format, wrap):
    path = write(content if wrap == "plain" else gzip.compress(content))
    if wrap == "zip":
        path = tmp_path / "archive"  # no suffix: content decides
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
            archive.writestr("folder/vectors.txt", content)
    table = load_vector_file(path)
    assert (table.words, table.format, table.duplicates) == (WORDS, format, 0)
    np.testing.assert_array_equal(table.vectors, MATRIX)


@pytest.mark.parametrize("content", [GLOVE, HEADED, binary()], ids=["glove", "header", "binary"])
def test_blocks_of_any_size_give_the_same_table(write, monkeypatch, content):
    for size in range(1, 60):
        monkeypatch.setattr(vector_files, "BLOCK", size)
        monkeypatch.setattr(vector_files, "HEAD", 24)
        table = load_vector_file(write(content, f"vectors{size}"))
        assert table.words == WORDS
        np.testing.assert_array_equal(table.vectors, MATRIX)


def test_words_may_hold_spaces_and_look_like_numbers(write):
    table = load_vector_file(write(b"the 1 2\n. . . 3 4\nat name@domain.com 5 6\n2000 7 8\nnan 9 10\n\xc2\xa0 11 12\n"))
    assert table.words == ["the", ". . .", "at name@domain.com", "2000", "nan", "\xa0"]
    np.testing.assert_array_equal(table.vectors, np.arange(1, 13).reshape(6, 2))


@pytest.mark.parametrize(
    "content", [b"a 1 1\nb 2 2\na 3 3\na 4 4\nc 5 5\n", binary(list("abaac"), np.diag(range(1, 6)))]
)
def test_of_a_word_that_comes_twice_the_first_is_kept_and_the_rest_counted(write, content):
    table = load_vector_file(write(content))
    assert (table.words, table.duplicates, len(table.vectors)) == (["a", "b", "c"], 2, 3)
    np.testing.assert_array_equal(table.vectors[:, 0], [1, 2, 5] if b"a 1" in content else [1, 0, 0])


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
        (b"a 1 2 3\nb 1 2\nc 1 2 3\n", ":2:", "2 numbers, but line 1 has 3"),
        (b"a 1 2 3\nb 1 2 3 4\n", ":2:", "4 numbers"),
        (b"a 1 2 3\n 1 2 3\n", ":2:", "needs a word"),
        (b"a 1 2 3\n\nb\n", ":3:", "0 numbers"),
        (b"a 1 2\nb 1\nc 1 2 3\n", ":2:", "1 numbers"),  # two faults that make up for one another
        (b"2 3\na 1 2 3\nb 1 2\n", ":3:", "2 numbers"),
        (b"a 1 2 3\nb 1 x 3\n", ":2:", "'x' is not a number"),
        (b"a 1 2 3\nb 1 1_0 3\n", ":2:", "'1_0' is not a number"),
        (b"a 1 2 3\nb 1,5 2 3\n", ":2:", "'1,5' is not a number"),
        (b"hello good world\n", ":1:", "'good' is not a number"),
        (b"hello\n", ":1:", "'hello'"),
        (b"a 1 2 3\nb nan 2 3\n", ":2:", "NaN"),
        (b"a 1 2 3\nb -inf 2 3\n", ":2:", "NaN"),
        (b"a 1 2 3\nb 1e99 2 3\n", ":2:", "NaN"),  # infinite as float32
        (b"a 1 2\ncaf\xe9 1 2\n", ":2:", "not in UTF-8"),
        (LONG + b"oops 1 2\n" + LONG, ":5001:", "2 numbers"),
        (LONG + b"oops 1 2 nan\n" + LONG, ":5001:", "NaN"),
        (b"", "", "empty"),
        (b"\n\n \n", "", "empty"),
        (b"5 3\na 1 2 3\n", ":1:", "promises 5 words, the file has 1. It seems to be cut short"),
        (b"1 3\na 1 2 3\nb 1 2 3\n", ":1:", "promises 1 words, the file has 2"),
        (b"5 3\n", ":1:", "cut short"),
        (b"5 0\na\n", ":1:", "promises 5 words of 0 dimensions"),
        ("a 1 2\n".encode("utf-16"), "", "UTF-16"),
        (b"\x80\x04\x95junk", "", "pickle"),
        (struct.pack("<i", 793712314) + b"\x0c\0\0\0", "", ".vec"),
        (b"\x93NUMPY\x01\0", "", "numpy"),
        (b"\x7fELF" + bytes(50), "", "not text"),
    ],
)
@pytest.mark.parametrize("size", [64, 8 << 20])
def test_what_is_wrong_is_said_with_its_line(write, monkeypatch, content, where, what, size):
    if len(content) < 1000:
        monkeypatch.setattr(vector_files, "BLOCK", size)
    path = write(content)
    message = refusal(path)
    assert message.startswith(f"{path}{where}")
    assert what in message


def test_a_binary_file_cut_short_anywhere_is_refused(write):
    whole = binary(end=b"")
    for kept in range(12, len(whole)):
        assert "cut short" in refusal(write(whole[:kept]))
    assert load_vector_file(write(whole)).words == WORDS


def test_other_faults_of_binary_files(write):
    bad = MATRIX.copy()
    bad[1, 2] = np.nan
    assert "'café' has a NaN" in refusal(write(binary(matrix=bad)))
    assert "goes on after the 3 words" in refusal(write(binary() + b"more 1234"))
    assert "is not in UTF-8" in refusal(write(binary().replace("café".encode(), b"caf\xe9 ")[:-1] + b"\n"))
    assert "word 1" in refusal(write(b"9 3\n" + b"\1" * 200_000))  # no word ends


def test_a_damaged_archive_is_refused(write, tmp_path):
    noise = np.random.default_rng(0).normal(size=(400, 3)).astype(np.float32)
    content = binary([f"w{i}" for i in range(400)], noise)
    assert "damaged or cut short" in refusal(write(gzip.compress(content)[:2000]))
    path = tmp_path / "a.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a.txt", content)
    whole = path.read_bytes()
    path.write_bytes(whole[:2000])
    assert "damaged or cut short" in refusal(path)
    path.write_bytes(whole[:100] + b"xxxx" + whole[104:])
    assert "damaged or cut short" in refusal(path)
    with zipfile.ZipFile(path, "w"):
        pass
    assert "the archive is empty" in refusal(path)


def test_a_line_without_end_costs_no_memory(write):
    """60 MB of numbers for one word, wherever the line is: read as numbers they would take gigabytes."""
    endless = b"a" + b" 1" * (30 << 20)
    for number, content in ((1, endless), (2, b"a 1 2\n" + endless), (1, endless + b"\na 1\n")):
        path = write(content)
        tracemalloc.start()
        try:
            assert refusal(path) == f"{path}:{number}: a line of more than 4 MB. Is it text?"
            assert tracemalloc.get_traced_memory()[1] < 64 << 20
        finally:
            tracemalloc.stop()


def test_a_line_may_have_no_more_numbers_than_a_header_may_promise(write):
    assert "more than 100,000 numbers in a line" in refusal(write(b"a" + b" 1" * 100_001 + b"\n"))


@pytest.mark.parametrize("header", [b"9" * 5000 + b" 3", b"3 " + b"9" * 5000, b"0" * 13 + b" 3"])
def test_a_header_of_thousands_of_digits_is_refused(write, header):
    path = write(header + b"\n" + GLOVE)
    assert refusal(path).startswith(f"{path}:1: the header has a number of ")


def test_an_archive_of_many_files_lists_some(tmp_path):
    path = tmp_path / "many.zip"
    with zipfile.ZipFile(path, "w") as archive:
        for number in range(200):
            archive.writestr(f"{number}.txt", "a 1\n")
    message = refusal(path)
    assert "contains 200 files" in message and "#9.txt, ..." in message and "#10.txt" not in message


def test_an_archive_whose_file_has_no_name(tmp_path):
    content = bytearray(packed("STORED"))
    entry = content.index(b"PK\x01\x02")
    content[entry + 28 : entry + 30] = b"\0\0"  # the length of the name
    del content[entry + 46 : entry + 46 + len("glove.txt")]
    end = content.index(b"PK\x05\x06")
    content[end + 12] -= len("glove.txt")  # the size of the list of files
    (tmp_path / "archive.zip").write_bytes(content)
    assert refusal(tmp_path / "archive.zip").startswith(f"{tmp_path / 'archive.zip'}#: cannot be unpacked")


def packed(kind: str) -> bytes:
    """A file of word vectors in an archive of that kind."""
    if kind == "gzip":
        return gzip.compress(GLOVE * 40, mtime=0)
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", getattr(zipfile, f"ZIP_{kind}")) as archive:
        archive.writestr(zipfile.ZipInfo("glove.txt"), GLOVE * 40, getattr(zipfile, f"ZIP_{kind}"))
    return buffer.getvalue()


PACKED = [packed(kind) for kind in ("STORED", "DEFLATED", "BZIP2", "LZMA", "gzip")]


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(PACKED), st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 255)), max_size=4), st.data())
def test_any_damage_to_an_archive_is_told_with_its_name(tmp_path, whole, changes, data):
    damaged = bytearray(whole)
    for place, value in changes:
        damaged[2_654_435_761 * place % len(damaged)] = value  # hypothesis likes small numbers; these are anywhere
    if data.draw(st.booleans()):
        del damaged[data.draw(st.integers(0, len(damaged))) :]
    path = tmp_path / "archive"
    path.write_bytes(damaged)
    try:
        words = read(path)
        assert set(words) == set(WORDS)
    except UnseenError as error:
        assert str(error).startswith(str(path))


@settings(max_examples=300, deadline=None, suppress_health_check=list(HealthCheck))
@given(
    st.binary(max_size=200) | st.text("0123456789 .-e_\n\t\u00e9a", max_size=200).map(str.encode),
    st.sampled_from([b"", b"1 2\n", b"3 3\n", b"a 1 2 3\n", GLOVE, HEADED, binary()]),
)
def test_any_bytes_are_a_table_or_told(tmp_path, rubbish, before):
    path = tmp_path / "vectors"
    path.write_bytes(before + rubbish)
    try:
        read(path)
    except UnseenError as error:
        assert str(error).startswith(str(path))


def read(path: Path) -> list[str]:
    """The words, without the cache."""
    found = []
    with open_vectors(path) as stream:
        layout = read_layout(stream)
        for words, matrix in read_blocks(stream, layout):
            assert matrix.shape == (len(words), layout.dim) and np.isfinite(matrix).all()
            found += words
    return found


@pytest.mark.parametrize("refused", ["open", "stat"])
def test_permission_is_told_as_such(write, monkeypatch, refused):
    path = write(GLOVE)

    def refuse(*arguments, **options):
        raise PermissionError(13, "Permission denied")

    if refused == "open":
        monkeypatch.setattr(vector_files, "open", refuse, raising=False)
    else:
        monkeypatch.setattr(vector_files.os, "stat", refuse)
    with pytest.raises(UnseenError, match=r"vectors: permission denied\."), open_vectors(path):
        pass


def test_places_without_a_file(tmp_path, write):
    assert "no such file" in refusal(tmp_path / "absent.txt")
    assert "a folder" in refusal(tmp_path)
    assert "cannot be opened" in refusal(tmp_path / ("long" * 100))
    os.mkfifo(tmp_path / "pipe")
    assert "not a regular file" in refusal(tmp_path / "pipe")
    assert "not a zip archive" in refusal(f"{write(GLOVE)}#glove.txt")


# --- the cache --------------------------------------------------------------------------------------------------------


def entries(cache: Path) -> list[Path]:
    return sorted((cache / "word-vectors").iterdir())


def test_the_second_time_nothing_is_parsed(write, cache, monkeypatch):
    path = write(GLOVE)
    first = load_vector_file(path)
    monkeypatch.setattr(vector_cache, "read_layout", lambda stream: pytest.fail("parsed again"))
    second = load_vector_file(path)
    assert isinstance(second.vectors, np.memmap)
    assert (second.words, second.sha256, second.format) == (first.words, first.sha256, first.format)
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


@pytest.mark.parametrize("damage", ["words.txt", "vectors.f32", "about.json"])
def test_a_damaged_cache_is_made_again(write, cache, damage):
    """Cut short, or with any bit changed."""
    path = write(GLOVE)
    load_vector_file(path)
    file = entries(cache)[0] / damage
    whole = file.read_bytes()
    for place in [None, *range(0, 8 * len(whole), 8 * len(whole) // 30 | 1)]:
        changed = bytearray(whole[:5] if place is None else whole)
        if place is not None:
            changed[place // 8] ^= 1 << place % 8
        file.write_bytes(changed)
        table = load_vector_file(path, show_progress=False)
        assert table.words == WORDS and table.format == "GloVe text"
        np.testing.assert_array_equal(table.vectors, MATRIX)
    assert file.read_bytes() == whole or damage == "about.json"


def test_a_file_that_is_refused_leaves_nothing_behind(write, cache):
    refusal(write(b"a 1 2\nb 1\n"))
    assert entries(cache) == []


def test_a_cache_without_room_is_said(write, cache, monkeypatch):
    (cache / "word-vectors").write_text("a file where the folder should be")
    assert "UNSEEN_CACHE" in refusal(write(GLOVE))


def test_the_cache_says_what_it_holds(write, cache):
    load_vector_file(write(HEADED))
    about = json.loads((entries(cache)[0] / "about.json").read_text())
    assert (about["words"], about["dim"], about["format"], about["duplicates"]) == (3, 3, "word2vec text", 0)
