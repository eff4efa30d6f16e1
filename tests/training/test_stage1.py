"""From hierarchy, names and network to a bundle: what it keeps, what it tells, what it refuses."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import time
from pathlib import Path

import numpy as np
import pytest
import torch

import unseen
from support.bundles import (
    DOG,
    FEATURES,
    SEEN,
    TinyNetwork,
    small_backbone,
    small_bundle,
    small_photo,
    small_taxonomy,
)
from support.conditions import needs_proc
from unseen.backbones import PhotoTransform, from_module, load_backbone
from unseen.bundle import Bundle
from unseen.bundle.records import Holdout
from unseen.errors import UnseenError
from unseen.features import build_store
from unseen.features.store import SeenFeatures
from unseen.methods import Solution
from unseen.methods.projections import Append1, Unit
from unseen.runtime.run import Run
from unseen.training.holdout import check_hidden
from unseen.training.inputs import default_vectors
from unseen.training.stage1 import train

TREE = (
    "id,name,parent\nt,thing,\na,animal,t\ndog,dog,a\ncat,cat,a\nfox,fox,a\ntool,tool,t\nsaw,saw,tool\naxe,axe,tool\n"
)


@pytest.fixture
def tree(tmp_path) -> Path:
    (tmp_path / "tree.csv").write_text(TREE)
    return tmp_path / "tree.csv"


def test_a_bundle_holds_all_that_went_in():
    network = small_backbone()
    bundle = small_bundle("structural", backbone=network, decay=0.7)
    assert np.array_equal(bundle.known, network.classifiers())
    assert bundle.seen_ids == list(SEEN) and bundle.settings == {"decay": 0.7}
    assert bundle.solution.classifiers.shape == (len(bundle), FEATURES + 1)
    assert bundle.backbone.checksum == network.checksum and bundle.backbone.layer == "head"
    assert bundle.backbone.transform["size"] == 32
    assert bundle.training.seconds >= 0 and bundle.training.peak_memory_mb > 0


def test_two_lines_for_a_network_in_memory(tree):
    model = TinyNetwork(3)
    backbone = unseen.backbones.from_module(model, ["dog", "cat", "saw"], PhotoTransform(32))
    bundle = unseen.train(graph=tree, vectors="glove", backbone=backbone)
    assert bundle.is_class.all() and len(bundle) == 8
    labels = unseen.load(bundle, backbone=backbone).classify(small_photo(), k=8)
    assert {label.id for label in labels} == set(bundle.ids)


def test_a_network_in_memory_must_be_given_again(tree, tmp_path):
    backbone = from_module(TinyNetwork(3), ["dog", "cat", "saw"], PhotoTransform(32))
    path = train("structural", tree, "glove", backbone, tmp_path / "b").path
    with pytest.raises(UnseenError, match=r"a network in memory \(TinyNetwork\).*unseen.load\(bundle, backbone="):
        unseen.load(path).classify(small_photo())
    with pytest.raises(UnseenError, match="disagree on the seen classes"):
        unseen.load(path, backbone=from_module(TinyNetwork(3), ["cat", "dog", "saw"], PhotoTransform(32)))
    assert unseen.load(path, backbone=backbone).classify(small_photo())


@pytest.mark.slow
def test_import_unseen_is_all_it_takes_and_cheap():
    script = "import sys, unseen; torch = 'torch' in sys.modules; unseen.export; sys.exit(torch)"
    assert subprocess.run([sys.executable, "-c", script]).returncode == 0


@pytest.mark.slow
def test_an_importable_network_is_found_again(tree, tmp_path, monkeypatch):
    """Name, weights, layer and transform: all come back from the bundle, in a process that knows nothing of them."""
    (tmp_path / "my_networks.py").write_text(
        textwrap.dedent("""
        import torch
        from torch import nn

        class Net(nn.Module):
            def __init__(self):
                super().__init__()
                self.stem, self.head, self.second = nn.Conv2d(3, 8, 3), nn.Linear(8, 3), nn.Linear(8, 3)

            def forward(self, x):
                x = torch.relu(self.stem(x)).mean((2, 3))
                return self.head(x) + 0 * self.second(x)
        """)
    )
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    import my_networks

    torch.save(my_networks.Net().state_dict(), "weights.pth")
    ids, options = ["dog", "cat", "saw"], {"layer": "head", "weights": Path("weights.pth")}
    with pytest.raises(UnseenError, match="Several linear layers have 3 outputs"):
        train("structural", tree, "glove", "my_networks:Net", classes=ids)
    bundle = train("structural", tree, "glove", "my_networks:Net", tmp_path / "b", classes=ids, **options)
    assert bundle.backbone.weights == str(tmp_path / "weights.pth")
    here = unseen.load(bundle, device="cpu").features([small_photo()])
    small_photo().save("photo.png")
    load = "unseen.load('b', device='cpu', trust_code=True)"
    script = f"import sys, unseen; print(*{load}.features([sys.argv[1]])[0].tolist())"
    done = subprocess.run([sys.executable, "-c", script, "photo.png"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [float(number) for number in done.stdout.split()] == pytest.approx(here[0].tolist(), abs=1e-6)

    torch.save(my_networks.Net().state_dict(), "weights.pth")  # other weights under the old name
    with pytest.raises(UnseenError, match="was made for other weights of my_networks:Net"):
        unseen.load("b").classify(small_photo())
    os.unlink("weights.pth")
    with pytest.raises(UnseenError, match=r"with the weights .*weights.pth, which are not there: put the file back"):
        unseen.load("b").classify(small_photo())


def test_a_network_with_its_own_transform_keeps_it(tree, tmp_path):
    transform = PhotoTransform(40, mean=(0.5, 0.5, 0.5), std=(0.2, 0.2, 0.2), interpolation="bilinear")
    backbone = from_module(TinyNetwork(3), ["dog", "cat", "saw"], transform)
    path = train("structural", tree, "glove", backbone, tmp_path / "b").path
    assert PhotoTransform(**Bundle.load(path).backbone.transform) == transform


def test_other_weights_for_the_built_in_network_are_remembered(tmp_path):
    """A network of one's own, trained on other classes with the built-in architecture."""
    ids = list(SEEN)
    network = load_backbone()
    weights = network.weights()
    weights = weights | {key: weights[key][: len(ids)] * 1.1 for key in ("classifier.weight", "classifier.bias")}
    torch.save(weights, tmp_path / "mine.pth")
    bundle = train("structural", small_taxonomy(), "glove", classes=ids, weights=tmp_path / "mine.pth")
    assert np.allclose(bundle.known[:, -1], network.classifiers()[: len(ids), -1] * 1.1)
    given = load_backbone(classes=ids, weights=tmp_path / "mine.pth")  # the same, loaded beforehand
    for one in (bundle, train("structural", small_taxonomy(), "glove", given)):
        again = Bundle.load(one.save(tmp_path / "b", overwrite=True))
        assert again.load_backbone().checksum == bundle.backbone.checksum


