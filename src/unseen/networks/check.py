"""Whether photos reach a network as in its training: its accuracy on a few photos of the classes that it knows.

A wrong mean or size raises no error, it only costs accuracy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain, zip_longest
from typing import Any, NamedTuple

import numpy as np
import torch
from torch import Tensor

from unseen.networks.base import Network
from unseen.photos import UnreadablePhoto
from unseen.photos.transforms import IMAGENET_MEAN, IMAGENET_STD
from unseen.util.errors import UnseenError

MAX_PHOTOS = 200
BATCH = 16
FAR = 20.0  # points of accuracy below the network's own confidence
BETTER = 5.0  # points that another normalisation must gain to be reported
GREY = ((0.5, 0.5), (0.0, 1.0), (0.0, 1 / 255))  # mean and deviation of all three channels
NORMALISATIONS = ((IMAGENET_MEAN, IMAGENET_STD), *(((mean,) * 3, (std,) * 3) for mean, std in GREY))


class Check(NamedTuple):
    """The network's accuracy on a few photos of its classes, in per cent."""

    photos: int
    classes: int
    accuracy: float
    expected: float  # the mean of the network's confidence in its choice
    unreadable: int = 0
    better: dict[str, Any] | None = None  # a transform with which it is clearly more accurate
    better_accuracy: float | None = None

    @property
    def low(self) -> bool:
        """Far below the network's own confidence, and by more than chance explains."""
        share = self.accuracy / 100
        error = 200 * (max(share * (1 - share), 0.25 / self.photos) / self.photos) ** 0.5
        return self.accuracy < self.expected - max(FAR, error)


def check_photos(network: Network, photos: Mapping[str, Sequence[Any]], limit: int = MAX_PHOTOS) -> Check:
    """The accuracy of the network's head on at most `limit` photos, which are given by the id of their class.

    Where that is far below the network's confidence, or its transform is an assumption, other normalisations are tried:
    one is better if it gains clearly, and more than twice the standard error of the mean difference.
    """
    if not network.takes_photos:
        raise UnseenError("The network takes features, no photos: photos cannot be checked.")
    pixels, labels, unreadable = _read(network, photos, limit)
    right, check = _classify(network, pixels, labels)
    best = check = check._replace(unreadable=unreadable)
    transform = network.transform
    old_mean, old_std = _column(transform.mean), _column(transform.std)
    for mean, std in NORMALISATIONS if network.transform_assumed or check.low else ():
        if np.allclose(mean, transform.mean) and np.allclose(std, transform.std):
            continue
        normalised = (pixels * old_std + old_mean - _column(mean)) / _column(std)
        other_right, other = _classify(network, normalised, labels)
        gain = other_right.astype(float) - right
        clear = 100 * gain.mean() > max(BETTER, 200 * gain.std() / len(gain) ** 0.5)
        if clear and not other.low and other.accuracy > (best.better_accuracy or 0):  # still low: no cure
            better = replace(transform, mean=mean, std=std).to_dict()
            best = check._replace(better=better, better_accuracy=other.accuracy)
    return best


def describe_photos(network: Network) -> str:
    """How photos are prepared for a network, in a line; with a warning where that is a guess."""
    if not network.takes_photos:
        return f"The network takes rows of {network.num_features} features, no photos."
    transform = network.transform
    size, resize = transform.size, transform.resize
    first = f"squashed to {resize} x {resize} px" if transform.squash else f"short side to {resize} px"
    centre = "" if transform.squash and size == resize else f", centre {size} x {size}"
    text = f"Photos: {first} ({transform.interpolation}){centre}, {_normalisation(transform.mean, transform.std)}."
    guess = " This is an assumption: give its transform if it was trained otherwise, or check it on labelled photos."
    return text + guess * network.transform_assumed


def describe_check(check: Check) -> list[str]:
    """What the user should know about it."""
    photos = f"{check.photos} photos of {check.classes} seen classes"
    lines = [f"On {photos} the network is right for {check.accuracy} %; its confidence promises {check.expected} %."]
    if check.better is not None:
        other = _normalisation(check.better["mean"], check.better["std"])
        lines.append(f"warning: with {other} it is right for {check.better_accuracy} %. Give that transform.")
    elif check.low:
        lines.append(
            "warning: that is far below what it should have. Are photos prepared as in its training, are the class ids "
            "in the order of its outputs, and are the photos in the right folders?"
        )
    if check.unreadable:
        lines.append(f"{check.unreadable} of the photos could not be read.")
    return lines


def _normalisation(mean: Sequence[float], std: Sequence[float]) -> str:
    grey = [values if len(set(values)) > 1 else values[:1] for values in (mean, std)]
    return "mean {}, deviation {}".format(*(" ".join(f"{value:.4g}" for value in values) for values in grey))


def _column(values: Sequence[float]) -> Tensor:
    return torch.tensor(values, dtype=torch.float32).view(3, 1, 1)


def _read(network: Network, photos: Mapping[str, Sequence[Any]], limit: int) -> tuple[Tensor, np.ndarray, int]:
    """Photos of every class in turn (N x 3 x H x W), the numbers of their outputs, and how many could not be read."""
    output = {id: number for number, id in enumerate(network.class_ids)}
    classes = [[(photo, id) for photo in some] for id, some in photos.items()]
    pixels, labels, unreadable = [], [], 0
    for photo, id in filter(None, chain.from_iterable(zip_longest(*classes))):
        if len(pixels) == limit:
            break
        try:
            pixels.append(network.transform.open(photo))
            labels.append(output[id])
        except UnreadablePhoto:
            unreadable += 1
    if not pixels:
        raise UnseenError("No photo of a class that the network knows can be read: it cannot be checked.")
    return torch.stack(pixels), np.array(labels), unreadable


def _classify(network: Network, pixels: Tensor, labels: np.ndarray) -> tuple[np.ndarray, Check]:
    """Which photos the head is right for, and its accuracy and confidence."""
    head = torch.from_numpy(network.classifiers())
    features = torch.cat([network.features(part).cpu() for part in pixels.split(BATCH)])
    probabilities = (features @ head[:, :-1].T + head[:, -1]).softmax(1).numpy()
    right = probabilities.argmax(1) == labels
    accuracy, expected = (round(100 * float(values.mean()), 1) for values in (right, probabilities.max(1)))
    return right, Check(len(labels), len(set(labels.tolist())), accuracy, expected)
