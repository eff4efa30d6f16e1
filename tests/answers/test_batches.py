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

from support.bundles import DOG, OKAPI, small_bundle, small_network, small_photo
from unseen.answers.batches import csv_columns, label_photos
from unseen.errors import UnseenError
from unseen.model import Model

ODD = ["plain.png", 'with, comma and "quotes".png', "with\nline break.png", "with\rreturn.png", "Übung.png"]


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(small_bundle("kin"), small_network(), device="cpu")


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
    assert rows[2]["unreadable"].startswith("is not a picture") and not rows[2]["id_1"]
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
    assert list(records[2]) == ["photo", "unreadable", "version"] and records[2]["unreadable"].startswith(
        "is not a picture"
    )
    assert set(records[0]) == {"photo", *model.classify(photos[0][1]).as_dict(), "version"}
    assert len(records[0]["labels"]) == 2


@pytest.mark.parametrize("format", [".csv", ".jsonl"])
def test_wherever_a_run_was_killed_the_next_one_completes_the_file(model, photos, tmp_path, format, monkeypatch):
    sources = [source for _, source in photos]
    answers = dict(zip(sources, model.classify(sources), strict=True))
    monkeypatch.setattr(model, "stream", lambda some, *rest, **options: [answers[source] for source in some])
    out = tmp_path / f"labels{format}"
    label_photos(model, photos, out)
    whole, rows = out.read_bytes(), sorted(map(str, read(out)))
    for cut in {*range(0, len(whole), len(whole) // 60), *range(len(whole) - 9, len(whole) + 1)}:
        out.write_bytes(whole[:cut])
        done = label_photos(model, photos, out)
        assert sorted(map(str, read(out))) == rows, whole[:cut]  # the unreadable one is tried again, and comes last
        assert done.labelled + done.already + len(done.unreadable) == len(photos)


def test_what_is_there_is_not_looked_at_again(model, photos, tmp_path):
    out = tmp_path / "labels.csv"
    label_photos(model, photos[:3], out)
    gone = [(name, "nowhere.png") for name, _ in photos[:3]]
    done = label_photos(model, [*gone, *photos[3:]], out)
    assert (done.labelled, done.already, done.again) == (3, 2, ["notes.txt"])
    assert len(read(out)) == 6


@pytest.mark.parametrize("format", [".csv", ".jsonl"])
def test_photos_that_were_replaced_or_repaired_are_labelled_again(model, tmp_path, format):
    def paint(name: str, seed: int, time: int) -> None:
        small_photo(seed).save(tmp_path / name)
        os.utime(tmp_path / name, (time, time))

    paint("same.png", 1, 1000)
    paint("=replaced.png", 2, 1000)
    (tmp_path / "broken.png").write_bytes(b"?")
    photos = [(name, tmp_path / name) for name in ("same.png", "=replaced.png", "broken.png")]
    photos.append(("-", (tmp_path / "same.png").read_bytes()))
    out = tmp_path / f"labels{format}"
    assert label_photos(model, photos, out).again == []
    paint("=replaced.png", 7, 2000)
    paint("broken.png", 8, 2000)
    photos[-1] = ("-", (tmp_path / "broken.png").read_bytes())
    done = label_photos(model, photos, out)
    assert (done.labelled, done.already, done.again) == (3, 1, ["=replaced.png", "broken.png", "-"])
    fresh = tmp_path / f"fresh{format}"
    label_photos(model, photos, fresh)
    assert read(out) == read(fresh)
    assert (done := label_photos(model, photos, out)).already == 4 and done.again == []


def test_what_a_loss_of_power_tore_is_labelled_again_and_what_is_no_longer_given_stays(model, photos, tmp_path):
    for out in (tmp_path / "labels.csv", tmp_path / "labels.jsonl"):
        label_photos(model, photos[:2], out)
        whole = out.read_bytes()
        label_photos(model, photos[3:], out)
        added = out.read_bytes()[len(whole) :]
        out.write_bytes(whole + bytes(30) + added[30:])  # a page that never came, and one that did
        assert label_photos(model, photos[3:], out).labelled == 3
        assert out.read_bytes() == whole + added


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
    small_bundle("structural", network=small_network()).save(tmp_path / "other")
    other = Model(type(model.bundle).load(tmp_path / "other"), small_network(), device="cpu")
    with pytest.raises(UnseenError, match="another bundle"):
        label_photos(other, photos, out)
    assert out.read_bytes() == before
    label_photos(model, photos[:1], tmp_path / "labels.csv")
    (tmp_path / ".labels.csv.json").unlink()
    with pytest.raises(UnseenError, match=r"or .labels.csv.json beside it is gone"):
        label_photos(model, photos, tmp_path / "labels.csv")


def test_a_list_of_candidates_that_changed_is_another_one(model, photos, tmp_path):
    (tmp_path / "list.txt").write_text(f"{DOG}\n")
    label_photos(model, photos[:1], tmp_path / "labels.csv", candidates=str(tmp_path / "list.txt"))
    (tmp_path / "list.txt").write_text(f"{DOG}\n{OKAPI}\n")
    later = Model(model.bundle, model.network)
    with pytest.raises(UnseenError, match="another candidates"):
        label_photos(later, photos, tmp_path / "labels.csv", candidates=str(tmp_path / "list.txt"))


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
from support.bundles import small_network, small_bundle, small_photo
from unseen.model import Model
from unseen.answers import batches

batches.TOGETHER = 2
model = Model(small_bundle("kin"), small_network(), device="cpu")
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
