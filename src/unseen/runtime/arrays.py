"""Files of arrays that are not what they seem."""

from __future__ import annotations

import struct
import tokenize
import zipfile
import zlib

ARRAY_DAMAGE = (OSError, EOFError, zipfile.BadZipFile, zlib.error, struct.error, SyntaxError, LookupError, TypeError)
ARRAY_DAMAGE += (ArithmeticError, RuntimeError, MemoryError, tokenize.TokenError)
"""What numpy raises where a .npy or .npz is damaged, besides ValueError, which may have other reasons."""
