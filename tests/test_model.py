"""Photos in, labels out."""

from __future__ import annotations

import io
import pickle

import numpy as np
import pytest
import torch
from PIL import Image
from scipy.sparse import csr_array

import unseen
from support.bundles import DOG, GIRAFFE, OKAPI, SEEN, ZEBRA, small_bundle, small_network, small_photo
from unseen.answers.answer import Answer, Unreadable
from unseen.answers.probability import Verdict
from unseen.bundle import add
from unseen.model import Model
from unseen.util.errors import UnseenError


@pytest.fixture(scope="module")
def model() -> Model:
    return Model(small_bundle("kin"), small_network(), device="cpu")


def as_bytes(photo: Image.Image) -> bytes:
    file = io.BytesIO()
    photo.save(file, "PNG")
    return file.getvalue()


def test_features_need_neither_photo_nor_network(model):
    alone = Model(model.bundle, device="cpu")  # a network in memory: it could not be loaded
    features = model.features([small_photo(0), small_photo(1)])
    assert alone.answers(features, k=3) == list(model.stream([small_photo(0), small_photo(1)], k=3))
    assert len(alone.answers(features[0].tolist())) == 1
    with pytest.raises(UnseenError, match="rows of 3 features, but the bundle is for 8"):
        alone.answers(np.zeros((2, 3)))


def test_what_was_added_are_own_candidates():
    bundle = add(small_bundle("structural"), [unseen.Node("labradoodle", "labradoodle", [DOG])])
    grown = Model(bundle, small_network(), device="cpu")
    assert [label.id for label in grown.classify(small_photo(), candidates="own")] == ["labradoodle"]
    both = {label.id for label in grown.classify(small_photo(), k=20, candidates="own+seen")}
    assert both == {"labradoodle", *SEEN}


def test_labels_are_the_best_scores(model):
    labels = model.classify(small_photo(), k=7, prior="uniform")
    features = model.features([small_photo()])
    scores = np.append(features[0], 1) @ model.bundle.solution.classifiers.T
    scores[~model.bundle.is_class] = -np.inf
    best = np.argsort(-scores, kind="stable")[:7]
    assert [label.id for label in labels] == [model.bundle.ids[row] for row in best]
    assert [label.score for label in labels] == pytest.approx(scores[best].tolist(), abs=1e-5)
    for label in labels:
        assert label.seen == (label.id in SEEN) and label.path[-1] == label.name == model.bundle.hierarchy.name(
            label.id
        )
        assert label.trust is None if label.seen else 0 <= label.trust <= 1
    assert labels[0].to_dict()["id"] == labels[0].id


def test_a_photo_may_come_in_any_form(model, tmp_path):
    photo = small_photo()
    photo.save(tmp_path / "p.png")
    expected = model.classify(photo)
    for form in (tmp_path / "p.png", str(tmp_path / "p.png"), as_bytes(photo), np.asarray(photo)):
        assert model.classify(form) == expected
    several = list(model.stream([photo, as_bytes(small_photo(1))]))
    assert len(several) == 2 and [label.id for label in several[0]] == [label.id for label in expected]
    assert list(model.stream([])) == []


def test_features_do_not_depend_on_other_photos(model):
    photos = [small_photo(seed) for seed in range(5)]
    assert np.array_equal(model.features(photos)[3:], model.features(photos[3:]))


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


def test_classes_without_an_answer_never_come(model):
    alone = Model(small_bundle("network"), small_network(), device="cpu")
    features = alone.features([small_photo()])
    assert {label.id for label in alone.answers(features, 99)[0]} == set(SEEN)
    assert alone.answers(features, 3, "unseen") == [Answer((), Verdict.unknown(31))]
    assert np.isneginf(alone.scores(features, "unseen")).all()
    logits = alone.scores(features, "seen")[0]
    own = np.append(features[0], 1) @ small_network().classifiers().T
    order = [list(SEEN).index(alone.bundle.ids[row]) for row in alone.candidates("seen")]
    assert logits == pytest.approx(own[order], abs=1e-5)


def test_an_unreadable_photo_does_not_lose_the_list(model, tmp_path):
    path = tmp_path / "p.jpg"
    path.write_text("no photo")
    first, second = small_photo(), small_photo(1)
    found = list(model.stream([path, first, b"", as_bytes(second), 7]))
    wrong = found[0]
    assert (
        wrong.photo == str(path)
        and wrong.why.startswith("is not a picture")
        and found[0].to_dict() == {"photo": wrong.photo, "why": wrong.why}
    )
    for photo, answer in ((first, found[1]), (second, found[3])):
        assert [label.id for label in answer] == [label.id for label in model.classify(photo)]
    assert found[2] == Unreadable("the photo", "is empty (0 bytes).")
    assert isinstance(found[4], Unreadable) and "not int" in found[4].why
    assert list(model.stream([path])) == [wrong]
    many = [path if place % 3 == 0 else first for place in range(70)]  # several batches
    assert [isinstance(answer, Unreadable) for answer in model.stream(many, k=1)] == [p is path for p in many]


