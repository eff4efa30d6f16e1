"""Labels in a file that grows, and that another run goes on with."""

from __future__ import annotations

import csv
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from support.bundles import DOG, OKAPI, small_backbone, small_bundle, small_photo
from unseen.classifier import ZeroShotClassifier
from unseen.errors import UnseenError
from unseen.recognition import batches
from unseen.recognition.batches import csv_columns, label_photos

ODD = ["plain.png", 'with, comma and "quotes".png', "with\nline break.png", "with\rreturn.png", "Übung.png"]


@pytest.fixture(scope="module")
def model() -> ZeroShotClassifier:
    return ZeroShotClassifier(small_bundle("kin"), small_backbone(), device="cpu")


@pytest.fixture(scope="module")
def photos(tmp_path_factory) -> list[tuple[str, Path]]:
    folder, found = tmp_path_factory.mktemp("photos"), []
    for seed, name in enumerate(ODD):
        small_photo(seed).save(folder / name)
        found.append((name, folder / name))
    (folder / "notes.txt").write_text("no photo")
    return [*found[:2], ("notes.txt", folder / "notes.txt"), *found[2:]]


def read(path: Path) -> list[dict]:
    if path.suffix == ".jsonl":
        return [json.loads(line) for line in path.read_bytes().splitlines()]
    with open(path, newline="", encoding="utf-8", errors="surrogateescape") as file:
        return list(csv.DictReader(file))


def test_a_row_for_each_photo(model, photos, tmp_path):
    done = label_photos(model, photos, tmp_path / "labels.csv", k=2)
    assert (done.labelled, done.already, [item.photo for item in done.unreadable]) == (5, 0, ["notes.txt"])
    rows = read(tmp_path / "labels.csv")
    assert list(rows[0]) == csv_columns(2) and [row["photo"] for row in rows] == [name for name, _ in photos]
    assert rows[2]["unreadable"] == "is not a picture in any format that Pillow reads." and not rows[2]["id_1"]
    for row, (_, source) in zip(rows, photos, strict=True):
        if row["photo"] == "notes.txt":
            continue
        answer = model.classify(source, k=2)
        assert [row["id_1"], row["id_2"]] == [label.id for label in answer]
        assert (row["verdict_id"] or None, row["verdict_level"]) == (answer.verdict.id, answer.verdict.level)
        assert float(row["probability_1"]) == pytest.approx(answer[0].probability, abs=1e-5)


def test_lines_of_json_have_the_fields_of_an_answer(model, photos, tmp_path):
    label_photos(model, photos, tmp_path / "labels.jsonl", k=2)
    records = read(tmp_path / "labels.jsonl")
    assert [record["photo"] for record in records] == [name for name, _ in photos]
    assert records[2] == {"photo": "notes.txt", "unreadable": "is not a picture in any format that Pillow reads."}
    assert set(records[0]) == {"photo", *model.classify(photos[0][1]).as_dict()}
    assert len(records[0]["labels"]) == 2


