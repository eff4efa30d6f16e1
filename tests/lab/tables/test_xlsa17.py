"""xlsa17's benchmarks, on small .mat files of the same shape."""

from __future__ import annotations

import json
import math

import numpy as np
import pytest
from scipy.io import savemat

from support.command_line import run_command
from unseen.methods import make_method
from unseen.methods.base import Solution
from unseen.methods.projections import Append1
from unseen.networks.features import SeenFeatures
from unseen.util.errors import UnseenError
from unseen_lab.tables.xlsa17 import (
    FIGURES,
    Dataset,
    discriminants,
    find_datasets,
    load_published,
    run_benchmarks,
    table_of,
)

CLASSES, SEEN, ATTRIBUTES, WIDTH, EACH = 28, 22, 6, 12, 10
SLOW = ("se-gzsl", "gaussian-ort", "sync", "devise")


def write(folder, seed: int = 0, **changes) -> None:
    """Photos lie around a linear function of their class's attributes."""
    random = np.random.default_rng(seed)
    attributes = random.uniform(0, 1, (CLASSES, ATTRIBUTES))
    centres = attributes @ random.standard_normal((ATTRIBUTES, WIDTH))
    labels = np.repeat(np.arange(CLASSES), EACH)
    features = np.maximum(centres[labels] + 0.2 * random.standard_normal((len(labels), WIDTH)) + 3, 0)
    unseen = np.flatnonzero(labels >= SEEN)
    seen = random.permutation(np.flatnonzero(labels < SEEN))
    names = np.array([f"{row + 1:03}.Class_{row}" for row in range(CLASSES)], object)[:, None]
    # small unsigned integers in columns, as MATLAB saved them: 0 - 1 would be 255
    photos = {"features": features.T, "labels": np.uint8(labels[:, None] + 1), "image_files": names}
    splits = {"allclasses_names": names, "att": attributes.T, "original_att": attributes.T,
              "train_loc": np.uint16(seen[80:, None] + 1), "val_loc": np.uint16(seen[40:80, None] + 1),
              "trainval_loc": np.uint16(seen[40:, None] + 1), "test_seen_loc": np.uint16(seen[:40, None] + 1),
              "test_unseen_loc": np.uint16(unseen[:, None] + 1)}  # fmt: skip
    folder.mkdir(parents=True)
    for name, arrays in {"res101.mat": photos, "att_splits.mat": splits}.items():
        kept = {key: changes.get(key, array) for key, array in arrays.items()}
        savemat(folder / name, {key: array for key, array in kept.items() if array is not None})


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    folder = tmp_path_factory.mktemp("xlsa17") / "data"
    write(folder / "AWA2")
    return folder


def test_files_are_read_as_matlab_counts(data):
    dataset = Dataset.read(data / "AWA2")
    assert dataset.features.shape == (CLASSES * EACH, WIDTH) and dataset.attributes.shape == (CLASSES, ATTRIBUTES)
    assert dataset.labels.min() == 0 and dataset.labels.max() == CLASSES - 1
    assert dataset.classes[0] == "001.Class_0" and dataset.seen.tolist() == list(range(SEEN))
    problem = dataset.problem()
    row = problem.hierarchy.index("class-3")
    assert problem.hierarchy.name("class-3") == "004.Class 3"
    np.testing.assert_allclose(problem.vectors.matrix[row], dataset.attributes[3])
    assert len(problem.seen) == SEEN == len(problem.classifiers)


def test_flo_has_no_names_of_classes(tmp_path, data):
    """Nor do the files that Xian et al. published with later papers."""
    write(tmp_path / "FLO", allclasses_names=None)
    named, unnamed = Dataset.read(data / "AWA2"), Dataset.read(tmp_path / "FLO")
    assert unnamed.classes == tuple(str(number) for number in range(1, CLASSES + 1))
    np.testing.assert_array_equal(unnamed.labels, named.labels)
    assert unnamed.problem().hierarchy.name("class-3") == "4"


def test_figures_are_those_of_plain_loops(data):
    """Class-averaged accuracy over the right candidates, with any classifiers."""
    dataset = Dataset.read(data / "AWA2")
    problem = dataset.problem()
    random = np.random.default_rng(1)
    matrix = random.standard_normal((len(problem.hierarchy), WIDTH + 1)).astype(np.float32)
    figures = dataset.measure(problem, Solution(matrix, Append1()))
    row = {c: problem.hierarchy.index(f"class-{c}") for c in range(CLASSES)}

    def plain(part, candidates):
        right = {}
        for photo in dataset.parts[part]:
            scores = {c: np.append(dataset.features[photo], 1) @ matrix[row[c]] for c in candidates}
            right.setdefault(int(dataset.labels[photo]), []).append(
                max(scores, key=scores.get) == dataset.labels[photo]
            )
        return 100 * np.mean([np.mean(hits) for hits in right.values()])

    u, s = plain("test_unseen", range(CLASSES)), plain("test_seen", range(CLASSES))
    assert figures["T1"] == pytest.approx(plain("test_unseen", range(SEEN, CLASSES)), abs=0.01)
    assert (figures["u"], figures["s"]) == (pytest.approx(u, abs=0.01), pytest.approx(s, abs=0.01))
    assert figures["H"] == pytest.approx(2 * u * s / (u + s) if u + s else 0, abs=0.02)


