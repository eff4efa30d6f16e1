"""Why: the seen classes that a class's classifier is made of, and where in a photo its score comes from."""

from __future__ import annotations

import io
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from PIL import Image

from unseen.bundle import Bundle
from unseen.methods.base import normalise_rows
from unseen.photos.reading import Source, read_photo
from unseen.photos.transforms import PhotoTransform
from unseen.util.errors import UnseenError
from unseen.util.files import write_atomically

if TYPE_CHECKING:
    import torch

    from unseen.networks.base import Network


@dataclass(frozen=True)
class Neighbour:
    """A seen class that another class borrows its classifier from."""

    id: str
    name: str
    share: float  # of its classifier that this seen class gives; the shares of all seen classes sum to 1
    similarity: float | None  # cosine of its known classifier with the predicted one
    path: tuple[str, ...]  # ids from the explained class over the lowest common ancestor to this one


@dataclass(frozen=True)
class Explanation:
    """Why a class answers as it does: what it is, where it stands, and which seen classes its classifier comes from.

    >>> from unseen.examples import fruits
    >>> why = fruits().explain("raspberry")
    >>> why.seen, why.path
    (False, ('fruit', 'berry', 'raspberry'))
    >>> why.neighbours[0].path
    ('raspberry', 'berry', 'strawberry')
    """

    id: str
    name: str
    definition: str
    seen: bool
    trust: float | None
    path: tuple[str, ...]  # ids from the root down
    neighbours: tuple[Neighbour, ...]
    photos: int = 0  # that it was taught with

    to_dict = asdict


def explain(bundle: Bundle, id: str, n: int = 5) -> Explanation:
    """The n seen classes that give most to the classifier of `id`."""
    hierarchy, solution = bundle.hierarchy, bundle.solution
    row = hierarchy.index(id)
    similarity = _similarity(bundle, row)
    shares = _shares(bundle, row, similarity)
    neighbours = []
    for m in np.argsort(-shares, kind="stable")[:n]:
        other = hierarchy.ids[bundle.seen[m]]
        near = None if similarity is None else round(float(similarity[m]), 4)
        path = tuple(hierarchy.path(id, other) or ())
        neighbours.append(Neighbour(other, hierarchy.name(other), round(float(shares[m]), 4), near, path))
    return Explanation(
        id=id,
        name=hierarchy.name(id),
        definition=hierarchy.definition(id),
        seen=bool(bundle.is_seen[row]),
        trust=None if solution.trust is None else float(solution.trust[row]),
        path=tuple(reversed(hierarchy.path_to_root(id))),
        neighbours=tuple(neighbours),
        photos=bundle.taught[id].photos if id in bundle.taught else 0,
    )


def _similarity(bundle: Bundle, row: int) -> np.ndarray | None:
    """Cosine of the predicted classifier with every known one; None where the method predicts no classifiers."""
    predicted = bundle.solution.classifiers[row : row + 1]
    if predicted.shape[1] != bundle.known.shape[1]:
        return None
    return normalise_rows(bundle.known) @ normalise_rows(predicted)[0]


def _shares(bundle: Bundle, row: int, similarity: np.ndarray | None) -> np.ndarray:
    """The share of each seen class (M), summing to 1: from the method, or else from the similarity of classifiers."""
    with bundle.reading_state():
        known = bundle.make_method().shares(bundle.problem(), bundle.solution.state, row)
        weights = None if known is None else np.abs(known).reshape(len(bundle.seen))
    if weights is None and similarity is not None:
        weights = np.exp((similarity - similarity.max()) * 20)
    elif weights is None:
        vectors = bundle.vectors.matrix
        weights = np.maximum(vectors[bundle.seen] @ vectors[row], 0)
    return weights / max(weights.sum(), np.finfo(np.float32).tiny)


FOR, AGAINST = (255, 110, 20), (40, 110, 255)  # colours of cells that speak for the class, and against it
SHADE = 0.55  # how much of the photo the strongest cell hides


