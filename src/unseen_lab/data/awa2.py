"""AWA2, Animals with Attributes 2 (Xian et al.): its classes, and what its folders, such as blue+whale, mean."""

from __future__ import annotations

from collections.abc import Collection

from unseen.networks import register_folders

# AWA2's fifty classes: its names, and the ids that the paper's authors give them, by the proposed split.
AWA2_TEST = {
    "sheep": "n02411705", "dolphin": "n02068974", "bat": "n02139199", "seal": "n02076196", "blue+whale": "n02064816",
    "rat": "n02331046", "horse": "n02374451", "walrus": "n02081571", "giraffe": "n02439033", "bobcat": "n02127482",
}  # fmt: skip
AWA2_TRAIN = {
    "killer+whale": "n02071294", "beaver": "n02363005", "dalmatian": "n02110341", "persian+cat": "n02123394",
    "german+shepherd": "n02106662", "siamese+cat": "n02123597", "skunk": "n02445715", "mole": "n01889520",
    "tiger": "n02129604", "hippopotamus": "n02398521", "leopard": "n02128385", "spider+monkey": "n02493793",
    "elephant": "n02503517", "gorilla": "n02480855", "ox": "n02403003", "chimpanzee": "n02481823",
    "hamster": "n02342885", "fox": "n02118333", "squirrel": "n02355227", "rabbit": "n02324045", "wolf": "n02114100",
    "chihuahua": "n02085620", "weasel": "n02441942", "otter": "n02444819", "buffalo": "n02410702",
    "zebra": "n02391049", "giant+panda": "n02510455", "pig": "n02395406", "lion": "n02129165",
    "polar+bear": "n02134084", "collie": "n02106030", "cow": "n02403454", "deer": "n02430045", "mouse": "n02330245",
    "humpback+whale": "n02065726", "antelope": "n02419796", "grizzly+bear": "n02132580", "rhinoceros": "n02391994",
    "raccoon": "n02508021", "moose": "n02432983",
}  # fmt: skip
AWA2_CLASSES = {**AWA2_TEST, **AWA2_TRAIN}


def read_folders(names: Collection[str]) -> dict[str, str]:
    """The class ids of AWA2's folders, where these are AWA2's. One or two of its names prove nothing: a mouse may
    belong to a computer."""
    known = AWA2_CLASSES.keys() & set(names)
    is_awa2 = any("+" in name for name in known) or (len(known) >= 5 and len(known) == len(names))
    return {name: AWA2_CLASSES[name] for name in known} if is_awa2 else {}


register_folders(read_folders)
