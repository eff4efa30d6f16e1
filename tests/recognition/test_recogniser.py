"""Photos in, labels out."""

from __future__ import annotations

import io

import numpy as np
import pytest
from PIL import Image

import unseen
from support.bundles import DOG, GIRAFFE, OKAPI, SEEN, ZEBRA, small_backbone, small_bundle, small_photo
from unseen.classifier import ZeroShotClassifier
from unseen.errors import UnseenError
from unseen.probability import Verdict
from unseen.recognition import Answer, Unreadable


@pytest.fixture(scope="module")
def model() -> ZeroShotClassifier:
    return ZeroShotClassifier(small_bundle("kin"), small_backbone(), device="cpu")


def as_bytes(photo: Image.Image) -> bytes:
    file = io.BytesIO()
    photo.save(file, "PNG")
    return file.getvalue()


def test_features_need_neither_photo_nor_network(model):
    alone = ZeroShotClassifier(model.bundle, device="cpu")  # a network in memory: it could not be loaded
    features = model.features([small_photo(0), small_photo(1)])
    assert alone.classify_features(features, k=3) == model.classify([small_photo(0), small_photo(1)], k=3)
    assert len(alone.classify_features(features[0].tolist())) == 1
    with pytest.raises(UnseenError, match="rows of 3 features, but the bundle is for 8"):
        alone.classify_features(np.zeros((2, 3)))


def test_what_was_added_are_own_candidates():
    bundle = unseen.add(small_bundle("structural"), [unseen.Node("labradoodle", "labradoodle", [DOG])])
    grown = ZeroShotClassifier(bundle, small_backbone(), device="cpu")
    assert [label.id for label in grown.classify(small_photo(), candidates="own")] == ["labradoodle"]
    both = {label.id for label in grown.classify(small_photo(), k=20, candidates="own+seen")}
    assert both == {"labradoodle", *SEEN}


def test_labels_are_the_best_scores(model):
    labels = model.classify(small_photo(), k=7)
    features = model.features([small_photo()])
    scores = np.append(features[0], 1) @ model.bundle.solution.classifiers.T
    scores[~model.bundle.is_class] = -np.inf
    best = np.argsort(-scores, kind="stable")[:7]
    assert [label.id for label in labels] == [model.bundle.ids[row] for row in best]
    assert [label.score for label in labels] == pytest.approx(scores[best].tolist(), abs=1e-5)
    for label in labels:
        assert label.seen == (label.id in SEEN) and label.path[-1] == label.name == model.bundle.taxonomy.name(label.id)
        assert label.trust is None if label.seen else 0 <= label.trust <= 1
    assert labels[0].as_dict()["id"] == labels[0].id


def test_a_photo_may_come_in_any_form(model, tmp_path):
    photo = small_photo()
    photo.save(tmp_path / "p.png")
    expected = model.classify(photo)
    for form in (tmp_path / "p.png", str(tmp_path / "p.png"), as_bytes(photo), np.asarray(photo)):
        assert model.classify(form) == expected
    several = model.classify([photo, as_bytes(small_photo(1))])
    assert len(several) == 2 and [label.id for label in several[0]] == [label.id for label in expected]
    assert model.classify([]) == []


def test_answers_do_not_depend_on_the_batch(model):
    photos = [small_photo(seed) for seed in range(5)]
    assert np.allclose(model.features(photos, batch=2), model.features(photos), atol=1e-6)


def test_candidates_limit_the_answers(model):
    assert {label.id for label in model.classify(small_photo(), 99, "seen")} == set(SEEN)
    assert not any(label.seen for label in model.classify(small_photo(), 99, "unseen"))
    assert [label.id for label in model.classify(small_photo(), 9, [DOG, OKAPI])] in ([DOG, OKAPI], [OKAPI, DOG])
    below = {label.id for label in model.classify(small_photo(), 99, "subtree:giraffe")}
    assert below == {GIRAFFE, OKAPI}  # WordNet has the okapi among the giraffes
    with pytest.raises(UnseenError, match="k must be"):
        model.classify(small_photo(), 0)
    with pytest.raises(UnseenError, match="no candidates named 'some'"):
        model.classify(small_photo(), candidates="some")


def test_a_shift_takes_seen_classes_down(model):
    features = model.features([small_photo()])
    plain, shifted = model.scores(features), model.scores(features, seen_shift=2.5)
    seen = model.bundle.is_seen[model.candidates("any")]
    assert np.allclose(plain[:, seen] - 2.5, shifted[:, seen], atol=1e-5)
    assert np.array_equal(plain[:, ~seen], shifted[:, ~seen])
    assert not any(label.seen for label in model.answers(features, 3, seen_shift=1e6)[0])
    assert np.array_equal(model.scores(features), plain)  # nothing of the shift is kept


