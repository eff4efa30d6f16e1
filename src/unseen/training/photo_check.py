"""Whether photos reach a network as it expects them: its accuracy on a few photos of the classes that it knows.

A wrong mean or size raises no error, it only costs accuracy. So the transform is told, and with labelled photos it is
tried.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from pathlib import Path

import numpy as np
import torch
from torch import Tensor

from unseen.backbones import Backbone, PhotoTransform
from unseen.bundle.records import PhotoCheck
from unseen.errors import UnseenError
from unseen.photos import UnreadablePhoto, photos_in
from unseen.photos.transforms import IMAGENET_MEAN, IMAGENET_STD
from unseen.scoring.class_folders import check_folders
from unseen.taxonomy import Taxonomy

MOST = 200  # photos
BATCH = 16
FAR = 20.0  # points of accuracy below the network's own confidence
BETTER = 5.0  # points that another normalisation must gain to be worth a word
NORMALISATIONS = (
    (IMAGENET_MEAN, IMAGENET_STD),
    ((0.5,) * 3, (0.5,) * 3),
    ((0.0,) * 3, (1.0,) * 3),
    ((0.0,) * 3, (1 / 255,) * 3),
)


def describe_photos(backbone: Backbone) -> str:
    """How photos are prepared for a network, in a line; and a warning where nobody said so."""
    if not backbone.takes_photos:
        return f"The network takes rows of {backbone.num_features} features, no photos."
    told = f"Photos: {describe_transform(backbone.transform)}."
    if backbone.transform_assumed:
        told += (
            " This is an assumption, since the network does not say what it expects: give transform=... if it was "
            "trained otherwise, or try it on labelled photos with check_photos=..."
        )
    return told


def describe_transform(transform: PhotoTransform) -> str:
    """A transform in words.

    >>> describe_transform(PhotoTransform(224, mean=(0.5,) * 3, std=(0.5,) * 3))
    'short side to 256 px (bicubic), centre 224 x 224, mean 0.5, deviation 0.5'
    """
    size, resize = transform.size, transform.resize
    first = f"squashed to {resize} x {resize} px" if transform.squash else f"short side to {resize} px"
    centre = "" if transform.squash and size == resize else f", centre {size} x {size}"
    mean, std = (_numbers(values) for values in (transform.mean, transform.std))
    return f"{first} ({transform.interpolation}){centre}, mean {mean}, deviation {std}"


def _numbers(values: Sequence[float]) -> str:
    return " ".join(f"{value:.4g}" for value in (values if len(set(values)) > 1 else values[:1]))


def check_photos(backbone: Backbone, folder: str | Path, taxonomy: Taxonomy, most: int = MOST) -> PhotoCheck:
    """The accuracy of a network's own head on at most `most` photos `folder/<class id or name>/*` of its classes.

    Where that is far below the network's confidence, or its transform is an assumption, other normalisations are tried.
    """
    if not backbone.takes_photos:
        raise UnseenError("The network takes features, no photos: omit check_photos.", "check_photos")
    ids = set(backbone.class_ids)
    folders = check_folders(folder, taxonomy, ids, "the network's classes")
    pixels, labels, unreadable = _read(backbone, Path(folder), folders, most)
    right, confidence = _try(backbone, pixels, labels)
    accuracy, expected = 100 * float(right.mean()), 100 * float(confidence.mean())
    found = PhotoCheck(
        photos=len(labels),
        classes=len(set(labels.tolist())),
        unreadable=unreadable,
        accuracy=round(accuracy, 1),
        expected=round(expected, 1),
    )
    if not backbone.transform_assumed and not is_low(found):
        return found
    best = _best_normalisation(backbone, pixels, labels, right)
    return found if best is None else replace(found, better=best[0].to_dict(), better_accuracy=round(best[1], 1))


def is_low(check: PhotoCheck) -> bool:
    """Far below what the network's own confidence promises, and by more than chance explains."""
    return _is_far(check.accuracy, check.expected, check.photos)


