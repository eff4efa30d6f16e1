"""JSON with a checksum: whatever is changed shows."""

from __future__ import annotations

import json

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from unseen.errors import UnseenError
from unseen.runtime.seals import is_sealed, read_sealed, sealed

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
FACTS = {"format": 1, "classes": {"dog": [3, 0], "caf\u00e9": [1, 2]}}


@settings(deadline=None)
@given(st.dictionaries(st.text().filter(lambda key: key != "checksum"), JSON, max_size=4))
def test_what_was_written_is_found_whole(facts):
    assert is_sealed(json.loads(json.dumps(sealed(facts))), ())


def test_every_changed_bit_is_told_with_the_name_of_the_file(tmp_path):
    path, whole = tmp_path / "facts.json", json.dumps(sealed(FACTS)).encode()
    path.write_bytes(whole)
    assert read_sealed(path, FACTS, "Make it again.") == FACTS
    for place in range(8 * len(whole)):
        changed = bytearray(whole)
        changed[place // 8] ^= 1 << place % 8
        path.write_bytes(changed)
        try:
            found = read_sealed(path, FACTS, "Make it again.")
        except UnseenError as error:
            assert str(error) == f"{path}: is damaged. Make it again."
        else:
            assert found == FACTS, place  # a blank between two fields became another one


def test_facts_without_a_checksum_are_those_of_before(tmp_path):
    path = tmp_path / "facts.json"
    path.write_text(json.dumps(FACTS))
    assert read_sealed(path, ("format", "classes"), "") == FACTS
    with pytest.raises(UnseenError, match=r"facts.json: is damaged\. Run it again\."):
        read_sealed(path, ("format",), "Run it again.")


@pytest.mark.parametrize("content", [b"", b"[]", b"7", b"\xff", b"[" * 100_000, b'{"a": ' * 50_000])
def test_what_is_no_object_is_damage(tmp_path, content):
    path = tmp_path / "facts.json"
    path.write_bytes(content)
    with pytest.raises(UnseenError, match="is damaged"):
        read_sealed(path, (), "")


def test_what_cannot_be_opened_is_not_told_as_damage(tmp_path):
    with pytest.raises(UnseenError, match=r"absent.json: cannot be read \(No such file or directory\)"):
        read_sealed(tmp_path / "absent.json", (), "")
