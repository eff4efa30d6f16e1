"""Graph networks: dgp, sgcn and gcnz, trained on the receptive field of the seen classes."""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
