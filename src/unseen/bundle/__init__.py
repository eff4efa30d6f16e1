"""The bundle: the file that training writes and everything else reads; classes added, removed, renamed and taught."""

from unseen.bundle.bundle import Bundle
from unseen.bundle.file import is_bundle
from unseen.bundle.grow import add, remove, rename
from unseen.bundle.records import NetworkInfo
from unseen.bundle.teach import Photos as TaughtPhotos
from unseen.bundle.teach import teach as teach_classes

__all__ = ["Bundle", "NetworkInfo", "TaughtPhotos", "add", "is_bundle", "remove", "rename", "teach_classes"]
