"""Methods by name: where they are found, in which order, and what a name may not be."""

from __future__ import annotations

import pytest

from support.own_methods import forget
from unseen.methods import Method, get_method, method_names, register
from unseen.util.errors import UnseenError


class Lazy(Method):
    def fit(self, problem, run):
        raise NotImplementedError

    def predict(self, problem, state, rows=None):
        raise NotImplementedError


def test_a_registered_method_is_listed_last_and_found_by_both_of_its_names():
    before = method_names()
    assert register("lazy")(Lazy) is Lazy
    assert method_names() == [*before, "lazy"]
    assert get_method("lazy") is get_method(f"{__name__}:Lazy") is Lazy
    forget(__name__)
    assert method_names() == before


def test_the_name_of_a_built_in_method_is_taken():
    with pytest.raises(UnseenError, match="kin is a built-in method: register Lazy under another name"):
        register("kin")(Lazy)
    assert get_method("kin").__name__ == "Kin"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("knn", "no method named 'knn'. Did you mean 'kin'"),
        ("json:dumps", "json:dumps is not a method: it must be a class derived from unseen.Method"),
        ("json:nothing", "json:nothing: module 'json' has no attribute 'nothing'"),
        ("no_such_module:Nearest", "there is no Python module 'no_such_module' here"),
    ],
)
def test_a_wrong_name_is_reported(name, words):
    with pytest.raises(UnseenError, match=words):
        get_method(name)
