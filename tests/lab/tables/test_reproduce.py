"""Every recipe runs on a small hierarchy with a tiny network and generated photos; nothing is run twice or mixed."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from support.problems import PARENTS, SEEN
from support.tables import LISTS, TINY, small_reproduction, write_photos
from unseen.data import imagenet_1k
from unseen.hierarchy.core import Hierarchy
from unseen.methods import get_method
from unseen.util.errors import UnseenError
from unseen.vectors.class_vectors import class_vectors, load_vectors
from unseen_lab.data.authors import paper_list
from unseen_lab.data.awa2 import AWA2_CLASSES
from unseen_lab.tables.levels import LENGTHS, ORDER, Lengths, Level, Row, find_level, link_some, load_recipe
from unseen_lab.tables.report import load_results, write_report
from unseen_lab.tables.run import ON_IMAGENET, Reproduction, combine, deviation

pytestmark = pytest.mark.usefixtures("small_lists")


@pytest.fixture(scope="module")
def work(tmp_path_factory, level, small_lists) -> Reproduction:
    return small_reproduction(tmp_path_factory.mktemp("work"), level)


@pytest.mark.slow
@pytest.mark.parametrize("name", [name for name in ORDER if load_recipe(name).kind in ("hits", "seeds")])
def test_a_tiny_run_of_each_table(work, name):
    result, recipe = work.run(name), load_recipe(name)
    assert result["level"] == "photos" and json.dumps(result, allow_nan=False)
    assert [row["label"] for row in result["rows"]] == [row.label for row in recipe.rows]
    assert ["measured" in row for row in result["rows"]] == [row.method is not None for row in recipe.rows]
    measured = [row for row in result["rows"] if "measured" in row]
    assert all(set(row["measured"]) == set(recipe.candidates) for row in measured)
    figures = [
        lists[average] for row in measured for lists in row["measured"].values() for average in ("image", "class")
    ]
    assert all(list(each) == [f"hit@{k}" for k in recipe.hits] for each in figures)
    assert all(0 <= value <= 100 for each in figures for value in each.values())
    photos = len(SEEN) if recipe.photos == "seen-val" else 8
    assert all(entry["images"] == photos for entry in result["coverage"].values())
    assert any("deviation" in row for row in result["rows"]) == (len(recipe.seeds) > 1)


@pytest.mark.slow
def test_without_awa2_its_classes_are_measured_on_imagenet_s_photos(work):
    rows, asked = work.run("awa2")["rows"], [row for row in load_recipe("awa2").rows if row.method is not None]
    own, on_imagenet = rows[: -len(asked)], rows[-len(asked) :]
    assert all("--awa2" in row["left_out"] for row in own if "method" in row)
    assert [row["label"] for row in on_imagenet] == [row.label + ON_IMAGENET for row in asked]
    assert ["left_out" in row for row in on_imagenet] == [row.vectors == "attributes" for row in asked]


@pytest.mark.slow
def test_hop_weights_are_shares(work):
    for weights in work.run("hop-weights")["rows"][0]["measured"].values():
        assert len(weights) == 5 and sum(weights) == pytest.approx(1, abs=1e-3)


@pytest.mark.slow
def test_the_qualitative_figure_has_the_answers_of_every_model(work):
    result, asked = work.run("qualitative"), [row.label for row in load_recipe("qualitative").rows]
    assert len(result["photos"]) == len(LISTS["2-hops"])
    for photo in result["photos"]:
        assert [answer["label"] for answer in photo["answers"]] == asked
        assert {label["id"] for label in photo["answers"][0]["labels"]} == set(SEEN)  # the network alone
        assert {label["id"] for label in photo["answers"][1]["labels"]} < set(LISTS["all"])


@pytest.mark.slow
@pytest.mark.parametrize("name", ORDER)
def test_a_tiny_run_without_photos(tmp_path_factory, level, name):
    """The embedded level: hidden seen classes; what needs photos is left out, with the reason."""
    bare = replace(level, name="embedded", unseen=None, seen_train=None, seen_val=None)
    folder = tmp_path_factory.getbasetemp() / "embedded"
    result, recipe = small_reproduction(folder, bare).run(name), load_recipe(name)
    assert result["level"] == "embedded"
    if recipe.kind in ("hits", "seeds", "awa2"):
        assert result["coverage"] == {"hidden": {"classes": 1}}
        rows = {row["label"]: row for row in result["rows"]}
        for row in recipe.rows:
            if row.method is not None and get_method(row.method).needs_features:
                assert "photos" in rows[row.label]["left_out"]
            elif row.method in ("dgp", "sgcn", "gcnz", "gat"):
                assert rows[row.label]["measured"]["hidden"]["class"]["hit@5"] == 100  # the only hidden class
                assert rows[row.label]["finetune_epochs"] == 0
    if recipe.kind == "qualitative":
        assert "no photos" in result["left_out"]


def test_the_papers_level_looks_words_up_as_the_authors_do(tmp_path):
    """As they are written: that gives 187 of the 1,000 seen classes another vector than in lower case."""
    for name in ("fall11", "imagenet/train", "imagenet/val"):
        (tmp_path / name).mkdir(parents=True)
    paper = find_level(imagenet_21k=tmp_path / "fall11", imagenet_1k=tmp_path / "imagenet")
    assert paper.vectors.endswith("@authors") and "@" not in find_level().vectors
    hierarchy = Hierarchy.imagenet().subgraph(imagenet_1k())
    rows = hierarchy.indices(imagenet_1k())
    ours, theirs = (class_vectors(hierarchy, load_vectors(name)).matrix[rows] for name in ("glove", "glove@authors"))
    assert (np.abs(ours - theirs).max(axis=1) > 1e-6).sum() == 187


@pytest.mark.slow
def test_awa2_as_it_is_distributed(tmp_path, monkeypatch):
    """AWA2's own photos and ImageNet's of the same classes stand in rows of their own."""
    awa2 = tmp_path / "Animals_with_Attributes2"
    write_photos(awa2 / "JPEGImages", ["blue+whale", "horse", "siamese+cat"], 3)
    ids = [AWA2_CLASSES["blue+whale"], AWA2_CLASSES["horse"]]
    with open(tmp_path / "classes.csv", "w", encoding="utf-8") as file:
        file.write("id,name,parents\n")
        file.writelines(f"{id},{id},{'|'.join(parents)}\n" for id, parents in PARENTS.items())
        file.writelines(f"{id},whale,animal\n" for id in ids)
    write_photos(tmp_path / "photos" / "unseen", ids[:1], 2)
    monkeypatch.setattr("unseen_lab.data.authors.paper_list", lambda name: ids)
    recipe = replace(load_recipe("awa2"), rows=(Row("structural", "structural", ours=True),))
    monkeypatch.setattr("unseen_lab.tables.run.load_recipe", lambda name: recipe)
    for photos in (tmp_path / "photos", None):
        level = replace(find_level(photos, awa2=awa2), hierarchy=str(tmp_path / "classes.csv"), has_lists=True,
                        network="support.tiny_network:build")  # fmt: skip
        result = small_reproduction(tmp_path / f"work-{photos is None}", level).run("awa2")
        labels = ["structural"] if photos is None else ["structural", "structural, ImageNet photos"]
        assert [row["label"] for row in result["rows"]] == labels
        found = {spec: (entry["classes"], entry["images"]) for spec, entry in result["coverage"].items()}
        assert found == {"awa2-test": (2, 6)} | ({} if photos is None else {"awa2-test, ImageNet photos": (1, 2)})
    with pytest.raises(UnseenError, match="is not AWA2"):
        find_level(awa2=tmp_path)


def written(folder: Path) -> dict[str, int]:
    """When each of its files was written."""
    return {path.name: path.stat().st_mtime_ns for path in folder.iterdir()}


@pytest.mark.slow
def test_done_is_not_done_again(work):
    """A result is read, with the time that it was made at; without it, its figures come from the bundles."""
    first, bundles = work.run("ablation"), work.trainings.work / "bundles"
    before = written(bundles)
    again = small_reproduction(work.trainings.work, work.level)
    assert again.run("ablation") == first
    (work.trainings.work / "results" / "ablation.json").unlink()
    measured = again.run("ablation")
    assert [row["measured"] for row in measured["rows"]] == [row["measured"] for row in first["rows"]]
    assert measured["made"]["at"] >= first["made"]["at"] and written(bundles) == before


@pytest.mark.slow
def test_an_interrupted_run_goes_on_where_it_was(tmp_path, level):
    """What the first one had trained is kept."""
    interrupted = small_reproduction(tmp_path, level)
    interrupted.trainings.bundle(load_recipe("two-phase").rows[0])
    before = written(tmp_path / "bundles")
    assert len(before) == 2 and not (tmp_path / "results").exists()  # after either stage
    small_reproduction(tmp_path, level).run("two-phase")
    after = written(tmp_path / "bundles")
    assert len(after) == 4 and before.items() <= after.items()


def test_results_of_other_settings_are_not_mixed(tmp_path, level):
    short, longer = small_reproduction(tmp_path, level), small_reproduction(tmp_path, level, replace(TINY, epochs=3))
    first = short.run("hop-weights")
    other = longer.run("hop-weights")
    assert first["made_with"] != other["made_with"]
    assert other["rows"][0]["epochs"] == 3
    assert other["rows"][0]["measured"] != first["rows"][0]["measured"]
    os.utime(tmp_path / "results" / "hop-weights.json", (0, 0))
    short.run("scalability")
    results, left_out = load_results(tmp_path)
    assert list(results) == ["scalability"]
    assert left_out == ["hop-weights"]


@pytest.mark.slow
def test_report_without_running(work, tmp_path):
    """From the saved results alone: it is the same without bundles and features."""
    for name in ("unseen-classes", "hop-weights", "qualitative"):
        work.run(name)
    work.analyse()
    pytest.importorskip("matplotlib")
    shutil.copytree(work.trainings.work / "results", tmp_path / "work" / "results")
    write_report(work.trainings.work, tmp_path / "a")
    write_report(tmp_path / "work", tmp_path / "b")
    for name in ("report.md", "plots/hit-curves.svg", "plots/trade-off.svg"):
        assert (tmp_path / "a" / name).read_bytes() == (tmp_path / "b" / name).read_bytes()
    text = (tmp_path / "a" / "report.md").read_text(encoding="utf-8")
    assert str(work.trainings.work) not in text and str(work.level.unseen) not in text
    pictures = re.findall(r"!\[.*\]\((photos/.*)\)", text)
    assert pictures and all((tmp_path / "a" / name).read_bytes().startswith(b"\xff\xd8") for name in pictures)
    write_report(work.trainings.work, tmp_path / "c", with_photos=False)
    assert "photos/" not in (tmp_path / "c" / "report.md").read_text(encoding="utf-8")
    assert not (tmp_path / "c" / "photos").exists()


def test_levels_follow_the_data(tmp_path):
    assert find_level().name == "embedded"
    with pytest.raises(UnseenError, match="unseen/"):
        find_level(tmp_path)
    (tmp_path / "unseen").mkdir()
    (tmp_path / "seen-val").mkdir()
    found = find_level(tmp_path / "unseen" / "..")  # however it is written
    assert found.name == "photos" and found.seen_val == tmp_path / "seen-val" and found.seen_train is None
    with pytest.raises(UnseenError, match="both"):
        find_level(imagenet_21k=tmp_path)
    with pytest.raises(UnseenError, match="train"):
        find_level(imagenet_21k=tmp_path, imagenet_1k=tmp_path)
    for name in ("train", "val"):
        (tmp_path / name).mkdir()
    paper = find_level(imagenet_21k=tmp_path, imagenet_1k=tmp_path)
    assert (paper.name, paper.hierarchy, paper.network) == ("paper", "paper", "timm/resnet50.tv_in1k")
    assert LENGTHS["paper"] == Lengths(3000, 3000, 20, study_epochs=3000)  # the paper's
    local = paper.with_parts(network="support.tiny_network:build", vectors=None, weights=tmp_path / "w.pt")
    assert (local.network, local.vectors, local.weights) == (
        "support.tiny_network:build",
        paper.vectors,
        tmp_path / "w.pt",
    )


@pytest.mark.slow
def test_paper_level_on_stand_ins(tmp_path, level):
    """Small folders in the place of both ImageNets, a tiny network in that of ResNet-50: the same way through."""
    (tmp_path / "imagenet").mkdir()
    for name, folder in (("train", level.seen_train), ("val", level.seen_val)):
        os.symlink(folder, tmp_path / "imagenet" / name)
    # ImageNet-21K holds photos of the seen classes too: the tables of unseen ones do not count them.
    (tmp_path / "fall11").mkdir()
    for folder in (*level.unseen.iterdir(), *level.seen_train.iterdir()):
        os.symlink(folder, tmp_path / "fall11" / folder.name)
    paper = find_level(imagenet_21k=tmp_path / "fall11", imagenet_1k=tmp_path / "imagenet")
    paper = paper.with_parts(hierarchy=level.hierarchy, vectors="glove", network="support.tiny_network:build")
    work = small_reproduction(tmp_path / "work", paper)
    assert work.run("seen-classes")["level"] == "paper"
    counted = {spec: (entry["classes"], entry["images"]) for spec, entry in work.run("generalised")["coverage"].items()}
    assert counted == dict.fromkeys(("2-hops+1K", "3-hops+1K", "all+1K"), (4, 8))


def test_candidates_without_the_authors_lists():
    bare = Level("embedded", "imagenet", "glove", "efficientnet-lite0", has_lists=False)
    assert [bare.candidates(spec) for spec in ("2-hops", "3-hops+1K", "all")] == ["hops:1", "hops:2+1K", "unseen"]


def test_what_the_authors_call_two_hops_is_distance_one(authors_lists):
    """So that the built-in hierarchy stands in for their lists as well as it can."""
    hierarchy = Hierarchy.paper()
    distance = dict(zip(hierarchy.ids, hierarchy.hops_from(paper_list("train")).tolist(), strict=True))
    assert sum(distance[id] == 1 for id in paper_list("2-hops")) == 1548
    assert sum(1 <= distance[id] <= 2 for id in paper_list("3-hops")) == 5977


def test_quick_takes_a_sample(tmp_path, level):
    sample = level.sample(tmp_path / "sample", 3)
    assert sample.sampled == 3
    assert len(list(sample.unseen.glob("*/*"))) == 3
    assert link_some(level.unseen, sample.unseen, 3) == sample.unseen  # once more: the same three
    assert len(list(sample.unseen.glob("*/*"))) == 3
    other = replace(level, unseen=level.seen_val).sample(tmp_path / "sample", 3)
    assert other.unseen != sample.unseen  # neither mixed with it nor taken for it


def test_combine():
    runs = [{"a": {"hit@1": 1.0, "hit@2": None}}, {"a": {"hit@1": 3.0, "hit@2": 2.0}}]
    assert combine(runs, np.mean) == {"a": {"hit@1": 2.0, "hit@2": None}}
    assert combine(runs, np.std)["a"]["hit@1"] == 1.0
    assert deviation([1.0, 2.0, 6.0]) == pytest.approx(7**0.5)  # 4 + 1 + 9, over 2


@pytest.mark.slow
def test_only_what_is_done(tmp_path, level):
    """An unfinished table shows the rows that are there, is marked, and is completed by the next whole run."""
    whole = small_reproduction(tmp_path, level)
    whole.trainings.bundle(Row("SGCN(-f)", "sgcn"))
    trained = written(tmp_path / "bundles")
    part = small_reproduction(tmp_path, level, only_done=True)
    result = part.run("ablation")
    assert part.run("hop-weights")["left_out"] and part.run("qualitative")["left_out"]
    assert list(part.analyse()["training"]) == ["SGCN"]
    assert written(tmp_path / "bundles") == trained
    pytest.importorskip("matplotlib")
    text = Path(write_report(tmp_path, tmp_path / "out")["markdown"]).read_text(encoding="utf-8")
    assert result["partial"]
    assert [row["label"] for row in result["rows"] if "measured" in row] == ["SGCN(-f)"]
    assert "**Unfinished**" in text and "DGP(-w), SGCN, DGP (not trained yet)." in text
    completed = whole.run("ablation")
    assert not completed["partial"] and all("measured" in row for row in completed["rows"])


@pytest.mark.slow
def test_two_processes_give_what_one_gives(tmp_path, level):
    """Under torchrun, on the command line: one table that shares photos among processes, one that also finetunes."""
    environment = os.environ | {"UNSEEN_CACHE": str(tmp_path / "cache")}
    environment.pop("UNSEEN_ASSETS", None)
    command = ["-m", "unseen", "reproduce"]
    options = ["--photos", str(level.unseen.parent), "--hierarchy", level.hierarchy, "--network", level.network,
               "--epochs", "2", "--finetune-batch", "4", "--workers", "0", "--device", "cpu", "--json"]  # fmt: skip
    torchrun = ["-m", "torch.distributed.run", "--standalone", "--nproc-per-node", "2"]
    figures = []
    for name, launcher, table in (("one", [], "gat"), ("two", torchrun, "gat"), ("two", torchrun, "two-phase")):
        line = [sys.executable, *launcher, *command, table, "--out", str(tmp_path / name), *options]
        done = subprocess.run(line, env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        result = json.loads(done.stdout.splitlines()[-1])["tables"][table]
        figures.append([row["measured"] for row in result["rows"]])
    assert figures[0] == figures[1]
    assert len(figures[2]) == 2
