"""PIL picture -> normalised tensor, as a network expects it: fixed for evaluation, random for finetuning."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING

import numpy as np
from PIL import Image

from unseen.photos.reading import Source, read_photo
from unseen.util.errors import UnseenError

if TYPE_CHECKING:
    from torch import Tensor

IMAGENET_MEAN, IMAGENET_STD = (0.485, 0.456, 0.406), (0.229, 0.224, 0.225)
INTERPOLATIONS = {"bilinear": Image.Resampling.BILINEAR, "bicubic": Image.Resampling.BICUBIC}
INTERPOLATIONS |= {"nearest": Image.Resampling.NEAREST, "lanczos": Image.Resampling.LANCZOS}


@dataclass(frozen=True)
class _Normalised:
    """What both transforms share: the output's size, the interpolation, and (x / 255 - mean) / std for each channel."""

    size: int
    mean: tuple[float, ...] = IMAGENET_MEAN
    std: tuple[float, ...] = IMAGENET_STD
    interpolation: str = "bicubic"

    def __post_init__(self):
        if self.interpolation not in INTERPOLATIONS:
            raise UnseenError(f"Interpolation {self.interpolation!r} is not one of: {', '.join(INTERPOLATIONS)}.")
        if self.size < 1 or len(self.mean) != 3 or len(self.std) != 3 or min(self.std) <= 0:
            raise UnseenError(f"A photo transform needs a positive size and three means and deviations, not {self}.")
        object.__setattr__(self, "mean", tuple(map(float, self.mean)))  # JSON gives lists, which do not hash
        object.__setattr__(self, "std", tuple(map(float, self.std)))

    def _resample(self, image: Image.Image, box: tuple[float, float, float, float]) -> np.ndarray:
        """The box (left, top, right, bottom; fractions of pixels allowed) as size x size x 3 bytes."""
        return np.asarray(image.resize((self.size, self.size), INTERPOLATIONS[self.interpolation], box=box))

    def normalise(self, pixels: np.ndarray) -> Tensor:
        """size x size x 3 bytes -> float32 3 x size x size."""
        from torch import from_numpy  # here: processes that only decode photos start without torch

        return from_numpy(self.normalise_array(pixels))

    def normalise_array(self, pixels: np.ndarray) -> np.ndarray:
        mean, std = (np.array(values, np.float32).reshape(3, 1, 1) for values in (self.mean, self.std))
        normalised = np.ascontiguousarray(pixels.transpose(2, 0, 1), np.float32)
        normalised /= 255 * std
        normalised -= mean / std
        return normalised


