"""The classifier in scikit-learn's manner, by scikit-learn's own checks."""

from __future__ import annotations

import numpy as np
import pytest

sklearn = pytest.importorskip("sklearn", minversion="1.6")

from sklearn.linear_model import LogisticRegression  # noqa: E402
from sklearn.model_selection import GridSearchCV, cross_val_score  # noqa: E402
from sklearn.pipeline import make_pipeline  # noqa: E402
from sklearn.preprocessing import StandardScaler  # noqa: E402
from sklearn.utils.estimator_checks import check_estimator  # noqa: E402

from unseen import UnseenError  # noqa: E402
from unseen.apps.sklearn import ZeroShotClassifier  # noqa: E402

PAIRS = [("violin", "string"), ("cello", "string"), ("viola", "string"), ("trumpet", "brass"), ("tuba", "brass")]
PAIRS += [("trombone", "brass"), ("string", "instrument"), ("brass", "instrument")]
CENTRES = {"violin": (4, 0, 0), "cello": (3, 1, 0), "trumpet": (0, 4, 0), "tuba": (0, 3, 1)}


@pytest.fixture(scope="module")
def data() -> tuple[np.ndarray, np.ndarray]:
    rng = np.random.default_rng(0)
    x = np.concatenate([rng.normal(centre, 0.5, (40, 3)) for centre in CENTRES.values()])
    return x, np.repeat(list(CENTRES), 40)


def test_scikit_learns_own_checks():
    check_estimator(ZeroShotClassifier())


def test_classes_that_y_never_shows(data):
    x, y = data
    classifier = ZeroShotClassifier(PAIRS, vectors="glove").fit(x, y)
    assert classifier.classes_.tolist() == ["cello", "trumpet", "tuba", "violin", "viola", "trombone"]
    p = classifier.predict_proba(x)
    assert p.shape == (160, 6) and np.allclose(p.sum(1), 1, atol=1e-5)
    regression = LogisticRegression(max_iter=1000).fit(x, y)
    given_seen = p[:, :4] / p[:, :4].sum(1, keepdims=True)
    assert np.allclose(given_seen, regression.predict_proba(x), atol=1e-5)
    best = p[:, 4:].argmax(axis=1)  # among the classes that y never shows
    right = np.isin(y, ["violin", "cello"]) == (classifier.classes_[4:][best] == "viola")
    assert right.mean() > 0.9  # what the hierarchy and the names say of them
    only = ZeroShotClassifier(PAIRS, candidates=["viola"], vectors="glove").fit(x, y)
    assert only.classes_.tolist()[4:] == ["viola"]


def test_in_a_pipeline_and_a_search(data):
    x, y = data
    pipeline = make_pipeline(StandardScaler(), ZeroShotClassifier(PAIRS, vectors="glove"))
    search = GridSearchCV(pipeline, {"zeroshotclassifier__C": [1e-9, 1.0]}, cv=2).fit(x, y)
    assert search.best_params_ == {"zeroshotclassifier__C": 1.0}
    assert cross_val_score(pipeline, x, y, cv=2).mean() > 0.5


def test_what_is_no_hierarchy(data):
    with pytest.raises(UnseenError, match="child, parent"):
        ZeroShotClassifier(7).fit(*data)
