"""Labels in a file that grows, and that another run goes on with."""

from __future__ import annotations

import csv
import io
import json
import os
import pickle
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

import unseen.model
from support.bundles import DOG, OKAPI, SEEN, small_bundle, small_network, small_photo
from unseen.answers.answer import Unreadable
from unseen.apps.bulk import Labeller, label_columns, label_photos, take_shard
from unseen.model import Model, load
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


def test_lists_of_names_that_differ_are_told_apart(model, photos, tmp_path):
    out, same = tmp_path / "labels.csv", [DOG, OKAPI]
    label_photos(model.among([(DOG, ""), ("zonkey (zebra)", "striped legs")]), photos[:1], out)
    with pytest.raises(UnseenError, match="another candidates"):
        label_photos(model.among([(DOG, ""), ("zonkey (zebra)", "striped ears")]), photos, out)
    small_bundle("structural", network=small_network()).save(tmp_path / "other")
    other = Model(type(model.bundle).load(tmp_path / "other"), small_network(), device="cpu")
    with pytest.raises(UnseenError, match=r"made with another bundle\."):
        label_photos(other.among([(DOG, ""), ("zonkey (zebra)", "striped legs")]), photos, out)
    label_photos(model.among(same), photos[:1], tmp_path / "list.csv", prior="uniform")
    with pytest.raises(UnseenError, match="another candidates"):
        label_photos(model, photos, tmp_path / "list.csv", candidates=same, prior="uniform")


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
    with pytest.raises(UnseenError, match=r"labels are written as .csv, .jsonl, .parquet"):
        label_photos(model, photos, tmp_path / "labels.txt")
    with pytest.raises(UnseenError, match="no candidates named 'some'"):
        label_photos(model, photos, tmp_path / "new.csv", candidates="some")
    assert not (tmp_path / "new.csv").exists()


