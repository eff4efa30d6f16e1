"""A quick start switches the collector off, and only for its time."""

from __future__ import annotations

import gc

from unseen.util.devices import quick_start


def test_the_collector_rests_meanwhile_and_works_again():
    with quick_start():
        assert not gc.isenabled()
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
