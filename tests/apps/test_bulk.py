"""Labels in a file that a later run completes, whatever ended the run before and whichever engine made them."""

from __future__ import annotations

import csv
import io
import json
import os
import pickle
import shutil
import signal
import subprocess
import sys
import time
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from support.bundles import DOG, OKAPI, SEEN, small_bundle, small_network, small_photo
from unseen.answers.answer import Unreadable
from unseen.apps.bulk import Labeller, label_columns, label_photos, parts_of
from unseen.model import Model, load
from unseen.util import table
from unseen.util.errors import UnseenError

pandas = pytest.importorskip("pandas")
pytest.importorskip("pyarrow")

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
    assert list(rows[0]) == label_columns(2) and [row["photo"] for row in rows] == [name for name, _ in photos]
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
    assert set(records[0]) == {"photo", *model.classify(photos[0][1]).to_dict(), "version"}
    assert len(records[0]["labels"]) == 2


@pytest.mark.parametrize("format", [".csv", ".jsonl", ".parquet"])
def test_a_run_that_breaks_off_is_completed_to_the_same_bytes(model, photos, tmp_path, format, monkeypatch):
    label_photos(model, photos, tmp_path / f"whole{format}", k=2)
    whole, out = (tmp_path / f"whole{format}").read_bytes(), tmp_path / f"labels{format}"
    monkeypatch.setattr(table, "ROWS", 2)
    real = model.stream

    def break_off(*given, **options):
        yield from islice(real(*given, **options), 3)
        raise KeyboardInterrupt

    monkeypatch.setattr(model, "stream", break_off)
    with pytest.raises(KeyboardInterrupt):
        label_photos(model, photos, out, k=2)
    assert not out.exists()
    monkeypatch.setattr(model, "stream", real)
    damaged = sorted(parts_of(out).glob("0*.safetensors"))[0]
    damaged.write_bytes(damaged.read_bytes()[:-5])
    done = label_photos(model, photos, out, k=2)
    assert (done.labelled, done.already, len(done.unreadable)) == (5, 0, 1) and out.read_bytes() == whole
    assert label_photos(model, photos, out, k=2).already == 5 and out.read_bytes() == whole


def test_a_full_disk_is_one_line_and_loses_nothing(model, photos, tmp_path, monkeypatch):
    monkeypatch.setattr(table, "ROWS", 2)
    out, left, real = tmp_path / "labels.csv", [4], os.fsync

    def fill_up(descriptor):
        left[0] -= 1
        if left[0] < 0:
            raise OSError(28, "No space left on device")
        real(descriptor)

    monkeypatch.setattr(os, "fsync", fill_up)
    with pytest.raises(UnseenError, match=r"cannot write to .*: No space left on device$"):
        label_photos(model, photos, out)
    monkeypatch.setattr(os, "fsync", real)
    done = label_photos(model, photos, out)
    assert done.already == 2 and done.labelled == 3 and len(read(out)) == len(photos)


def test_what_is_there_is_not_looked_at_again(model, photos, tmp_path):
    out = tmp_path / "labels.csv"
    label_photos(model, photos[:3], out)
    gone = [(name, "nowhere.png") for name, _ in photos[:2]]
    done = label_photos(model, [*gone, *photos[2:]], out)
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


def test_a_photo_that_is_no_longer_given_keeps_its_row(model, photos, tmp_path):
    out = tmp_path / "labels.csv"
    label_photos(model, photos[:2], out)
    assert label_photos(model, photos[3:], out).labelled == 3
    assert [row["photo"] for row in read(out)] == [name for name, _ in [*photos[:2], *photos[3:]]]


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
    with pytest.raises(
        UnseenError, match=r"labels.jsonl: was made with another --candidates, with -k 5, not 3\. Choose another file"
    ):
        label_photos(model, photos, out, k=3, candidates=[DOG, OKAPI])
    small_bundle("structural", network=small_network()).save(tmp_path / "other")
    other = Model(type(model.bundle).load(tmp_path / "other"), small_network(), device="cpu")
    with pytest.raises(UnseenError, match="another --bundle"):
        label_photos(other, photos, out)
    assert out.read_bytes() == before
    label_photos(model, photos[:1], tmp_path / "labels.csv")
    with pytest.raises(UnseenError, match=r"was made with --confidence 0.9, not 0.8\."):
        label_photos(model, photos, tmp_path / "labels.csv", confidence=0.8)
    shutil.rmtree(tmp_path / "labels.csv.parts")
    with pytest.raises(UnseenError, match=r"labels.csv: exists, and labels.csv.parts, .* does not"):
        label_photos(model, photos, tmp_path / "labels.csv")


