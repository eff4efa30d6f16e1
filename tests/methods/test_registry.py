"""Methods by name: where they are found, in which order, and what a name may not be."""

from __future__ import annotations

import subprocess
import sys

import pytest

from support.own_methods import forget
from unseen.errors import UnseenError
from unseen.methods import Method, get_method, method_names, register
from unseen.methods.graph.method import GraphMethod


class Lazy(Method):
    def fit(self, problem, run):
        raise NotImplementedError

    def predict(self, problem, state, rows=None):
        raise NotImplementedError


def test_all_methods_are_found_graph_networks_first_then_kin_then_baselines():
    names = method_names()
    kinds = [get_method(name) for name in names]
    assert [kind.name for kind in kinds] == names
    assert len(names) == 14 and names.index("kin") == 4
    assert [issubclass(kind, GraphMethod) for kind in kinds] == [True] * 4 + [False] * 10


def test_the_names_are_known_without_torch():
    code = "import sys; from unseen.methods import method_names; method_names(); sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0


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


def test_who_learns_from_photos():
    needed = {name for name in method_names() if get_method(name).needs_features}
    assert needed == {"devise", "eszsl", "exem", "gaussian-ort", "se-gzsl"}
    assert {name for name in method_names() if get_method(name).takes_features} == needed | {"sync"}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("knn", "no method named 'knn'. Did you mean 'kin'"),
        ("json:dumps", "json:dumps is not a method: it must be a class derived from unseen.Method"),
        ("json:nothing", "json:nothing: module 'json' has no attribute 'nothing'"),
        ("no_such_module:Nearest", "there is no Python module 'no_such_module' here"),
    ],
)
def test_a_wrong_name_is_told(name, words):
    with pytest.raises(UnseenError, match=words):
        get_method(name)