def test_classes_without_an_answer_never_come(model):
    alone = ZeroShotClassifier(small_bundle("network"), small_backbone(), device="cpu")
    features = alone.features([small_photo()])
    assert {label.id for label in alone.answers(features, 99)[0]} == set(SEEN)
    assert alone.answers(features, 3, "unseen") == [Answer((), Verdict.unknown(31))]
    assert np.isneginf(alone.scores(features, "unseen")).all()
    logits = alone.scores(features, "seen")[0]
    own = np.append(features[0], 1) @ small_backbone().classifiers().T
    order = [list(SEEN).index(alone.bundle.ids[row]) for row in alone.candidates("seen")]
    assert logits == pytest.approx(own[order], abs=1e-5)


def test_an_unreadable_photo_is_told(model, tmp_path):
    (tmp_path / "p.jpg").write_text("no photo")
    with pytest.raises(UnseenError, match=r"p\.jpg: is not a picture"):
        model.classify(tmp_path / "p.jpg")
    with pytest.raises(UnseenError, match=r"p\.jpg: is not a picture"):
        model.features([small_photo(), tmp_path / "p.jpg"])


def test_an_unreadable_photo_does_not_lose_the_list(model, tmp_path):
    path = tmp_path / "p.jpg"
    path.write_text("no photo")
    wrong = Unreadable(str(path), "is not a picture in any format that Pillow reads.")
    first, second = small_photo(), small_photo(1)
    found = model.classify([path, first, b"", as_bytes(second), 7])
    assert found[0] == wrong and found[0].as_dict() == {"photo": wrong.photo, "why": wrong.why}
    for photo, answer in ((first, found[1]), (second, found[3])):
        assert [label.id for label in answer] == [label.id for label in model.classify(photo)]
    assert found[2] == Unreadable("the photo", "is empty (0 bytes).")
    assert isinstance(found[4], Unreadable) and "not int" in found[4].why
    assert model.classify([path]) == [wrong]
    many = [path if place % 3 == 0 else first for place in range(70)]  # several batches
    assert [isinstance(answer, Unreadable) for answer in model.classify(many, k=1)] == [p is path for p in many]


def test_an_answer_is_its_labels(model):
    answer = model.classify(small_photo(), k=3)
    assert isinstance(answer, Answer) and len(answer) == 3 and list(answer) == list(answer.labels)
    assert answer[0] == answer.labels[0] and answer[-1] in answer and answer[:2] == answer.labels[:2]
    told = answer.as_dict()
    assert told["labels"] == [label.as_dict() for label in answer] and told["verdict"] == answer.verdict.as_dict()
    assert not Answer((), Verdict.unknown(3))


def test_photos_are_decoded_once(model, tmp_path, monkeypatch):
    small_photo().save(tmp_path / "p.png")
    opened = []
    plain = Image.open
    monkeypatch.setattr(Image, "open", lambda file, **options: opened.append(file) or plain(file, **options))
    found = model.look_at([tmp_path / "p.png"])
    assert model.answers(found.matrix) and model.answers(found.matrix, candidates="unseen")
    assert len(opened) == 1


def test_a_wrong_name_is_told_before_photos_are_read(model):
    with pytest.raises(UnseenError, match="no candidates named 'some'"):
        model.classify("none.jpg", candidates="some")


def test_another_network_is_refused():
    with pytest.raises(UnseenError, match="made for other weights"):
        ZeroShotClassifier(small_bundle("kin"), small_backbone(seed=1))


def test_saved_and_loaded_it_answers_the_same(model, tmp_path):
    again = unseen.load(model.save(tmp_path / "b"), backbone=small_backbone(), device="cpu")
    assert again.classify(small_photo()) == model.classify(small_photo())
    assert again.explain(OKAPI) == model.explain(OKAPI)


def test_a_wrong_device_is_told():
    model = ZeroShotClassifier(small_bundle("kin"), small_backbone(), device="tpu9")
    with pytest.raises(UnseenError, match="the device 'tpu9' cannot be used here"):
        model.classify(small_photo())


def test_growth_is_seen_at_once(model):
    grown = ZeroShotClassifier(model.bundle, small_backbone(), device="cpu")
    before = grown.classify(small_photo(), 99)
    grown.add(["forest giraffe", "o'api"], parents=GIRAFFE, definition="it is shy", id="fg")
    after = grown.classify(small_photo(), 99)
    assert {label.id for label in after} - {label.id for label in before} == {"fg"}
    assert [(label.id, label.score) for label in after if label.id != "fg"] == [
        (label.id, label.score) for label in before
    ]
    assert grown.bundle.taxonomy.lemmas[-1] == ("forest giraffe", "o'api") and ZEBRA in grown.bundle.ids
