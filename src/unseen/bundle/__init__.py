"""The bundle: the file that training writes and everything else reads; classes added, removed, renamed and taught."""

from unseen.bundle import teach
from unseen.bundle.bundle import Bundle
from unseen.bundle.file import is_bundle
from unseen.bundle.grow import add, remove, rename
from unseen.bundle.records import NetworkInfo

__all__ = ["Bundle", "NetworkInfo", "add", "is_bundle", "remove", "rename", "teach"]
