"""Where in a photo a score comes from."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from support.bundles import OKAPI, small_bundle, small_network, small_photo
from support.colours import PARENTS, make_network
from support.colours import model as colour_model
from unseen.answers.explain import look_at_cells, points_of_cells
from unseen.hierarchy.core import Hierarchy
from unseen.methods.projections import Linear, Unit
from unseen.model import Model
from unseen.networks.loading import load_network
from unseen.training.stage1 import train
from unseen.util.errors import UnseenError


def red_and_blue() -> Image.Image:
    """Red on the left, blue on the right."""
    photo = Image.new("RGB", (40, 40), "blue")
    photo.paste("red", (0, 0, 20, 40))
    return photo


def model_by(method: str) -> Model:
    hierarchy = Hierarchy(list(PARENTS), [(name,) for name in PARENTS], list(PARENTS.values()))
    network = make_network()
    return Model(train(hierarchy, network, method, "glove"), network)


@pytest.mark.parametrize("method", ["structural", "kin"])
def test_the_cells_sum_to_the_score(method):
    model, photo = model_by(method), red_and_blue()
    for label in model.classify(photo, k=10):
        found = model.heatmap(photo, label.id)
        assert found.cells.shape == (8, 8)
        assert found.cells.sum() == pytest.approx(label.score, rel=1e-4, abs=1e-5)
        assert found.score == pytest.approx(label.score, rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("normalise", [True, False])
def test_so_they_do_where_methods_project_features(normalise):
    rng = np.random.default_rng(0)
    cells, mean = rng.normal(size=(49, 6)).astype(np.float32), rng.normal(size=6).astype(np.float32)
    linear = Linear(rng.normal(size=(6, 4)).astype(np.float32), rng.normal(size=4).astype(np.float32), normalise)
    for projection in (linear, Unit(mean)):
        whole = projection(cells.mean(axis=0, keepdims=True))[0]
        np.testing.assert_allclose(points_of_cells(projection, cells).mean(axis=0), whole, atol=1e-5)


def test_the_network_of_the_package_has_a_map():
    network = load_network("efficientnet-lite0")
    pixels = network.transform(small_photo(size=(260, 240)))
    cells, shape = look_at_cells(network, pixels)
    assert shape == (7, 7)
    features = network.features(pixels[None])[0].numpy()
    np.testing.assert_allclose(cells.mean(axis=0), features, atol=1e-3)


def test_it_is_warm_where_the_thing_is_and_a_difference_tells_two_apart():
    model, photo = colour_model(), red_and_blue()
    tomato = model.heatmap(photo, "tomato").cells
    assert tomato[:, :3].min() > tomato[:, 5:].max()
    both = model.heatmap(photo, "tomato", instead_of="ocean")
    assert both.instead_of == "ocean" and both.cells[:, :3].min() > 0 > both.cells[:, 5:].max()
    np.testing.assert_allclose(both.cells, tomato - model.heatmap(photo, "ocean").cells, atol=1e-6)


def test_it_is_laid_over_the_part_that_the_network_sees(tmp_path):
    model, wide = colour_model(), Image.new("RGB", (80, 40), "red")
    found = model.heatmap(wide, "tomato")
    assert found.box == (0.25, 0.0, 0.75, 1.0)
    pixels = np.asarray(found.over(wide), int)
    assert (pixels[:, :20] == (255, 0, 0)).all() and (pixels[20, 30:50] != (255, 0, 0)).any(axis=1).all()
    found.save(tmp_path / "map.png", wide)
    with Image.open(tmp_path / "map.png") as written:
        assert written.size == wide.size
    with pytest.raises(UnseenError, match=r"map\.nonsense.*map\.png"):
        found.save(tmp_path / "map.nonsense", wide)


def test_networks_and_methods_that_have_none_say_so():
    pooled = Model(small_bundle("structural"), small_network())
    with pytest.raises(UnseenError, match=r"no heat map for .*features are the mean of a map"):
        pooled.heatmap(small_photo(), OKAPI)
    with pytest.raises(UnseenError, match="no heat map for this method"):
        model_by("conse").heatmap(red_and_blue(), "tomato")