def test_an_answer_is_its_labels(model):
    answer = model.classify(small_photo(), k=3)
    assert isinstance(answer, Answer) and len(answer) == 3 and list(answer) == list(answer.labels)
    assert answer[0] == answer.labels[0] and answer[-1] in answer and answer[:2] == answer.labels[:2]
    told = answer.to_dict()
    assert told["labels"] == [label.to_dict() for label in answer] and told["verdict"] == answer.verdict.to_dict()
    assert not Answer((), Verdict.unknown(3))


def test_a_wrong_name_is_told_before_photos_are_read(model):
    with pytest.raises(UnseenError, match="no candidates named 'some'"):
        model.classify("none.jpg", candidates="some")


def test_another_network_is_refused():
    with pytest.raises(UnseenError, match="made for other weights"):
        Model(small_bundle("kin"), small_network(seed=1))


def test_saved_and_loaded_it_answers_the_same(model, tmp_path):
    again = unseen.load(model.save(tmp_path / "b"), network=small_network(), device="cpu")
    assert again.classify(small_photo()) == model.classify(small_photo())
    assert again.explain(OKAPI) == model.explain(OKAPI)


def test_growth_is_seen_at_once(model):
    grown = Model(model.bundle, small_network(), device="cpu")
    before = grown.classify(small_photo(), 99, prior="uniform")
    assert grown.add("forest giraffe|o'api", parents=GIRAFFE, definition="it is shy", id="fg") == "fg"
    after = grown.classify(small_photo(), 99, prior="uniform")
    assert {label.id for label in after} - {label.id for label in before} == {"fg"}
    assert [(label.id, label.score) for label in after if label.id != "fg"] == [
        (label.id, label.score) for label in before
    ]
    assert grown.bundle.hierarchy.lemmas[-1] == ("forest giraffe", "o'api") and ZEBRA in grown.bundle.ids


def test_probabilities_of_all_classes(model):
    photos = [small_photo(0), small_photo(1)]
    probabilities = model.predict_proba(photos)
    assert probabilities.shape == (2, len(model)) and len(model.classes) == len(model)
    np.testing.assert_allclose(probabilities.sum(axis=1), 1, rtol=1e-5)
    assert np.array_equal(model.predict_proba(features=model.features(photos)), probabilities)
    answer = model.classify(photos[0], k=1)
    assert model.classes[int(probabilities[0].argmax())] == answer[0].id
    assert answer.probability(answer[0].id) >= answer[0].probability


def test_a_model_and_its_answers_can_be_pickled_after_use(model):
    answer = model.classify(small_photo())
    again = pickle.loads(pickle.dumps(model))
    assert again.classify(small_photo()) == answer and len(pickle.dumps(answer)) < 20_000
    assert pickle.loads(pickle.dumps(answer)).nodes.items() == answer.nodes.items()


def test_it_says_what_it_is(model):
    assert repr(model) == "Model: kin, 37 classes (6 seen), module/TinyNetwork, not calibrated"


def test_a_list_of_names_is_several_classes(model):
    grown = Model(model.bundle, small_network(), device="cpu")
    assert grown.add(["kakapo", "kea|alpine parrot", unseen.Node("x", "kiwi", DOG)], parents=GIRAFFE) == [
        "kakapo",
        "kea",
        "x",
    ]
    hierarchy = grown.bundle.hierarchy
    assert list(hierarchy.lemmas[-3:]) == [("kakapo",), ("kea", "alpine parrot"), ("kiwi",)]
    assert hierarchy.parents("kea") == [GIRAFFE] and hierarchy.parents("x") == [DOG]
    with pytest.raises(UnseenError, match="are for one class"):
        grown.add(["a", "b"], parents=GIRAFFE, definition="c")  # pyright: ignore
    with pytest.raises(UnseenError, match="needs a name"):
        grown.add(["a", " | "], parents=GIRAFFE)
    with pytest.raises(UnseenError, match="no class to add"):
        grown.add([], parents=GIRAFFE)


