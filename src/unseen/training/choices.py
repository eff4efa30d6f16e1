"""What a training is made of unless told otherwise."""

from __future__ import annotations

DEFAULT_METHOD, DEFAULT_GRAPH, DEFAULT_VECTORS, DEFAULT_BACKBONE = "kin", "imagenet", "glove+text", "efficientnet-lite0"
