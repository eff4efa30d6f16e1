"""A bundle: what training leaves and everything else reads; classes added, removed, renamed."""

from unseen.bundle.backbone_info import BackboneInfo
from unseen.bundle.core import Bundle
from unseen.bundle.growth import add, remove, rename

__all__ = ["BackboneInfo", "Bundle", "add", "remove", "rename"]
