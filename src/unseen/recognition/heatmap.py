r"""Where in a photo a class's score comes from.

The features f of many networks are the mean over the n cells of a last map, and a class's score is linear in them:

.. math:: s = w \cdot p(f) = \sum_c w \cdot p(f_c) / n

So the score splits over the cells exactly: nothing is estimated, and the cells of a heat map sum to the score.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from PIL import Image

from unseen.errors import UnseenError
from unseen.photos.reading import Source, read_photo
from unseen.photos.transforms import PhotoTransform

if TYPE_CHECKING:
    from unseen.backbones import Backbone
    from unseen.bundle import Bundle

FOR, AGAINST = (255, 110, 20), (40, 110, 255)  # colours of cells that speak for the class, and against it
SHADE = 0.55  # how much of the photo the strongest cell hides


@dataclass(frozen=True)
class HeatMap:
    """The score of a class for a photo, split over the cells of the network's last feature map.

    Args:
        id: The class.
        name: Its name.
        score: As in `Label`; of a difference, that of the class less that of the other.
        cells: Rows x columns; they sum to the score.
        box: The part of the photo that the cells cover: left, top, right and bottom, each 0 to 1.
        instead_of: The id of the class that it was compared with.

    >>> import numpy as np
    >>> import unseen
    >>> cells = np.array([[0.5, 0.25], [0.25, -0.5]])
    >>> horse = unseen.HeatMap("n02374451", "horse", 0.5, cells, (0.0, 0.0, 1.0, 1.0))
    >>> cow = unseen.HeatMap("n01887787", "cow", 0.25, np.array([[0.25, 0.0], [0.0, 0.0]]), (0.0, 0.0, 1.0, 1.0))
    >>> difference = horse.minus(cow)
    >>> difference.score, difference.cells.tolist(), difference.instead_of
    (0.25, [[0.25, 0.25], [0.25, -0.5]], 'n01887787')
    >>> from PIL import Image
    >>> difference.over(Image.new("RGB", (64, 48), "white")).size
    (64, 48)
    """

    id: str
    name: str
    score: float
    cells: np.ndarray
    box: tuple[float, float, float, float]
    instead_of: str | None = None

    def minus(self, other: HeatMap) -> HeatMap:
        """What speaks for this class rather than for the other."""
        return replace(self, score=self.score - other.score, cells=self.cells - other.cells, instead_of=other.id)

    def over(self, photo: Source) -> Image.Image:
        """The photo with the cells laid over it: orange where they speak for the class, blue where against it."""
        image = read_photo(photo)
        strength = self.cells / max(float(np.abs(self.cells).max()), np.finfo(np.float32).tiny)
        left, top, right, bottom = (
            round(part * side) for part, side in zip(self.box, (*image.size, *image.size), strict=True)
        )
        size = (max(right - left, 1), max(bottom - top, 1))
        smooth = np.asarray(Image.fromarray(strength.astype(np.float32)).resize(size, Image.Resampling.BICUBIC))
        for colour, part in ((FOR, smooth), (AGAINST, -smooth)):
            mask = Image.fromarray((255 * SHADE * np.clip(part, 0, 1)).astype(np.uint8))
            image.paste(colour, (left, top, left + size[0], top + size[1]), mask)
        return image

    def save(self, path: str | Path, photo: Source) -> None:
        """Write `over(photo)` into a file; its ending says in which format."""
        try:
            self.over(photo).save(path)
        except (OSError, ValueError) as error:
            raise UnseenError(
                f"{path}: the heat map cannot be written ({error}): give a name such as map.png"
            ) from None


def map_heat(bundle: Bundle, backbone: Backbone, photo: Source, ids: list[str]) -> list[HeatMap]:
    """A heat map for each of the classes, from one look at the photo."""
    image = read_photo(photo, short_side=getattr(backbone.transform, "resize", None))
    cells, (rows, columns) = look_at_cells(backbone, backbone.transform(image))
    points = points_of_cells(bundle.solution.projection, cells)
    classifiers = np.asarray(bundle.solution.classifiers[bundle.taxonomy.indices(ids)], np.float32)
    shares = classifiers @ points.T / len(cells)
    box = seen_part(backbone.transform, *image.size)
    return [
        HeatMap(id, bundle.taxonomy.name(id), float(share.sum()), share.reshape(rows, columns), box)
        for id, share in zip(ids, shares, strict=True)
    ]


def look_at_cells(backbone: Backbone, pixels: torch.Tensor) -> tuple[np.ndarray, tuple[int, int]]:
    """The features of each cell (n x D), whose mean are the photo's, and the number of rows and columns."""
    refusal = UnseenError(
        f"There is no heat map for {backbone.name}: it needs a network whose features are the mean of a map."
    )
    if not backbone.takes_photos:
        raise refusal
    with torch.inference_mode():
        found = backbone.forward_features(pixels[None].to(backbone.device, backbone.get_classifier().weight.dtype))
        if found.ndim != 4 or found.shape[1] != backbone.num_features:
            raise refusal
        pooled = backbone.forward_head(found, pre_logits=True)[0].float().cpu().numpy()
    cells = found[0].flatten(1).T.float().cpu().numpy()
    if not np.allclose(cells.mean(axis=0), pooled, rtol=1e-3, atol=1e-4 * max(float(np.abs(pooled).max()), 1e-6)):
        raise refusal
    return cells, (found.shape[2], found.shape[3])


def points_of_cells(projection: Any, cells: np.ndarray) -> np.ndarray:
    """n x E: what each cell gives to the photo's point, which is their mean. What depends on the whole photo (its
    length) is taken from the whole."""
    if projection.kind == "append1":
        return projection(cells)
    if projection.kind == "linear":
        points = cells @ projection.matrix + projection.bias
        return points / _length(points.mean(axis=0)) if projection.normalise else points
    if projection.kind == "unit":
        apart = cells - projection.mean
        return np.pad(apart / _length(apart.mean(axis=0)), ((0, 0), (0, 1)), constant_values=1)
    raise UnseenError("There is no heat map for this method: its scores are no sums over the parts of a photo.")


def seen_part(transform: object, width: int, height: int) -> tuple[float, float, float, float]:
    """The part of a photo that the network sees, in fractions of its sides."""
    if not isinstance(transform, PhotoTransform):
        return 0.0, 0.0, 1.0, 1.0
    left, top, right, bottom = transform._box(width, height)
    return left / width, top / height, right / width, bottom / height


def _length(vector: np.ndarray) -> float:
    return max(float(np.linalg.norm(vector)), 1e-12)
