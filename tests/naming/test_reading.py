"""Lists of ids and names in files, and between commas."""

from __future__ import annotations

import pytest

from unseen.naming.reading import read_ids, read_list
from unseen.util.errors import UnseenError


@pytest.mark.parametrize(
    ("name", "content", "says"),
    [
        ("a.txt", b"\xff\xfe", "this is UTF-16 text. Save it as UTF-8"),
        ("a.txt", b"\n \n", "the file is empty"),
        ("a.txt", b" ,\t\n", "holds no ids"),
        ("a.json", b"{", "not valid JSON"),
        ("a.json", b"{}", "must hold a JSON list of ids"),
        ("a.json", b"[1]", "must hold a JSON list of ids"),
        ("a.json", b"[]", "holds no ids"),
    ],
)
def test_files_with_mistakes(tmp_path, name, content, says):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(UnseenError, match=says):
        read_ids(tmp_path / name)


def test_a_list_is_read_from_commas_lines_and_tables(tmp_path):
    assert read_list("okapi, cup holder ,,quokka") == ["okapi", "cup holder", "quokka"]
    file = tmp_path / "list.txt"
    file.write_text("okapi\ncup holder\nwheelie bin\ttall green bin on two wheels\n")
    assert read_list(str(file)) == ["okapi", "cup holder", ("wheelie bin", "tall green bin on two wheels")]
    table = tmp_path / "list.csv"
    table.write_text('name,looks\nokapi,\nbin,"tall, green"\n')
    assert read_list(str(table)) == ["okapi", ("bin", "tall, green")]
    table.write_text("name\npan, frying\n")
    assert read_list(str(table)) == ["pan, frying"]
    with pytest.raises(UnseenError, match=r"no file mine.txt"):
        read_list("mine.txt")
