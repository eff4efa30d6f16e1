"""Photos: read within limits, turned upright, transformed for a network; folders of photos by class."""

from unseen.photos.reading import Photo, UnreadablePhoto, find_photos, list_classes, list_photos, photos_in, read_photo
from unseen.photos.transforms import PhotoTransform

__all__ = ["Photo", "PhotoTransform", "UnreadablePhoto", "find_photos"]
__all__ += ["list_classes", "list_photos", "photos_in", "read_photo"]
