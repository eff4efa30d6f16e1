"""A bundle: what training leaves and everything else reads; classes added, removed, renamed."""

from unseen.bundle.core import BackboneInfo, Bundle
from unseen.bundle.growth import add, remove, rename

__all__ = ["BackboneInfo", "Bundle", "add", "remove", "rename"]