# -- what is told --------------------------------------------------------------------------------------------------


def test_classes_without_vectors_are_told(tree):
    said: list[str] = []
    tree.write_text(TREE + "q,qqxzv,tool\n")
    backbone = from_module(TinyNetwork(3), ["dog", "cat", "saw"], PhotoTransform(32))
    train("structural", tree, "glove", backbone, say=said.append)
    assert said[0] == "1 of 9 classes have no vector (qqxzv); 1 words were not found, most frequent: qqxzv (1)."
    said.clear()
    train("structural", tree, ["glove", lambda names: np.ones((len(names), 2))], backbone, say=said.append)
    assert said[0] == "glove knows nothing of 1 of 9 classes; for these other vectors count."


def test_what_a_file_restates_is_told(tmp_path):
    said: list[str] = []
    file = tmp_path / "new.csv"
    file.write_text(f"id,name,parent\n{DOG},dog,\npup,pup,{DOG}\n")
    backbone = small_backbone()
    bundle = train("structural", f"imagenet+{file}", "glove", backbone, say=said.append)
    assert "1 classes of new.csv are in the hierarchy already." in said
    assert "pup" in bundle.taxonomy


def test_default_vectors_need_the_encoder_for_own_classes(tree, monkeypatch):
    said: list[str] = []
    taxonomy = unseen.Taxonomy.load(tree)
    monkeypatch.setattr("unseen.training.inputs.encoder_installed", lambda: False)
    assert default_vectors("kin", taxonomy, said.append) == "glove" and "unseen[text]" in said[0]
    assert default_vectors("kin", small_taxonomy(), said.append) == "glove+text" and len(said) == 1
    monkeypatch.setattr("unseen.training.inputs.encoder_installed", lambda: True)
    assert default_vectors("kin", taxonomy, said.append) == "glove+text"
    assert default_vectors("dgp", taxonomy, said.append) == "glove"  # as in the paper


