"""How photos are prepared for a network, in a line; and whether that is right, on a few labelled photos.

A wrong mean or size raises no error, it only costs accuracy.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, islice, zip_longest
from typing import Any

import numpy as np

from unseen.networks.base import Network
from unseen.networks.run import OnnxNetwork
from unseen.photos import UnreadablePhoto
from unseen.util.errors import UnseenError

MAX_PHOTOS = 200
FAR = 20.0  # points of accuracy below the network's own confidence


def describe_photos(network: Network | OnnxNetwork) -> str:
    """How photos are prepared for a network, with a warning where that is a guess."""
    if not network.takes_photos:
        return f"The network takes rows of {network.num_features} features, no photos."
    guess = " This is an assumption: give its transform if it was trained otherwise, or check it on labelled photos."
    return f"Photos: {network.transform.describe()}." + guess * network.transform_assumed


def check_photos(network: Network | OnnxNetwork, photos: Mapping[str, Sequence[Any]]) -> dict[str, Any]:
    """The accuracy of the network's head, and the mean of its confidence, in per cent, on photos by class id."""
    if not network.takes_photos:
        raise UnseenError("The network takes features, no photos: photos cannot be checked.")
    classes = [[(photo, id) for photo in some] for id, some in photos.items()]
    pixels, labels, unreadable = [], [], 0
    for photo, id in islice(filter(None, chain.from_iterable(zip_longest(*classes))), MAX_PHOTOS):
        try:
            pixels.append(network.transform.open_array(photo))
            labels.append(network.class_ids.index(id))
        except UnreadablePhoto:
            unreadable += 1
    if not pixels:
        raise UnseenError("No photo of a class that the network knows can be read: it cannot be checked.")
    head = network.classifiers()
    scores = network.features_of(np.stack(pixels)) @ head[:, :-1].T + head[:, -1]
    shares = np.exp(scores - scores.max(1, keepdims=True))
    confidence, right = shares.max(1) / shares.sum(1), scores.argmax(1) == labels
    accuracy, expected = (round(100 * float(values.mean()), 1) for values in (right, confidence))
    about = {"photos": len(labels), "classes": len(set(labels)), "unreadable": unreadable}
    return about | {"accuracy": accuracy, "expected": expected}


def describe_check(check: Mapping[str, Any]) -> list[str]:
    """What the user should know about it."""
    photos = f"{check['photos']} photos of {check['classes']} seen classes"
    found = (
        f"On {photos} the network is right for {check['accuracy']} %; its confidence promises {check['expected']} %."
    )
    lines = [found, f"{check['unreadable']} of the photos could not be read."][: 1 + bool(check["unreadable"])]
    if check["accuracy"] < check["expected"] - max(FAR, 100 / check["photos"] ** 0.5):  # more than chance explains
        lines.append(
            "warning: that is far below what it should have. Are photos prepared as in its training, are the class ids "
            "in the order of its outputs, and are the photos in the right folders?"
        )
    return lines
