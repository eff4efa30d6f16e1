"""Class names -> class vectors: built-in GloVe and sentence encodings, files of word vectors, any callable."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
