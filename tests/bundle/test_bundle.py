"""What a bundle knows of its network, its settings and its classes."""

from __future__ import annotations

from dataclasses import replace

import pytest

from support.bundles import DOG, OKAPI, SEEN, TABBY, small_hierarchy, small_network
from unseen.util.errors import UnseenError


def test_settings_of_another_version_are_reported(bundle):
    with pytest.raises(UnseenError, match="this bundle was made by another version of kin: kin has no setting 'old'"):
        replace(bundle, settings={"old": 1}, path=None).make_method()


# -- the network ---------------------------------------------------------------------------------------------------


def test_another_network_is_refused(bundle):
    bundle.check_network(small_network())
    with pytest.raises(UnseenError, match="made for other weights of module/TinyNetwork"):
        bundle.check_network(small_network(seed=1))
    with pytest.raises(UnseenError, match="disagree on the seen classes or their order"):
        bundle.check_network(small_network(SEEN[::-1]))


# -- what a photo may be called ------------------------------------------------------------------------------------


def test_nodes_outside_imagenet_only_connect(bundle):
    classes = {i for i, is_class in zip(bundle.ids, bundle.is_class, strict=True) if is_class}
    assert "n00001740" in bundle.hierarchy and "n00001740" not in classes  # entity
    assert {*SEEN, OKAPI, DOG} <= classes


def test_what_the_user_named_is_a_class(bundle):
    entity = bundle.hierarchy.index("n00001740")
    assert replace(bundle, added=["n00001740"]).is_class[entity]
    hierarchy = small_hierarchy()
    hierarchy.source = {"kind": "imagenet", "named": ["n00001740", "n99999999"]}
    assert replace(bundle, hierarchy=hierarchy).is_class[entity]


def test_all_of_an_own_hierarchy_are_classes(bundle):
    hierarchy = small_hierarchy()
    hierarchy.source = {"kind": "csv"}
    own = replace(bundle, hierarchy=hierarchy)
    assert own.is_class.all()
    own = replace(own, connecting=[DOG, TABBY])
    assert not own.is_class[hierarchy.index(DOG)]
    assert own.is_class[hierarchy.index(TABBY)]  # it is seen
