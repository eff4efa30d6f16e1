from .files import cache_folder, verified, write_atomically
from .names import how_to_install
from .run import progress
from .safe_text import csv_text, to_csv
from .settings import AT_LEAST_1, AT_LEAST_2, DECAY, NOT_NEGATIVE, POSITIVE

__all__ = [
    "AT_LEAST_1",
    "AT_LEAST_2",
    "DECAY",
    "NOT_NEGATIVE",
    "POSITIVE",
    "cache_folder",
    "csv_text",
    "how_to_install",
    "progress",
    "to_csv",
    "verified",
    "write_atomically",
]
