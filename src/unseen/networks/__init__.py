"""Pretrained networks: photos -> features, kept in stores; and the classifiers of the seen classes."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # torch only when it is needed
