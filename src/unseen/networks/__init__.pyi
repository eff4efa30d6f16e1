from .base import Network
from .custom import from_module
from .linear import from_linear
from .loading import BUILT_IN, load_network

__all__ = ["BUILT_IN", "Network", "from_linear", "from_module", "load_network"]
