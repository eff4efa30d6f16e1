"""The bundle: the file that training writes and everything else reads; classes added, removed, renamed and taught."""

from unseen.bundle.bundle import Bundle
from unseen.bundle.grow import add, remove, rename
from unseen.bundle.records import NetworkInfo

__all__ = ["Bundle", "NetworkInfo", "add", "remove", "rename"]
