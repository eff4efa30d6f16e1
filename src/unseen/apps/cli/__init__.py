"""The command line: one module for each command, which parses, calls the library and prints."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)  # commands are slow to import