def test_a_list_of_candidates_that_changed_is_another_one(model, photos, tmp_path):
    (tmp_path / "list.txt").write_text(f"{DOG}\n")
    label_photos(model, photos[:1], tmp_path / "labels.csv", candidates=str(tmp_path / "list.txt"))
    (tmp_path / "list.txt").write_text(f"{DOG}\n{OKAPI}\n")
    later = Model(model.bundle, model.network)
    with pytest.raises(UnseenError, match="another --candidates"):
        label_photos(later, photos, tmp_path / "labels.csv", candidates=str(tmp_path / "list.txt"))


def test_lists_of_names_that_differ_are_told_apart(model, photos, tmp_path):
    out, same = tmp_path / "labels.csv", [DOG, OKAPI]
    label_photos(model.among([(DOG, ""), ("zonkey (zebra)", "striped legs")]), photos[:1], out)
    with pytest.raises(UnseenError, match="another --among"):
        label_photos(model.among([(DOG, ""), ("zonkey (zebra)", "striped ears")]), photos, out)
    small_bundle("structural", network=small_network()).save(tmp_path / "other")
    other = Model(type(model.bundle).load(tmp_path / "other"), small_network(), device="cpu")
    with pytest.raises(UnseenError, match=r"made with another --bundle\."):
        label_photos(other.among([(DOG, ""), ("zonkey (zebra)", "striped legs")]), photos, out)
    label_photos(model.among(same), photos[:1], tmp_path / "list.csv", prior="uniform")
    with pytest.raises(UnseenError, match="another --candidates"):
        label_photos(model, photos, tmp_path / "list.csv", candidates=same, prior="uniform")


def test_other_files_are_not_written_to(model, photos, tmp_path):
    (tmp_path / "list.csv").write_text("a,b\n1,2\n")
    with pytest.raises(UnseenError, match=r"list.csv: exists"):
        label_photos(model, photos, tmp_path / "list.csv")
    assert (tmp_path / "list.csv").read_text() == "a,b\n1,2\n"
    with pytest.raises(UnseenError, match=r"labels are written as .csv, .jsonl, .parquet"):
        label_photos(model, photos, tmp_path / "labels.txt")
    with pytest.raises(UnseenError, match="no candidates named 'some'"):
        label_photos(model, photos, tmp_path / "new.csv", candidates="some")
    assert not (tmp_path / "new.csv").exists()


WRITER = """
import sys
from support.bundles import small_network, small_bundle, small_photo
from unseen.apps.bulk import label_photos
from unseen.model import Model
from unseen.util import table

table.ROWS = 2
model = Model(small_bundle("kin"), small_network(), device="cpu")
photos = [(f"{seed}.png", small_photo(seed)) for seed in range(20)]
real = model.stream
def wait_in_between(*given, **options):
    for number, answer in enumerate(real(*given, **options)):
        if number == 10:
            sys.stdin.readline()
        yield answer
if sys.argv[2] == "wait":
    model.stream = wait_in_between
print(label_photos(model, photos, sys.argv[1]).already)
"""


@pytest.mark.slow
def test_a_process_that_is_killed_is_continued_and_two_at_once_are_refused(tmp_path):
    out = tmp_path / "labels.csv"
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}

    def start(*how: str) -> subprocess.Popen:
        command = [sys.executable, "-c", WRITER, str(out), *how]
        pipes = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.PIPE)
        return subprocess.Popen(command, env=environment, text=True, **pipes)

    first, deadline = start("wait"), time.monotonic() + 300
    while len(list(parts_of(out).glob("0*.safetensors"))) < 5:
        assert first.poll() is None and time.monotonic() < deadline
        time.sleep(0.05)
    assert "labels.csv: another process is writing to it" in start("fast").communicate()[1]
    first.send_signal(signal.SIGKILL)
    first.communicate()
    third = start("fast")
    told, errors = third.communicate()
    assert third.returncode == 0, errors
    assert [row["photo"] for row in read(out)] == [f"{seed}.png" for seed in range(20)] and int(told) == 10


# -- engines and tables --------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def saved(tmp_path_factory) -> Model:
    """A model that another process can load: its network is a layer over a built-in network's features."""
    from unseen.networks.linear import from_linear
    from unseen.networks.loading import load_network

    below = load_network("efficientnet-lite0")
    rng = np.random.default_rng(0)
    network = from_linear(rng.normal(size=(len(SEEN), below.num_features)), class_ids=SEEN, network=below)
    place = tmp_path_factory.mktemp("saved") / "bundle"
    small_bundle("kin", network=network).save(place)
    return load(place, device="cpu")


