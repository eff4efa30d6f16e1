"""Photos as they come: read, bounded, made upright, transformed for a network; folders of them by class."""

from unseen.photos.folders import Photo, list_classes, list_photos, photos_in
from unseen.photos.reading import MAX_PIXELS, read_photo
from unseen.photos.transforms import PhotoTransform

__all__ = ["MAX_PIXELS", "Photo", "PhotoTransform", "list_classes", "list_photos", "photos_in", "read_photo"]