@dataclass(frozen=True)
class PhotoTransform(_Normalised):
    r"""Resize the short side to `resize` pixels, keep the central `size` x `size`, normalise each channel c:
    :math:`(x / 255 - \mathrm{mean}_c) / \mathrm{std}_c`.

    Args:
        size: Pixels a side of what the network sees.
        mean: For red, green and blue; by default ImageNet's.
        std: For red, green and blue; by default ImageNet's.
        interpolation: bilinear, bicubic, nearest or lanczos.
        resize: Pixels of the short side; 0 stands for size / 0.875, as most ImageNet networks are evaluated.
        squash: Resize to a square of `resize` pixels instead, without keeping the proportions.

    >>> from PIL import Image
    >>> from unseen import PhotoTransform
    >>> transform = PhotoTransform(224)
    >>> transform.resize
    256
    >>> transform(Image.new("RGB", (640, 480), "orange")).shape
    torch.Size([3, 224, 224])
    """

    resize: int = 0
    squash: bool = False

    def __post_init__(self):
        super().__post_init__()
        if not self.resize:
            object.__setattr__(self, "resize", math.floor(self.size / 0.875))
        if self.resize < self.size:
            raise UnseenError(f"The short side ({self.resize} px) must not be shorter than the crop ({self.size} px).")

    def __call__(self, image: Image.Image) -> Tensor:
        """RGB picture -> float32 3 x size x size."""
        return self.normalise(self.crop(image))

    def open(self, source: Source) -> Tensor:
        """Read any photo and transform it; a JPEG much larger than needed is decoded at a reduced scale."""
        return self(read_photo(source, short_side=self.resize))

    def open_array(self, source: Source) -> np.ndarray:
        """The same as an array: torch is not imported."""
        return self.normalise_array(self.crop(read_photo(source, short_side=self.resize)))

    def crop(self, image: Image.Image) -> np.ndarray:
        """RGB picture -> size x size x 3 bytes: all but `normalise`."""
        return self._resample(image, self._box(*image.size))

    def _box(self, width: int, height: int) -> tuple[float, float, float, float]:
        """The part of the photo that ends in the crop. Resampling it gives what "resize, then crop" gives without
        holding the resized photo, which for a strip of 1 x 10,000 pixels would be huge."""
        wide = self.resize if self.squash or width <= height else int(self.resize * width / height)
        high = self.resize if self.squash or width > height else int(self.resize * height / width)
        left, top = round((wide - self.size) / 2), round((high - self.size) / 2)
        x, y = width / wide, height / high  # photo pixels for each pixel of the resized photo
        return left * x, top * y, min((left + self.size) * x, width), min((top + self.size) * y, height)

    def for_training(self) -> TrainingTransform:
        """The random transform that goes with this one: the same size and normalisation."""
        return TrainingTransform(self.size, self.mean, self.std, self.interpolation)

    def to_dict(self) -> dict:
        return asdict(self)

    def describe(self) -> str:
        """
        >>> PhotoTransform(224, mean=(0.5,) * 3).describe()
        'short side to 256 px (bicubic), centre 224 x 224, mean 0.5, deviation 0.229 0.224 0.225'
        """
        first = f"squashed to {self.resize} x {self.resize} px" if self.squash else f"short side to {self.resize} px"
        centre = "" if self.squash and self.size == self.resize else f", centre {self.size} x {self.size}"
        grey = [values if len(set(values)) > 1 else values[:1] for values in (self.mean, self.std)]
        mean, std = (" ".join(f"{value:.4g}" for value in values) for values in grey)
        return f"{first} ({self.interpolation}){centre}, mean {mean}, deviation {std}"


@dataclass(frozen=True)
class TrainingTransform(_Normalised):
    """A random part of the photo, resized to `size` x `size`, mirrored half of the time.

    The part covers `scale` of the photo's area, with `ratio` = width / height drawn log-uniformly.
    """

    scale: tuple[float, float] = (0.08, 1.0)
    ratio: tuple[float, float] = (3 / 4, 4 / 3)
    flip: float = 0.5

    def __call__(self, image: Image.Image, rng: np.random.Generator) -> Tensor:
        """RGB picture -> float32 3 x size x size."""
        pixels = self.normalise(self._resample(image, self._box(*image.size, rng)))
        return pixels.flip(2) if rng.random() < self.flip else pixels

    def open(self, source: Source, rng: np.random.Generator) -> Tensor:
        return self(read_photo(source, short_side=2 * self.size), rng)

    def _box(self, width: int, height: int, rng: np.random.Generator) -> tuple[int, int, int, int]:
        for _ in range(10):
            area = width * height * rng.uniform(*self.scale)
            ratio = math.exp(rng.uniform(math.log(self.ratio[0]), math.log(self.ratio[1])))
            wide, high = round(math.sqrt(area * ratio)), round(math.sqrt(area / ratio))
            if 0 < wide <= width and 0 < high <= height:
                left, top = int(rng.integers(width - wide + 1)), int(rng.integers(height - high + 1))
                break
        else:  # no luck with a very long or very high photo: its centre, with the nearest ratio allowed
            wide = min(width, max(1, round(height * self.ratio[1])))
            high = min(height, max(1, round(width / self.ratio[0])))
            left, top = (width - wide) // 2, (height - high) // 2
        return left, top, left + wide, top + high
