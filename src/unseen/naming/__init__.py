"""What a text means: candidates, lists of names, and where a new name belongs."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
