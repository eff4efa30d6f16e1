"""Where data come from: embedded files, and larger ones that are found on disk or downloaded."""

from unseen.assets.downloads import ASSETS, Asset, fetch_asset, find_asset
from unseen.assets.embedded import data_file, imagenet_1k, imagenet_21k, manifest

__all__ = ["ASSETS", "Asset", "data_file", "fetch_asset", "find_asset", "imagenet_1k", "imagenet_21k", "manifest"]