def test_columns_are_in_the_order_asked_for(model):
    photos = [small_photo(0), small_photo(1)]
    features, order = model.features(photos), [ZEBRA, OKAPI, DOG]
    for ids in (order, order[::-1], [OKAPI, ZEBRA, DOG]):
        p, s = model.predict_proba(photos, candidates=ids), model.scores(features, candidates=ids)
        for column, id in enumerate(ids):
            at = model.classes.index(id)
            assert np.allclose(s[:, column], model.scores(features)[:, at], atol=1e-5)
            assert p[0, column] == pytest.approx(
                model.predict_proba(features=features, candidates=order)[0, order.index(id)], abs=1e-6
            )
    assert np.array_equal(model.scores(features[0]), model.scores(features[:1]))
    expected = model.predict_proba(features=features, candidates=order)
    tensors = [torch.from_numpy(features), torch.from_numpy(features).double().requires_grad_()]
    for form in (*tensors, features.tolist(), csr_array(features), features.astype(np.float64)):
        assert np.allclose(model.predict_proba(features=form, candidates=order), expected)
    frame = pytest.importorskip("pandas").DataFrame(features)
    assert np.allclose(model.predict_proba(features=frame, candidates=order), expected)


def test_matrices_that_are_not_meant_are_refused(model):
    with pytest.raises(UnseenError, match="rows of 5 features, but the bundle is for 8"):
        model.predict_proba(features=np.full((7, 5), 0.5))
    for ask in (model.predict_proba, model.features, lambda x: list(model.stream(x))):
        with pytest.raises(UnseenError, match="rows of features, not photos"):  # nor a grey photo
            ask(np.full((2, 8), 0.5, np.float32))
    x = model.features(small_photo())
    with pytest.raises(UnseenError, match="both given"):
        model.teach(OKAPI, small_photo(), features=x)
    for wrong in ("photos", [DOG]), [x, [DOG]]:
        with pytest.raises(UnseenError, match=r"or \(x, y\)"):
            model.evaluate(wrong)
    with pytest.raises(UnseenError, match=r"a name or an unseen\.Node, not dict"):
        model.add([{"id": "x"}], parents=DOG)  # pyright: ignore


def test_several_photos_may_come_in_any_form(model, tmp_path):
    photos = [small_photo(seed) for seed in range(40)]
    expected = [answer[0].id for answer in model.stream(photos)]
    for seed, photo in enumerate(photos):
        photo.save(tmp_path / f"{seed:02d}.png")
    (tmp_path / "list.txt").write_text("".join(f"{tmp_path}/{seed:02d}.png\n" for seed in range(40)))
    array = np.stack([np.asarray(photo) for photo in photos])
    forms = (
        (photo for photo in photos),
        dict(enumerate(photos)).values(),
        array,
        torch.from_numpy(array).permute(0, 3, 1, 2),
        np.array([str(tmp_path / f"{seed:02d}.png") for seed in range(40)]),
        str(tmp_path / "*.png"),
        tmp_path / "list.txt",
    )
    for form in forms:
        assert [answer[0].id for answer in model.stream(form)] == expected, type(form)
    features = model.features(photos)
    for form in (array, str(tmp_path / "*.png"), tmp_path / "list.txt"):
        assert [answer[0].id for answer in model.stream(form)] == expected
        assert np.allclose(model.features(form), features, atol=1e-6)
    assert len(model.look_at(str(tmp_path / "00.png"))) == 1
    (tmp_path / "list.txt").unlink()
    assert [answer[0].id for answer in model.stream(tmp_path)] == expected
    assert model.predict_proba(photo for photo in photos).shape == (40, len(model))
    served = model.stream(iter(photos[:1] * 1000))  # endless ones too: only a few batches are under way
    assert next(served)[0].id == expected[0]


def test_rows_and_their_classes(model):
    photos = [small_photo(seed) for seed in range(4)]
    x, y = model.features(photos), [OKAPI, OKAPI, DOG, "giraffe"]
    result = model.evaluate((x, y), [OKAPI, DOG, GIRAFFE], ks=[1, 3])
    assert result.images == 4 and result.image["hit@3"] == 100.0
    best = model.scores(x, candidates=[OKAPI, DOG, GIRAFFE]).argmax(1)
    assert result.image["hit@1"] == 100 * np.mean(best == [0, 0, 1, 2])
    assert model.evaluate((photos, y), [OKAPI, DOG, GIRAFFE], ks=[1, 3]).image == result.image
    taught, other = (Model(model.bundle, small_network(), device="cpu") for _ in range(2))
    assert taught.teach(OKAPI, features=x[:2]) == 2 == other.teach(OKAPI, photos[:2])
    assert np.allclose(taught.scores(x), other.scores(x))
    with pytest.raises(UnseenError, match="no photos were given"):
        taught.teach(OKAPI)


def test_one_photo_or_several(model, tmp_path):
    small_photo().save(tmp_path / "one.png")
    for several in ([small_photo()], tmp_path, str(tmp_path / "*.png")):
        with pytest.raises(UnseenError, match="use stream"):
            model.classify(several)
