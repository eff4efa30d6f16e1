"""Teach an image classifier classes it was never shown, from the class hierarchy and the class names alone.

    import unseen
    model = unseen.load()                 # the default bundle: 21,842 ImageNet classes, 1,000 of them seen
    model.classify("photo.jpg", k=5)

Everything below is imported on first use, so that `import unseen` stays cheap: torch comes only when it is needed.
"""

from __future__ import annotations

from importlib import import_module

__version__ = "0.1.0"

_HOME = {
    "UnseenError": "unseen.errors",
    "Taxonomy": "unseen.taxonomy",
    "WordVectors": "unseen.semantics",
    "load_vectors": "unseen.semantics",
    "load_backbone": "unseen.backbones",
    "from_module": "unseen.backbones",
    "PhotoTransform": "unseen.backbones",
    "Bundle": "unseen.bundle",
    "train": "unseen.pipeline",
    "load": "unseen.classifier",
    "ZeroShotClassifier": "unseen.classifier",
}
__all__ = ["__version__", *_HOME]


def __getattr__(name: str):
    if name in _HOME:
        return getattr(import_module(_HOME[name]), name)
    if name in ("backbones", "export"):
        return import_module(f"unseen.{name}")
    raise AttributeError(f"module 'unseen' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)