@pytest.fixture(scope="module")
def many(tmp_path_factory) -> list[tuple[str, Path]]:
    folder = tmp_path_factory.mktemp("many")
    for seed in range(21):
        small_photo(seed, (64, 64)).save(folder / f"{seed:02d}.png")
    (folder / "07.png").write_bytes(b"?")
    return [(path.name, path) for path in sorted(folder.iterdir())]


@pytest.fixture(scope="module")
def expected(saved, many, tmp_path_factory) -> bytes:
    """What one process writes."""
    out = tmp_path_factory.mktemp("expected") / "labels.csv"
    label_photos(saved, many, out, k=2)
    return out.read_bytes()


def test_parquet_has_the_columns_of_the_csv_and_goes_on_where_it_ended(saved, many, expected, tmp_path):
    out = tmp_path / "labels.parquet"
    assert label_photos(saved, many[:9], out, k=2).labelled == 8
    done = label_photos(saved, many, out, k=2)
    assert (done.labelled, done.already, done.again) == (12, 8, ["07.png"])
    labels = pandas.read_parquet(out)
    rows = list(csv.DictReader(io.StringIO(expected.decode())))
    assert list(labels.columns) == label_columns(2) and labels["photo"].tolist() == [name for name, _ in many]
    assert labels["probability_1"].fillna(-1).tolist() == [float(row["probability_1"] or -1) for row in rows]
    assert labels["id_2"].fillna("").tolist() == [row["id_2"] for row in rows]
    pandas.DataFrame({"a": [1]}).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(UnseenError, match=r"other.parquet: exists"):
        label_photos(saved, many, tmp_path / "other.parquet")


@pytest.mark.parametrize("named", [2, 7])
def test_a_short_list_gets_the_same_answers_whatever_photos_come_before(saved, many, tmp_path, named):
    """BLAS rounds products with two to eight columns by the place of the row."""
    ids, rows = saved.classes[:named], [many[place] for place in range(16) if place != 7]
    together = list(Labeller(saved, candidates=ids).answers([path for _, path in rows]))
    for at in (1, 5, 11):
        assert list(Labeller(saved, candidates=ids).answers([path for _, path in rows[at:]])) == together[at:]


def test_rows_come_in_the_order_of_the_inputs_whatever_was_there_before(saved, many, expected, tmp_path):
    out = tmp_path / "labels.csv"
    label_photos(saved, many[10:15], out, k=2)
    label_photos(saved, many[3:4], out, k=2)
    label_photos(saved, many, out, k=2)
    assert out.read_bytes() == expected


@pytest.mark.slow
def test_processes_write_what_one_process_writes(saved, many, expected, tmp_path):
    done = label_photos(saved, many, tmp_path / "labels.csv", k=2, workers=2)
    assert (done.labelled, len(done.unreadable)) == (20, 1)
    assert (tmp_path / "labels.csv").read_bytes() == expected


@pytest.mark.slow
def test_ray_writes_what_one_process_writes(saved, many, expected, tmp_path, ray_here):
    label_photos(saved, many[:5], tmp_path / "labels.csv", k=2)
    done = label_photos(saved, many, tmp_path / "labels.csv", k=2, engine="ray", workers=1)
    assert (done.labelled, done.already) == (15, 5)
    assert (tmp_path / "labels.csv").read_bytes() == expected


@pytest.fixture(scope="module")
def ray_here():
    ray = pytest.importorskip("ray")
    environment = {"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env=environment)
    yield ray
    ray.shutdown()


def test_a_labeller_as_spark_calls_it(saved, many):
    """`mapInPandas` hands over an iterator of tables and a function that went through pickle."""
    labeller = pickle.loads(pickle.dumps(Labeller(saved, column="content", k=1)))
    halves = many[:4], many[4:8]
    batches = [
        pandas.DataFrame({"key": [name for name, _ in some], "content": [path.read_bytes() for _, path in some]})
        for some in halves
    ]
    labels = pandas.concat(labeller(iter(batches)))
    answers = saved.stream([path for _, path in many[:8]], k=1)
    expected = [None if isinstance(answer, Unreadable) else answer[0].id for answer in answers]
    assert labels["id_1"].where(labels["id_1"].notna(), None).tolist() == expected
    assert labeller.schema.startswith(
        "photo string, verdict_id string, verdict_name string, verdict_probability double"
    )
    assert len(labeller.schema.split(", ")) == len(labels.columns)
    table = pytest.importorskip("pyarrow").table({"path": [str(many[0][1])]})
    assert Labeller(saved, k=1, among=[OKAPI, DOG])(table)["id_1"].tolist()[0] in (OKAPI, DOG)
    with pytest.raises(UnseenError, match="the batch has no column content; there are: a"):
        labeller({"a": [1]})
    with pytest.raises(UnseenError, match="has no column of photos by a usual name"):
        Labeller(saved)({"a": [1]})
