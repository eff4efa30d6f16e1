"""Photos -> features: one protocol (`Features`), implemented by a store on disk and by arrays."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # torch only when it is needed