# -- what is refused -----------------------------------------------------------------------------------------------


def test_seen_classes_that_the_hierarchy_lacks(tree):
    backbone = from_module(TinyNetwork(3), ["dog", "cow", "saw"], PhotoTransform(32))
    with pytest.raises(UnseenError, match=r"1 of the network's 3 classes are not in .*: cow.*skip_missing=True"):
        train("structural", tree, "glove", backbone)
    said: list[str] = []
    bundle = train("structural", tree, "glove", backbone, skip_missing=True, say=said.append)
    assert "They are left out." in said[0]
    assert bundle.seen_ids == ["dog", "saw"] and np.array_equal(bundle.known, backbone.classifiers()[[0, 2]])
    assert bundle.backbone.class_ids == ["dog", "cow", "saw"]
    bundle.check_backbone(backbone)
    with pytest.raises(UnseenError, match=r"ids of the network's outputs, classes=..., must be ids of"):
        train("structural", tree, "glove", from_module(TinyNetwork(2), ["x", "y"], PhotoTransform(32)))


def test_nan_weights_are_told():
    backbone = small_backbone()
    torch.nn.init.constant_(backbone.get_classifier().weight, float("nan"))
    with pytest.raises(UnseenError, match="classifiers hold NaN or infinity: check its weights file"):
        small_bundle("structural", backbone=backbone)


def test_nan_vectors_are_told():
    with pytest.raises(UnseenError, match="NaN or infinite number, first in row 0"):
        small_bundle("structural", lambda names: np.full((len(names), 2), np.nan))


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"method": "knn"}, r"no method named 'knn'.*There are: dgp"),
        ({"method": "dpg"}, "Did you mean 'dgp'"),
        ({"decay": 1, "foo": 2}, "structural has no setting 'foo'. It has: decay"),
        ({"holdout": 1.0}, "from 0 to less than 1; not 1.0"),
        ({"holdout": 0.999}, "would hide all 6 seen classes"),
        ({"holdout": 0.05}, "would hide none of 6 seen classes: give a larger share"),
        ({"features": "store"}, "structural does not learn from photos: omit features"),
        ({"graph": "imagenett"}, "no hierarchy 'imagenett'. Did you mean imagenet"),
        ({"vectors": "none"}, "no vectors 'none'"),
        ({"backbone": "efficientnet"}, "no network 'efficientnet'"),
        ({"method": "eszsl"}, "learns from photos of seen classes"),
    ],
)
def test_mistakes_are_told_before_the_work(options, says):
    with pytest.raises(UnseenError, match=says):
        small_bundle(**({"method": "structural"} | options))


# -- where it writes -----------------------------------------------------------------------------------------------


class Stop(Exception):
    pass


