"""Teach an image classifier classes it was never shown, from the class hierarchy and the class names alone.

    import unseen
    model = unseen.load()                 # the default bundle: 21,842 ImageNet classes, 1,000 of them seen
    model.classify("photo.jpg", k=5)

`__init__.pyi` lists all that is public, with where it lives. It is imported on first use, so that `import unseen` stays
cheap: torch comes only when it is needed.
"""

import lazy_loader

__version__ = "0.2.0"

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
__all__ = ["__version__", *__all__]
