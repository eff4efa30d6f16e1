"""A quick start switches the collector off, and only for its time."""

from __future__ import annotations

import gc

import pytest

from unseen.runtime.starts import quick_start


def test_the_collector_rests_meanwhile_and_works_again():
    with quick_start():
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.unfreeze()


def test_after_an_error_too():
    with pytest.raises(ValueError), quick_start():
        raise ValueError
    assert gc.isenabled()
    gc.unfreeze()


def test_who_had_it_switched_off_keeps_it_so():
    gc.disable()
    try:
        with quick_start():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
        gc.unfreeze()
