"""Photos that a class is taught with count at once, in the classifier that is at hand."""

from __future__ import annotations

import io

import numpy as np
import pytest

from support.bundles import OKAPI, POODLE, small_bundle, small_network, small_photo
from unseen.model import Model
from unseen.training.settings import FinetuneSettings
from unseen.training.stage2 import finetune
from unseen.util.errors import UnseenError
from unseen.util.run import Run


@pytest.fixture
def model() -> Model:
    return Model(small_bundle("kin"), small_network())


def encoded(photo) -> bytes:
    file = io.BytesIO()
    photo.save(file, "png")
    return file.getvalue()


def test_a_class_is_taught_and_forgets(model, tmp_path):
    photo = small_photo(3)
    photo.save(tmp_path / "a.png")
    features = model.features([photo])
    before = model.scores(features, [OKAPI, POODLE])
    assert model.teach("okapi", photo) == 1
    after = model.scores(features, [OKAPI, POODLE])
    assert after[0, 0] > before[0, 0] and after[0, 1] == before[0, 1]
    # As a path, a folder, bytes or an open file; the same file is known again.
    assert model.teach(OKAPI, tmp_path / "a.png") == 2
    assert model.teach(OKAPI, [tmp_path, io.BytesIO((tmp_path / "a.png").read_bytes())]) == 2
    assert model.teach(OKAPI, [encoded(small_photo(4)), np.asarray(small_photo(5))]) == 4
    assert model.explain(OKAPI).photos == 4 and model.explain(POODLE).photos == 0
    model.forget("okapi")
    assert (model.scores(features, [OKAPI, POODLE]) == before).all()


def test_what_cannot_be_read_teaches_nothing(model):
    before = model.bundle
    for photos in ([], [small_photo(), b"no photo"], "nowhere.png"):
        with pytest.raises(UnseenError):
            model.teach(OKAPI, photos)
    with pytest.raises(UnseenError, match="neither an id nor a name"):
        model.teach("starship", small_photo())
    assert model.bundle is before


def test_after_stage_2_and_not_before_it(tmp_path):
    bundle, network = small_bundle("kin"), small_network()
    for number, id in enumerate(bundle.seen_ids):
        (tmp_path / id).mkdir()
        small_photo(number).save(tmp_path / id / "a.png")
    settings = FinetuneSettings(epochs=1, batch=6)
    tuned = finetune(bundle, network, tmp_path, settings, run=Run(workers=0, show_progress=False))
    model = Model(tuned, network)
    seen = tuned.seen_ids[0]
    head = tuned.head
    assert model.teach(OKAPI, small_photo(7)) == 1 and model.teach(seen, small_photo(8)) == 1
    assert (model.bundle.head[0] != head[0]).any() and (model.bundle.head[1:] == head[1:]).all()
    model.forget(seen)
    assert (model.bundle.head == head).all()
    with pytest.raises(UnseenError, match="finetune first"):
        finetune(model.bundle, model.network, tmp_path, settings)
