"""Which network a bundle belongs to: enough to load it again, and to tell whether it is still the same."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from unseen.backbones import Backbone


@dataclass
class BackboneInfo:
    """Which network the classifiers belong to. `class_ids` is its own class order, by id."""

    name: str
    checksum: str
    num_features: int
    class_ids: list[str]
    layer: str | None = None  # the last linear layer, where the network does not tell
    transform: dict[str, Any] | None = None  # how photos are prepared
    weights: str | None = None  # the file of weights, where they are the user's own
    finetuned: bool = False

    @classmethod
    def of(cls, backbone: Backbone) -> BackboneInfo:
        """What is needed to load a network again, and to tell whether it is still the same."""
        file = backbone.weights_file
        return cls(
            name=backbone.name,
            checksum=backbone.checksum,
            num_features=backbone.num_features,
            class_ids=list(backbone.class_ids),
            layer=getattr(backbone, "layer", None),
            transform=json.loads(json.dumps(backbone.transform.to_dict())),
            weights=str(Path(file).resolve()) if file else None,
        )