def test_discriminants_are_scikit_learns():
    lda = pytest.importorskip("sklearn.discriminant_analysis")
    random = np.random.default_rng(0)
    labels = np.repeat(np.arange(4), 30)
    features = (random.standard_normal((4, 5))[labels] * 2 + random.standard_normal((120, 5))).astype(np.float32)
    known = discriminants(SeenFeatures(features, labels), 4)
    theirs = lda.LinearDiscriminantAnalysis("lsqr", shrinkage=0.1, priors=np.full(4, 0.25)).fit(features, labels)
    scores, expected = np.c_[features, np.ones(120)] @ known.T, features @ theirs.coef_.T + theirs.intercept_
    # the same up to a constant for each photo, and their covariance is divided by n as ours is
    np.testing.assert_allclose(scores - scores[:, :1], expected - expected[:, :1], rtol=0.02, atol=0.05)


@pytest.mark.parametrize("method", [name for name in load_published()["methods"] if name not in SLOW])
def test_methods_find_unseen_classes_by_their_attributes(data, method):
    (entry,) = run_benchmarks(data, [method])["datasets"]
    (row,) = entry["rows"]
    assert row["measured"]["T1"] > 50  # 17 by chance


@pytest.mark.slow
@pytest.mark.parametrize("method", SLOW)
def test_so_do_the_slow_ones(data, method):
    (entry,) = run_benchmarks(data, [method])["datasets"]
    assert entry["rows"][0]["measured"]["T1"] > 30


def test_published_figures_hold_together():
    recipe = load_published()
    for name, sets in recipe["published"].items():
        make_method(name, {})
        for t1, u, s, h in sets.values():
            assert 0 < t1 < 100
            if not math.isnan(h):
                assert h == pytest.approx(2 * u * s / (u + s), abs=0.06)
    assert recipe["published"]["conse"]["AWA2"][0] == 44.5  # as the paper's Table 9 quotes


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"att": None}, "lacks att"),
        ({"labels": np.ones((3, 1))}, "280 photos, but 3 labels"),
        ({"test_seen_loc": np.array([[9999.0]])}, "beyond 280"),
        ({"att": np.ones((ATTRIBUTES, 3))}, "28 classes, but attributes of 3"),
        ({"labels": np.full((280, 1), 29.0)}, "a label is not one of the 28"),
        ({"labels": np.zeros((280, 1), np.uint8)}, "a label is not one of the 28"),
    ],
)
def test_files_that_do_not_fit_are_refused(tmp_path, changes, reason):
    write(tmp_path / "AWA1", **changes)
    with pytest.raises(UnseenError, match=reason):
        Dataset.read(tmp_path / "AWA1")


def test_what_is_no_mat_file_is_refused(tmp_path, data):
    with pytest.raises(UnseenError, match="has no folder with res101"):
        find_datasets(tmp_path)
    with pytest.raises(UnseenError, match="there is no such folder"):
        find_datasets(tmp_path / "data")
    (tmp_path / "CUB").mkdir()
    (tmp_path / "CUB" / "res101.mat").write_bytes(b"")
    with pytest.raises(UnseenError, match=r"CUB: lacks att_splits\.mat"):
        find_datasets(tmp_path)
    write(tmp_path / "SUN")
    (tmp_path / "SUN" / "res101.mat").write_bytes(b"not a file of numbers" * 20)
    with pytest.raises(UnseenError, match="not a readable"):
        Dataset.read(tmp_path / "SUN")
    header = b"MATLAB 7.3 MAT-file".ljust(124) + b"\x00\x02IM"
    (tmp_path / "SUN" / "res101.mat").write_bytes(header.ljust(512, b"\x00") + b"\x89HDF\r\n\x1a\n")
    with pytest.raises(UnseenError, match=r"is a MATLAB 7\.3 file; save it with -v7"):
        Dataset.read(tmp_path / "SUN")
    assert find_datasets(data.parent) == find_datasets(data) == [data / "AWA2"]


def test_nothing_is_trained_before_all_is_read(tmp_path, monkeypatch):
    write(tmp_path / "AWA1")
    write(tmp_path / "SUN", att=None)
    monkeypatch.setattr("unseen_lab.tables.xlsa17.make_method", lambda *_: pytest.fail("trained"))
    with pytest.raises(UnseenError, match=r"SUN.*lacks att"):
        run_benchmarks(tmp_path, ["eszsl"])
    with pytest.raises(UnseenError, match=r"sgcn needs a hierarchy.*Choose from: conse"):
        run_benchmarks(tmp_path, ["eszsl", "sgcn"])
    with pytest.raises(UnseenError, match="no method named 'eszzl'"):
        run_benchmarks(tmp_path, ["eszzl"])


def test_errors_of_the_command_line(data, tmp_path):
    assert "name their folder with --data" in run_command("reproduce", "xlsa17").err
    assert "--data is for xlsa17" in run_command("reproduce", "unseen-classes", "--data", data).err
    assert "everyday, xlsa17" in run_command("reproduce", "xlsa18").err


def test_command_line(data, tmp_path):
    done = run_command(
        "reproduce", "xlsa17", "--data", str(data), "--methods", "eszsl", "--out", str(tmp_path), "--json"
    )
    (entry,) = json.loads(done.out.splitlines()[-1])["datasets"]
    assert entry["name"] == "AWA2" and entry["rows"][0]["published"]["T1"] == 58.6
    table = table_of(entry)
    assert list(table.header[1:5]) == list(FIGURES) and table.rows[0][-1] == "11.0"
    assert "| eszsl |" in (tmp_path / "xlsa17.md").read_text()
