"""What reads or builds taxonomies builds on `Taxonomy`, which offers it all: it registers itself here, by its name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])

MAKERS: dict[str, Callable[..., Any]] = {}


def maker(function: F) -> F:
    """Let `Taxonomy` find the function."""
    MAKERS[function.__name__] = function
    return function
