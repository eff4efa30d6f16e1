"""Class names -> class vectors: built-in GloVe and sentence encodings, files of word vectors, any callable."""

from unseen.semantics.sources import CallableVectors, Semantics, WordVectors
from unseen.semantics.text_encoder import TextEncodings
from unseen.semantics.vectors import ClassVectors, Coverage, class_vectors, load_vectors, semantics_from_provenance

__all__ = [
    "CallableVectors",
    "ClassVectors",
    "Coverage",
    "Semantics",
    "TextEncodings",
    "WordVectors",
    "class_vectors",
    "load_vectors",
    "semantics_from_provenance",
]