def _is_far(accuracy: float, expected: float, photos: int) -> bool:
    share = accuracy / 100
    error = 200 * (max(share * (1 - share), 0.25 / photos) / photos) ** 0.5
    return accuracy < expected - max(FAR, error)


def describe_check(check: PhotoCheck) -> list[str]:
    """What a person should know of it."""
    lines = [
        f"On {check.photos} photos of {check.classes} seen classes the network is right for {check.accuracy} %; "
        f"its own confidence promises {check.expected} %."
    ]
    if check.better is not None:
        transform = PhotoTransform(**check.better)
        mean, std = _numbers(transform.mean), _numbers(transform.std)
        lines.append(
            f"warning: with mean {mean} and deviation {std} it is right for {check.better_accuracy} %: photos seem to "
            "be prepared in another way than in its training. Say how with transform=..."
        )
    elif is_low(check):
        lines.append(
            "warning: that is far below what it should have. Are photos prepared as in its training (size, mean, "
            "deviation), are the class ids in the order of its outputs, and are the photos in the right folders?"
        )
    if check.unreadable:
        lines.append(f"{check.unreadable} of the photos could not be read.")
    return lines


def _read(backbone: Backbone, folder: Path, folders: dict[str, str], most: int) -> tuple[list[Tensor], np.ndarray, int]:
    """Photos of every class in turn, until there are enough; their places among the network's outputs."""
    place = {id: number for number, id in enumerate(backbone.class_ids)}
    by_class = [
        [(folder / name / file, place[id]) for file in photos_in(folder / name)] for name, id in folders.items()
    ]
    pixels, labels, unreadable = [], [], 0
    for item in chain.from_iterable(zip_longest(*by_class)):
        if item is None:
            continue
        if len(pixels) == most:
            break
        try:
            pixels.append(backbone.transform.open(item[0]))
            labels.append(item[1])
        except UnreadablePhoto:
            unreadable += 1
    if not pixels:
        raise UnseenError(f"{folder}: has no readable photo of a class that the network knows.")
    return pixels, np.array(labels), unreadable


def _try(backbone: Backbone, pixels: list[Tensor], labels: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Which photos the head is right for, and how sure it is of its choice."""
    head = torch.from_numpy(backbone.classifiers())
    scores = []
    for start in range(0, len(pixels), BATCH):
        features = backbone.features(torch.stack(pixels[start : start + BATCH])).cpu()
        scores.append(features @ head[:, :-1].T + head[:, -1])
    probabilities = torch.cat(scores).softmax(1).numpy()
    return probabilities.argmax(1) == labels, probabilities.max(1)


def _best_normalisation(
    backbone: Backbone, pixels: list[Tensor], labels: np.ndarray, right: np.ndarray
) -> tuple[PhotoTransform, float] | None:
    """Another usual mean and deviation with which the network is right clearly more often, and how often."""
    transform, best = backbone.transform, None
    own_mean, own_std = (torch.tensor(values).view(3, 1, 1) for values in (transform.mean, transform.std))
    for mean, std in NORMALISATIONS:
        if np.allclose(mean, transform.mean) and np.allclose(std, transform.std):
            continue
        shift, scale = (torch.tensor(values).view(3, 1, 1) for values in (mean, std))
        other, sure = _try(backbone, [(photo * own_std + own_mean - shift) / scale for photo in pixels], labels)
        if _is_far(100 * float(other.mean()), 100 * float(sure.mean()), len(labels)):
            continue  # no cure: the trouble is elsewhere
        gain = other.astype(float) - right
        error = 200 * gain.std() / len(gain) ** 0.5  # of the mean difference, twice
        if 100 * gain.mean() > max(BETTER, error) and (best is None or other.mean() > best[1] / 100):
            best = replace(transform, mean=mean, std=std), 100 * float(other.mean())
    return best
