"""The methods that learn from photos, on a few real ones: mammals to learn from, AWA2's test classes to recognise."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from unseen.backbones import load_backbone
from unseen.features.store import SeenFeatures
from unseen.methods import make_method
from unseen.methods.problem import Problem
from unseen.runtime.run import Run
from unseen.scoring.awa2_classes import TEST
from unseen.semantics import class_vectors, load_vectors
from unseen.taxonomy import Taxonomy

MAMMAL = "n01861778"
QUICK = {"gaussian-ort": {"steps": 200}, "se-gzsl": {"steps": 100, "hidden_units": 256}, "devise": {"epochs": 20},
         "sync": {"iterations": 15}, "exem": {}, "eszsl": {}}  # fmt: skip
SEEDS = {"devise": 3}  # whose choice from so few photos is often a bad one


@pytest.fixture(scope="module")
def world(shared_photos) -> tuple[Problem, np.ndarray, np.ndarray]:
    """A quarter of the seen mammals, four photos each; features and rows of photos of test classes."""
    network, whole = load_backbone("efficientnet-lite0"), Taxonomy.imagenet()
    mammals = set(whole.descendants(MAMMAL))
    seen = [id for id in network.class_ids if id in mammals and (shared_photos / "seen-train" / id).is_dir()][::4]
    unseen = [id for id in TEST.values() if (shared_photos / "unseen" / id).is_dir()]
    taxonomy = whole.subgraph([*seen, *unseen])
    known = network.classifiers()[[network.class_ids.index(id) for id in seen]]

    def features(part: str, ids: list[str], each: int) -> tuple[np.ndarray, np.ndarray]:
        files = [(place, file) for place, id in enumerate(ids)
                 for file in sorted((shared_photos / part / id).iterdir())[:each]]  # fmt: skip
        opened = [network.transform.open(file) for _, file in files]
        with torch.no_grad():
            found = [network.features(torch.stack(opened[i : i + 32])) for i in range(0, len(opened), 32)]
        return torch.cat(found).numpy(), np.array([place for place, _ in files])

    matrix, labels = features("seen-train", seen, 4)
    photos, shown = features("unseen", unseen, 6)
    vectors = class_vectors(taxonomy, load_vectors("glove"))
    problem = Problem(taxonomy, vectors, taxonomy.indices(seen), known, SeenFeatures(matrix, labels))
    return problem, photos, taxonomy.indices(unseen)[shown]


@pytest.mark.slow
@pytest.mark.parametrize("name", QUICK)
def test_recognises_animals_that_it_never_saw(world, name):
    problem, photos, truth = world
    rows, found = np.unique(truth), []
    for seed in range(SEEDS.get(name, 1)):
        solution = make_method(name, QUICK[name]).fit(problem, Run(seed=seed, show_progress=False, device="cpu"))
        scores = solution.projection(photos) @ solution.classifiers[rows].T
        found.append((rows[scores.argmax(axis=1)] == truth).mean())
    assert np.mean(found) > 1.5 / len(rows)  # 1 / 9 is chance; what 220 photos of 55 classes give is about twice that