def test_an_interrupted_training_goes_on_to_the_same_end(tmp_path, monkeypatch):
    options = {"epochs": 8, "hidden": 16}
    whole = small_bundle("dgp", out=tmp_path / "whole", run=Run(show_progress=False), **options)

    from unseen.methods.graph.training import Training

    step, steps = Training.step, []

    def stopping(training):
        steps.append(1)
        if len(steps) == 6:
            raise Stop
        return step(training)

    monkeypatch.setattr(Training, "step", stopping)
    out = tmp_path / "stopped"
    with pytest.raises(Stop):
        small_bundle("dgp", out=out, run=Run(show_progress=False, checkpoint_every=2), **options)
    with pytest.raises(UnseenError, match="unfinished training: continue it with resume=True"):
        Bundle.load(out)
    again = small_bundle("dgp", out=out, run=Run(show_progress=False, checkpoint_every=2, resume=True), **options)
    assert len(steps) == 6 + 4  # epochs 5 to 8
    assert np.array_equal(again.solution.classifiers, whole.solution.classifiers)
    assert not (out / "checkpoint.safetensors").exists() and Bundle.load(out).seed == 0


def test_the_time_of_an_interrupted_training_counts(tmp_path):
    options, folder = {"hidden": 16}, tmp_path / "b"
    long_ago = time.monotonic() - 1000
    small_bundle("dgp", run=Run(folder=folder, started=long_ago, show_progress=False), epochs=2, **options)
    again = small_bundle("dgp", out=folder, run=Run(resume=True, show_progress=False), epochs=4, **options)
    assert again.training.seconds > 1000
    seconds = [record["seconds"] for record in again.log]
    assert len(seconds) == 3 and seconds == sorted(seconds) and seconds[0] > 1000


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_seed_that_no_generator_takes_is_told(seed):
    with pytest.raises(UnseenError, match="the seed must be an integer from 0"):
        Run(seed=seed)


def test_sync_learns_from_photos_where_they_are_given(tmp_path):
    for number, id in enumerate(SEEN):
        (tmp_path / "photos" / id).mkdir(parents=True)
        small_photo(number).save(tmp_path / "photos" / id / "a.png")
    backbone = small_backbone()
    build_store(tmp_path / "photos", tmp_path / "store", backbone, workers=0, show_progress=False)
    bundle = small_bundle("sync", backbone=backbone, features=tmp_path / "store", iterations=2)
    assert bundle.solution.record.chosen["learn_from"] == "features"


def test_a_checkpoint_of_another_training_is_refused(tmp_path):
    options = {"epochs": 2, "hidden": 16}
    # Without `out` only the checkpoint is kept, as if the training had been stopped after its last epoch.
    small_bundle("dgp", run=Run(folder=tmp_path / "b", show_progress=False), **options)
    with pytest.raises(UnseenError, match="belongs to another training: seed was 0, now 1"):
        small_bundle("dgp", out=tmp_path / "b", run=Run(show_progress=False, resume=True, seed=1), **options)


def test_a_bundle_that_is_replaced_stays_whole_until_the_end(tmp_path, monkeypatch):
    out, options = tmp_path / "b", {"epochs": 3, "hidden": 16}
    small_bundle("dgp", out=out, **options)
    from unseen.methods.graph.training import Training

    def fail(training):
        raise Stop

    monkeypatch.setattr(Training, "step", fail)
    with pytest.raises(Stop):
        small_bundle("dgp", out=out, overwrite=True, run=Run(seed=1, show_progress=False), **options)
    assert Bundle.load(out).seed == 0
    monkeypatch.undo()
    small_bundle("dgp", out=out, overwrite=True, run=Run(seed=1, show_progress=False), **options)
    assert Bundle.load(out).seed == 1 and not (out / "retraining").exists()


