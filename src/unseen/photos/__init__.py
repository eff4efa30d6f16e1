"""Photos as they come: read, bounded, made upright, transformed for a network; folders of them by class."""

from unseen.photos.folders import Photo, find_photos, list_classes, list_photos, photos_in
from unseen.photos.limits import FORMATS, MAX_PIXELS, UnreadablePhoto
from unseen.photos.reading import read_photo
from unseen.photos.transforms import PhotoTransform

__all__ = [
    "FORMATS",
    "MAX_PIXELS",
    "Photo",
    "PhotoTransform",
    "UnreadablePhoto",
    "find_photos",
    "list_classes",
    "list_photos",
    "photos_in",
    "read_photo",
]