WRITER = """
import sys
from support.bundles import small_network, small_bundle, small_photo
from unseen.model import Model
from unseen.apps import bulk as batches

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
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}

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


# -- engines, shards and tables --------------------------------------------------------------------------------------


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
    table = pandas.read_parquet(out)
    rows = list(csv.DictReader(io.StringIO(expected.decode())))
    assert list(table.columns) == label_columns(2) and table["photo"].tolist() == [name for name, _ in many]
    assert table["probability_1"].fillna(-1).tolist() == [float(row["probability_1"] or -1) for row in rows]
    assert table["id_2"].fillna("").tolist() == [row["id_2"] for row in rows]
    assert not list(tmp_path.glob(".*.part"))
    pandas.DataFrame({"a": [1]}).to_parquet(tmp_path / "other.parquet")
    with pytest.raises(UnseenError, match="is not a file of labels"):
        label_photos(saved, many, tmp_path / "other.parquet")


def test_shards_are_joined_in_the_order_of_the_inputs(saved, many, expected, tmp_path):
    out = tmp_path / "labels.csv"
    for shard in (2, 0, 1):
        some, place = take_shard(many, out, shard, 3)
        assert place.name == f"labels-{shard:05d}-of-00003.csv"
        assert label_photos(saved, some, place, k=2).already == 0
    done = label_photos(saved, many, out, k=2)
    assert (done.labelled, done.already) == (0, 20) and out.read_bytes() == expected
    assert sorted(path.name for path in tmp_path.iterdir() if path.suffix == ".csv") == ["labels.csv"]
    assert sum(len(take_shard(many, out, shard, 5)[0]) for shard in range(5)) == len(many)


@pytest.mark.parametrize("format", [".csv", ".jsonl", ".parquet"])
def test_what_was_joined_is_not_labelled_again_by_a_shard(model, photos, tmp_path, format):
    out = tmp_path / f"labels{format}"
    label_photos(model, photos, out, k=2)
    before, (some, place) = out.read_bytes(), take_shard(photos, out, 0, 2)
    done = label_photos(model, some, place, k=2)
    assert (done.labelled, done.already) == (0, 2) and len(some) == 3  # one of them cannot be read
    with pytest.raises(UnseenError, match="another k"):
        label_photos(model, some, place, k=3)
    assert label_photos(model, photos, out, k=2).already == 5 and out.read_bytes() == before


@pytest.mark.parametrize("named", [2, 7])
def test_a_short_list_is_the_same_in_shards(saved, many, tmp_path, named):
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
    half = label_photos(saved, many[:11], tmp_path / "labels.csv", k=2, engine="ray", workers=1)
    assert half.labelled == 10
    done = label_photos(saved, many, tmp_path / "labels.csv", k=2, engine="ray", workers=2)
    assert (done.labelled, done.already) == (10, 10)
    assert (tmp_path / "labels.csv").read_bytes() == expected


@pytest.mark.slow
def test_torchrun_writes_what_one_process_writes(saved, many, expected, tmp_path):
    (tmp_path / "list.txt").write_text("".join(f"{name}\n" for name, _ in many))
    torchrun = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2", "-m", "unseen"]
    classify = ["classify", tmp_path / "list.txt", "--out", tmp_path / "labels.csv", "-k", "2", "--device", "cpu"]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)}
    done = subprocess.run(
        [*torchrun, *classify, "--bundle", saved.bundle.path, "--json"],
        cwd=many[0][1].parent,
        env=environment,
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr  # though a photo cannot be read: torchrun knows no status 3
    result = json.loads(done.stdout.splitlines()[-1])
    assert (result["labelled"], [item["photo"] for item in result["unreadable"]]) == (20, ["07.png"])
    assert (tmp_path / "labels.csv").read_bytes() == expected


@pytest.fixture(scope="module")
def ray_here():
    ray = pytest.importorskip("ray")
    environment = {"env_vars": {"PYTHONPATH": os.pathsep.join(sys.path)}}
    ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, runtime_env=environment)
    yield ray
    ray.shutdown()


@pytest.mark.slow
def test_a_labeller_in_ray_data(saved, many, ray_here):
    import ray.data

    table = ray.data.from_items([{"id": name, "path": str(path)} for name, path in many], override_num_blocks=3)
    labels = table.map_batches(
        Labeller,
        fn_constructor_kwargs={"model": saved.bundle.path, "k": 2, "device": "cpu"},
        compute=ray.data.ActorPoolStrategy(size=1),
        batch_size=5,
        batch_format="pandas",
    ).to_pandas()
    check(labels, Labeller(saved, k=2), many)


def check(labels, labeller: Labeller, photos) -> None:
    """The labels of another engine against those of a call."""
    direct = labeller(pandas.DataFrame({"id": [name for name, _ in photos], "path": [str(path) for _, path in photos]}))
    labels = labels.sort_values("photo").reset_index(drop=True)
    assert labels["photo"].tolist() == direct["photo"].tolist() and list(labels.columns) == list(direct.columns)
    for column in direct.columns:
        there, here = (table[column].astype(object) for table in (labels, direct))
        assert there.where(there.notna(), None).tolist() == here.where(here.notna(), None).tolist(), column


def test_a_labeller_in_dask(saved, many):
    dask = pytest.importorskip("dask.dataframe")
    photos = pandas.DataFrame({"id": [name for name, _ in many], "path": [str(path) for _, path in many]})
    labeller = Labeller(saved.bundle.path, k=2, device="cpu")
    labels = dask.from_pandas(photos, npartitions=3).map_partitions(labeller, meta=labeller.meta).compute()
    check(labels, Labeller(saved, k=2), many)


def test_a_labeller_as_spark_calls_it(saved, many):
    """`mapInPandas` hands over an iterator of tables and a function that went through pickle."""
    labeller = pickle.loads(pickle.dumps(Labeller(saved, column="content", k=1)))
    halves = many[:4], many[4:8]
    batches = [
        pandas.DataFrame({"key": [name for name, _ in some], "content": [path.read_bytes() for _, path in some]})
        for some in halves
    ]
    labels = pandas.concat(labeller(iter(batches)))
    answers = saved.classify([path for _, path in many[:8]], k=1)
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


def test_every_product_has_the_same_number_of_rows(model, photos, monkeypatch):
    """One photo alone is a product of a matrix and a vector, which rounds unlike a product of two matrices."""
    sizes, answer = [], unseen.model.answer_features
    monkeypatch.setattr(
        unseen.model, "answer_features", lambda *inputs: sizes.append(len(inputs[2])) or answer(*inputs)
    )
    sources = [path for name, path in photos if name != "notes.txt"]
    assert len(list(model.stream(sources[:1], even=True))) == 1
    assert len(list(model.stream(sources * 4, even=True))) == 4 * len(sources)
    assert len(sizes) == 3 and set(sizes) == {unseen.model.EVEN_ON_CPU}