@needs_proc
def test_a_place_that_cannot_be_written_is_told_before_the_work(monkeypatch):
    monkeypatch.setattr("unseen.training.stage1.class_vectors", None)  # the work must not begin
    with pytest.raises(UnseenError, match="cannot write to /proc"):
        small_bundle("structural", out="/proc/bundle")


@pytest.mark.slow
def test_a_full_disk_is_told_and_leaves_nothing(tmp_path):
    """A limit on the size of files stands in for a full disk: the operating system refuses to write on."""
    script = f"""
import resource
from support.bundles import small_bundle
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
from unseen.errors import UnseenError
try:
    small_bundle("structural", out={str(tmp_path / "b")!r})
except UnseenError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.startswith(f"cannot write to {tmp_path / '.b'}") and "File too large" in done.stdout, done.stderr
    assert [item.name for item in tmp_path.rglob("*")] in ([], ["b"])


# -- the check on hidden classes -----------------------------------------------------------------------------------


def test_holdout_hides_classes_and_scores_them():
    bundle = small_bundle("structural", holdout=0.5)
    assert len(bundle.seen) == 3 and bundle.training.holdout.classes == 3
    assert bundle.backbone.class_ids == list(SEEN)
    assert set(bundle.seen_ids) < set(SEEN)
    again = small_bundle("structural", holdout=0.5)
    assert again.seen_ids == bundle.seen_ids
    assert small_bundle("structural", holdout=0.5, run=Run(seed=3)).seen_ids != bundle.seen_ids


def test_hits_among_hidden_classes_by_hand():
    bundle = small_bundle("structural")
    problem = bundle.problem()
    hidden = np.array([0, 1, 2, 3])
    predicted = np.zeros_like(bundle.solution.classifiers)
    own = problem.targets()
    predicted[problem.seen[0]], predicted[problem.seen[1]] = own[0], own[1]  # found
    predicted[problem.seen[2]], predicted[problem.seen[3]] = own[3], own[2]  # swapped
    found = check_hidden(Solution(predicted, Append1(), {}), problem, hidden)
    assert found == Holdout(4, 50.0, 100.0)
    same = Solution(np.tile(own[:1], (len(bundle), 1)), Append1(), {})  # all alike: first with a chance of one in four
    assert check_hidden(same, problem, hidden) == Holdout(4, 25.0, 100.0)
    answers = ~np.isin(np.arange(len(bundle)), problem.seen[:2])
    silent = Solution(predicted, Append1(), {}, answers=answers)  # on the two that would be found
    assert check_hidden(silent, problem, hidden) == Holdout(4, 0.0, 50.0)
    none = Solution(np.zeros((len(bundle), 3), np.float32), Append1(), {})
    assert check_hidden(none, problem, hidden) == Holdout(4, None, None)
    width = predicted.shape[1] - 1
    of_length_one = Solution(predicted, Unit(np.zeros(width, np.float32)), {})  # as wide, but for other photos
    assert check_hidden(of_length_one, problem, hidden) == Holdout(4, None, None)


def test_a_network_alone_has_no_figures_for_hidden_classes():
    held = small_bundle("network", holdout=0.5).training.holdout
    assert held.to_json() == {"classes": 3, "hit@1": None, "hit@5": None}


def test_photos_of_hidden_classes_are_hidden_too():
    labels = np.arange(60) % len(SEEN)
    matrix = np.random.default_rng(0).normal(size=(60, FEATURES)).astype(np.float32)
    bundle = small_bundle("eszsl", features=SeenFeatures(matrix, labels), holdout=0.5)
    kept = np.isin(np.array(SEEN)[labels], bundle.seen_ids)
    assert kept.sum() == 30
    for changed, same in ((~kept, True), (kept, False)):  # photos of hidden classes do not count, the others do
        other = np.where(changed[:, None], -matrix, matrix)
        again = small_bundle("eszsl", features=SeenFeatures(other, labels), holdout=0.5)
        assert np.array_equal(again.solution.projection.matrix, bundle.solution.projection.matrix) == same