@pytest.mark.parametrize("format", [".csv", ".jsonl"])
def test_wherever_a_run_was_killed_the_next_one_completes_the_file(model, photos, tmp_path, format, monkeypatch):
    sources = [source for _, source in photos]
    answers = dict(zip(sources, model.classify(sources), strict=True))
    monkeypatch.setattr(model, "stream", lambda some, *rest, **options: [answers[source] for source in some])
    out = tmp_path / f"labels{format}"
    label_photos(model, photos, out)
    whole = out.read_bytes()
    for cut in {*range(0, len(whole), len(whole) // 60), *range(len(whole) - 9, len(whole) + 1)}:
        out.write_bytes(whole[:cut])
        done = label_photos(model, photos, out)
        assert out.read_bytes() == whole, whole[:cut]
        assert done.labelled + done.already + len(done.unreadable) == len(photos)


def test_what_is_there_is_not_looked_at_again(model, photos, tmp_path):
    out = tmp_path / "labels.csv"
    label_photos(model, photos[:3], out)
    gone = [(name, "nowhere.png") for name, _ in photos[:3]]
    done = label_photos(model, [*gone, *photos[3:]], out)
    assert (done.labelled, done.already, done.unreadable) == (3, 3, [])
    assert len(read(out)) == 6


def test_labels_are_written_as_they_come(model, photos, tmp_path, monkeypatch):
    monkeypatch.setattr(batches, "TOGETHER", 2)
    out, real = tmp_path / "labels.jsonl", model.stream

    def broken_off(sources, *rest, **options):
        for count, found in enumerate(real(sources, *rest, **options)):
            if count == 5:
                raise KeyboardInterrupt
            yield found

    monkeypatch.setattr(model, "stream", broken_off)
    with pytest.raises(KeyboardInterrupt):
        label_photos(model, photos, out)
    assert [record["photo"] for record in read(out)] == [name for name, _ in photos[:4]]


@pytest.mark.skipif(sys.platform in ("darwin", "win32"), reason="file names must be Unicode there")
@pytest.mark.parametrize("format", [".csv", ".jsonl"])
def test_a_name_that_is_not_unicode(model, tmp_path, format):
    name = os.fsdecode(b"caf\xe9.png")
    small_photo().save(tmp_path / name)
    for already in (0, 1):
        done = label_photos(model, [(name, tmp_path / name)], tmp_path / f"labels{format}")
        assert done.already == already


def test_labels_that_do_not_go_together_are_refused(model, photos, tmp_path):
    out = tmp_path / "labels.jsonl"
    label_photos(model, photos[:1], out)
    before = out.read_bytes()
    with pytest.raises(UnseenError, match=r"labels.jsonl: holds labels made with another candidates and another k"):
        label_photos(model, photos, out, k=3, candidates=[DOG, OKAPI])
    small_bundle("structural", backbone=small_backbone()).save(tmp_path / "other")
    other = ZeroShotClassifier(type(model.bundle).load(tmp_path / "other"), small_backbone(), device="cpu")
    with pytest.raises(UnseenError, match="another bundle"):
        label_photos(other, photos, out)
    assert out.read_bytes() == before
    label_photos(model, photos[:1], tmp_path / "labels.csv")
    (tmp_path / ".labels.csv.json").unlink()
    with pytest.raises(UnseenError, match="its columns are not those of k = 2"):
        label_photos(model, photos, tmp_path / "labels.csv", k=2)


def test_settings_that_are_damaged_are_written_again(model, photos, tmp_path):
    out, beside = tmp_path / "labels.csv", tmp_path / ".labels.csv.json"
    label_photos(model, photos, out)
    before, settings = out.read_bytes(), beside.read_bytes()
    for damaged in (b"", b'{"k": 5', b"\xff", b'{"a":' * 3000, b"[" * 20_000):
        beside.write_bytes(damaged)
        assert label_photos(model, photos, out).labelled == 0
        assert (out.read_bytes(), beside.read_bytes()) == (before, settings)


def test_other_files_are_not_written_to(model, photos, tmp_path):
    for name, text in (
        ("list.csv", "a,b\n1,2\n"),
        ("notes.jsonl", "hello\n"),
        ("x.jsonl", "[1]\n"),
        ("y.jsonl", "[" * 20_000 + "\n"),
    ):
        (tmp_path / name).write_text(text)
        with pytest.raises(UnseenError, match=f"{name}: is not a file of labels"):
            label_photos(model, photos, tmp_path / name)
        assert (tmp_path / name).read_text() == text
    with pytest.raises(UnseenError, match=r"labels are written as .csv or .jsonl"):
        label_photos(model, photos, tmp_path / "labels.txt")
    with pytest.raises(UnseenError, match="no candidates named 'some'"):
        label_photos(model, photos, tmp_path / "new.csv", candidates="some")
    assert not (tmp_path / "new.csv").exists()


WRITER = """
import sys
from support.bundles import small_backbone, small_bundle, small_photo
from unseen.classifier import ZeroShotClassifier
from unseen.recognition import batches

batches.TOGETHER = 2
model = ZeroShotClassifier(small_bundle("kin"), small_backbone(), device="cpu")
photos = [(f"{seed}.png", small_photo(seed)) for seed in range(40)]
real = model.stream
def wait_in_between(*given, **options):
    for number, found in enumerate(real(*given, **options)):
        if number == 10:
            sys.stdin.readline()
        yield found
if sys.argv[2] == "wait":
    model.stream = wait_in_between
print(batches.label_photos(model, photos, sys.argv[1]).already)
"""


@pytest.mark.slow
def test_a_process_that_is_killed_is_gone_on_with_and_two_at_once_are_refused(tmp_path):
    out = tmp_path / "labels.csv"
    environment = os.environ | {"PYTHONPATH": str(Path(__file__).parents[1])}

    def start(*how: str) -> subprocess.Popen:
        command = [sys.executable, "-c", WRITER, str(out), *how]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen(command, env=environment, text=True, **pipes)

    first, deadline = start("wait"), time.monotonic() + 300
    while not out.exists() or len(out.read_bytes().splitlines()) < 4:
        assert first.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    assert "another process is writing to this file" in start("fast").communicate()[1]
    assert first.poll() is None
    first.send_signal(signal.SIGKILL)
    first.communicate()
    with open(out, "ab") as file:
        file.write(b"39.png,n0")  # what a kill in the middle of a write leaves
    third = start("fast")
    told, errors = third.communicate()
    assert third.returncode == 0, errors
    rows = read(out)
    assert [row["photo"] for row in rows] == [f"{seed}.png" for seed in range(40)] and int(told) >= 2