@dataclass(frozen=True)
class HeatMap:
    """The score of a class for a photo, split over the cells of the network's last feature map.

    >>> cells = np.array([[0.5, 0.25], [0.25, -0.5]])
    >>> horse = HeatMap("n02374451", "horse", 0.5, cells, (0.0, 0.0, 1.0, 1.0))
    >>> cow = HeatMap("n01887787", "cow", 0.25, np.array([[0.25, 0.0], [0.0, 0.0]]), (0.0, 0.0, 1.0, 1.0))
    >>> horse.minus(cow).cells.tolist()
    [[0.25, 0.25], [0.25, -0.5]]
    """

    id: str
    name: str
    score: float  # as in `Label`; of a difference, that of the class less that of the other
    cells: np.ndarray  # rows x columns; they sum to the score
    box: tuple[float, float, float, float]  # of the photo that the cells cover: left, top, right, bottom, each 0 to 1
    instead_of: str | None = None  # the id of the class that it was compared with

    def minus(self, other: HeatMap) -> HeatMap:
        """The difference to another class: evidence for this class and not the other."""
        return replace(self, score=self.score - other.score, cells=self.cells - other.cells, instead_of=other.id)

    def over(self, photo: Source) -> Image.Image:
        """The photo with the cells laid over it: orange for the class, blue against it."""
        image = read_photo(photo)
        strength = self.cells / max(float(np.abs(self.cells).max()), np.finfo(np.float32).tiny)
        left, top, right, bottom = np.round(np.multiply(self.box, image.size * 2)).astype(int).tolist()
        size = (max(right - left, 1), max(bottom - top, 1))
        smooth = np.asarray(Image.fromarray(strength.astype(np.float32)).resize(size, Image.Resampling.BICUBIC))
        for colour, part in ((FOR, smooth), (AGAINST, -smooth)):
            mask = Image.fromarray((255 * SHADE * np.clip(part, 0, 1)).astype(np.uint8))
            image.paste(colour, (left, top, left + size[0], top + size[1]), mask)
        return image

    def save(self, path: str | Path, photo: Source) -> None:
        """Write `over(photo)` into a file; its ending says in which format."""
        try:
            kind, picture = Image.registered_extensions()[Path(path).suffix.lower()], io.BytesIO()
            self.over(photo).save(picture, kind)
            write_atomically(Path(path), picture.getvalue())
        except (OSError, ValueError, KeyError) as error:
            raise UnseenError(f"{path}: the heat map cannot be written ({error}): name it map.png, say") from None


def map_heat(bundle: Bundle, network: Network, photo: Source, ids: list[str]) -> list[HeatMap]:
    """A heat map for each of the classes, from one look at the photo."""
    image = read_photo(photo, short_side=getattr(network.transform, "resize", None))
    return heat_of_pixels(bundle, network, network.transform(image), image.size, ids)


def heat_of_pixels(
    bundle: Bundle, network: Network, pixels: torch.Tensor, size: tuple[int, int], ids: list[str]
) -> list[HeatMap]:
    """The same for a photo of that size that has been transformed."""
    cells, (rows, columns) = look_at_cells(network, pixels)
    points = points_of_cells(bundle.solution.projection, cells)
    classifiers = np.asarray(bundle.solution.classifiers[bundle.hierarchy.indices(ids)], np.float32)
    shares = classifiers @ points.T / len(cells)
    box = seen_part(network.transform, *size)
    return [
        HeatMap(id, bundle.hierarchy.name(id), float(share.sum()), share.reshape(rows, columns), box)
        for id, share in zip(ids, shares, strict=True)
    ]


def look_at_cells(network: Network, pixels: torch.Tensor) -> tuple[np.ndarray, tuple[int, int]]:
    """The features of each cell (n x D), whose mean are the photo's, and the number of rows and columns."""
    needed = "a network whose features are the mean of a map"
    refusal = UnseenError(f"There is no heat map for {network.name}: it needs {needed}.")
    if not network.takes_photos:
        raise refusal
    import torch

    with torch.inference_mode():
        maps = network.forward_features(pixels[None].to(network.device, network.get_classifier().weight.dtype))
        if maps.ndim != 4 or maps.shape[1] != network.num_features:
            raise refusal
        pooled = network.forward_head(maps, pre_logits=True)[0].float().cpu().numpy()
    cells = maps[0].flatten(1).T.float().cpu().numpy()
    if not np.allclose(cells.mean(axis=0), pooled, rtol=1e-3, atol=1e-4 * max(float(np.abs(pooled).max()), 1e-6)):
        raise refusal
    return cells, (maps.shape[2], maps.shape[3])


def points_of_cells(projection: Any, cells: np.ndarray) -> np.ndarray:
    """n x E: what each cell gives to the photo's point, which is their mean; a length is that of the photo's point."""
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
