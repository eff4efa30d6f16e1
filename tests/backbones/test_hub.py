"""Optional packages and their hub: what is missing is told at once, and nothing else is said."""

from __future__ import annotations

import http.server
import socket
import sys
import threading
import time
import warnings

import pytest

from unseen.backbones.hub import answers, impatient_hub, import_extra
from unseen.errors import UnseenError


class Refusing(http.server.BaseHTTPRequestHandler):
    def do_HEAD(self):
        self.send_error(403)

    def log_message(self, *_):
        pass


def test_any_answer_counts():
    server = http.server.HTTPServer(("127.0.0.1", 0), Refusing)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    try:
        assert answers(f"http://127.0.0.1:{server.server_port}")
    finally:
        server.shutdown()
        server.server_close()


def test_no_answer_takes_no_time():
    with socket.socket() as silent:
        silent.bind(("127.0.0.1", 0))
        silent.listen()  # it accepts, and never says a word
        started = time.monotonic()
        assert not answers(f"http://127.0.0.1:{silent.getsockname()[1]}", patience=0.3)
        assert time.monotonic() - started < 3
    assert not answers("http://no-such-name.invalid", patience=1)
    assert not answers("nonsense", patience=1)


def test_a_silent_hub_is_not_asked_again(monkeypatch):
    constants = pytest.importorskip("huggingface_hub.constants")
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setattr("unseen.backbones.hub.answers", lambda address: False)
    with impatient_hub():
        assert constants.HF_HUB_OFFLINE
    assert not constants.HF_HUB_OFFLINE
    monkeypatch.setattr("unseen.backbones.hub.answers", lambda address: True)
    with impatient_hub():
        assert not constants.HF_HUB_OFFLINE


def test_torchvisions_warning_is_not_repeated(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    text = "import warnings\nwarnings.warn('{}')\n"
    (tmp_path / "like_torchvision.py").write_text(text.format("Failed to load image Python extension: x"))
    (tmp_path / "like_another.py").write_text(text.format("something else"))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert import_extra("like_torchvision", "x", "it") is sys.modules["like_torchvision"]
        with pytest.raises(UserWarning, match="something else"):
            import_extra("like_another", "x", "it")


def test_what_is_missing_is_named(tmp_path, monkeypatch):
    monkeypatch.syspath_prepend(str(tmp_path))
    (tmp_path / "half_there.py").write_text("import not_there_at_all\n")
    with pytest.raises(UnseenError, match=r"it needs not_here. Run: pip install 'unseen\[x\]'"):
        import_extra("not_here", "x", "it")
    with pytest.raises(UnseenError, match=r"it needs half_there \(No module named 'not_there_at_all'\)"):
        import_extra("half_there", "x", "it")
