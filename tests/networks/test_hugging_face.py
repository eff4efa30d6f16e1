"""Image classifiers of transformers: real ones, small, with random weights, saved by their own library."""

from __future__ import annotations

import json

import numpy as np
import pytest
import torch
from PIL import Image

from unseen.data import imagenet_1k
from unseen.networks.loading import load_network
from unseen.networks.model_zoos import transform_of
from unseen.photos.transforms import PhotoTransform
from unseen.util.errors import UnseenError

IDS = ["cat", "dog", "emu"]
LABELS = dict(enumerate(IDS))


@pytest.fixture(scope="module")
def transformers():
    return pytest.importorskip("transformers")


@pytest.fixture(scope="module")
def folders(transformers, tmp_path_factory):
    """A vision transformer, a ResNet and a ConvNeXT, each with its processor."""
    torch.manual_seed(0)
    vit = transformers.ViTConfig(
        hidden_size=16, num_hidden_layers=1, num_attention_heads=2, intermediate_size=32, image_size=32, patch_size=8,
        id2label=LABELS,
    )  # fmt: skip
    resnet = transformers.ResNetConfig(
        embedding_size=8, hidden_sizes=[8, 16], depths=[1, 1], layer_type="basic", id2label=LABELS
    )
    convnext = transformers.ConvNextConfig(hidden_sizes=[8, 8, 8, 8], depths=[1, 1, 1, 1], id2label=LABELS)
    made = {
        "vit": (
            transformers.ViTForImageClassification(vit),
            transformers.ViTImageProcessor(size={"height": 32, "width": 32}, image_mean=[0.1, 0.2, 0.3]),
        ),
        "resnet": (
            transformers.ResNetForImageClassification(resnet),
            transformers.ConvNextImageProcessor(size={"shortest_edge": 48}, crop_pct=0.75),
        ),
        "convnext": (
            transformers.ConvNextForImageClassification(convnext),
            transformers.CLIPImageProcessor(size={"shortest_edge": 40}, crop_size={"height": 32, "width": 32}),
        ),
    }
    folder = tmp_path_factory.mktemp("models")
    for name, (model, processor) in made.items():
        model.eval().save_pretrained(folder / name)
        processor.save_pretrained(folder / name)
    return folder, made


@pytest.mark.parametrize(("name", "size"), [("vit", 32), ("resnet", 48), ("convnext", 32)])
def test_a_folder(folders, name, size):
    folder, made = folders
    model, processor = made[name]
    network = load_network(f"hf:{folder / name}")
    assert network.name == f"hf:{folder / name}" and network.class_ids == tuple(IDS)
    assert network.transform.size == size and not network.transform_assumed
    rng = np.random.default_rng(0)
    smooth = Image.fromarray(rng.integers(0, 256, (6, 8, 3), dtype=np.uint8)).resize((80, 60), Image.Resampling.BICUBIC)
    theirs = processor(smooth, return_tensors="pt")["pixel_values"]
    ours = network.transform(smooth)[None]
    assert theirs.shape == ours.shape and (theirs - ours).abs().mean() < 0.03  # they resize tensors, we photos
    with torch.no_grad():
        assert torch.allclose(network(theirs), model(theirs).logits, atol=1e-5)


@pytest.mark.parametrize(
    ("processor", "expected"),
    [
        (
            {"size": {"shortest_edge": 256}, "do_center_crop": True, "crop_size": {"height": 224, "width": 224},
             "image_mean": [0.5] * 3, "image_std": [0.5] * 3, "resample": 3},
            PhotoTransform(224, (0.5,) * 3, (0.5,) * 3, "bicubic", resize=256),
        ),
        (
            {"size": {"height": 384, "width": 384}, "image_mean": 0.5, "image_std": 0.25},
            PhotoTransform(384, (0.5,) * 3, (0.25,) * 3, "bilinear", resize=384, squash=True),
        ),
        (
            {"size": 224, "do_normalize": False, "rescale_factor": 1 / 127.5, "rescale_offset": True},
            PhotoTransform(224, (0.5,) * 3, (0.5,) * 3, "bilinear", resize=224, squash=True),
        ),
        (
            {"size": {"shortest_edge": 384}, "crop_pct": 0.875, "image_mean": [0] * 3, "image_std": [1] * 3},
            PhotoTransform(384, (0,) * 3, (1,) * 3, "bilinear", resize=384, squash=True),
        ),
    ],
)  # fmt: skip
def test_what_a_processor_says(processor, expected):
    transform = transform_of(processor)
    assert np.allclose(transform.mean, expected.mean) and np.allclose(transform.std, expected.std)
    for field in ("size", "resize", "squash", "interpolation"):
        assert getattr(transform, field) == getattr(expected, field)


@pytest.mark.parametrize(
    ("processor", "reason"),
    [
        ({"size": {"height": 200, "width": 300}}, "square photos"),
        ({"size": {"height": 200, "width": 200}, "do_resize": False}, "how large photos become"),
        ({"size": {"shortest_edge": 32}, "resample": 4}, "interpolation 4"),
    ],
)
def test_processors_that_are_not_supported(processor, reason):
    with pytest.raises(UnseenError, match=reason):
        transform_of(processor)


def copy_of(folder, target, **changes):
    target.mkdir()
    for file in folder.iterdir():
        (target / file.name).write_bytes(file.read_bytes())
    config = json.loads((target / "config.json").read_text())
    (target / "config.json").write_text(json.dumps(config | changes))
    return target


def test_without_a_processor_the_transform_is_an_assumption(folders, tmp_path):
    folder = copy_of(folders[0] / "vit", tmp_path / "vit")
    (folder / "preprocessor_config.json").unlink()
    network = load_network(f"hf:{folder}")
    assert network.transform_assumed and network.transform == PhotoTransform(32)
    told = load_network(f"hf:{folder}", transform=PhotoTransform(32, squash=True))
    assert not told.transform_assumed and told.transform.squash


def test_nameless_classes_must_be_given(folders, tmp_path):
    nameless = {str(number): f"LABEL_{number}" for number in range(3)}
    folder = copy_of(folders[0] / "vit", tmp_path / "vit", id2label=nameless)
    with pytest.raises(UnseenError, match="in the order of its 3 outputs"):
        load_network(f"hf:{folder}")
    assert load_network(f"hf:{folder}", IDS).class_ids == tuple(IDS)
    with pytest.raises(UnseenError, match="3 outputs, but 2 class ids"):
        load_network(f"hf:{folder}", IDS[:2])


def test_imagenet_is_known_by_its_names(transformers, tmp_path):
    labels = {number: f"thing {number}" for number in range(1000)} | {0: "tench, Tinca tinca", 999: "toilet tissue"}
    config = transformers.ResNetConfig(embedding_size=4, hidden_sizes=[4], depths=[1], id2label=labels)
    transformers.ResNetForImageClassification(config).save_pretrained(tmp_path)
    assert load_network(f"hf:{tmp_path}").class_ids == imagenet_1k()


def test_old_torch_files_are_read_without_running_code(folders, tmp_path):
    folder = copy_of(folders[0] / "resnet", tmp_path / "resnet")
    (folder / "model.safetensors").unlink()
    state = folders[1]["resnet"][0].state_dict()
    torch.save(state, folder / "pytorch_model.bin")
    assert load_network(f"hf:{folder}").checksum == load_network(f"hf:{folders[0] / 'resnet'}").checksum
    torch.save({"model": folders[1]["resnet"][0]}, folder / "pytorch_model.bin")
    with pytest.raises(UnseenError, match="could run code"):
        load_network(f"hf:{folder}")


def test_what_is_no_trained_classifier_is_refused(folders, tmp_path):
    model = folders[1]["vit"][0]
    model.vit.save_pretrained(tmp_path / "headless")
    with pytest.raises(UnseenError, match="lacks classifier"):
        load_network(f"hf:{tmp_path / 'headless'}")
    with pytest.raises(UnseenError, match="no such folder"):
        load_network("hf:./no/such/folder")
    (tmp_path / "empty").mkdir()
    with pytest.raises(UnseenError, match=r"no config.json"):
        load_network(f"hf:{tmp_path / 'empty'}")
    (tmp_path / "empty" / "config.json").write_text('{"model_type": "no such thing"}')
    with pytest.raises(UnseenError, match="can be loaded"):
        load_network(f"hf:{tmp_path / 'empty'}")


def test_code_in_a_folder_is_never_run(folders, tmp_path):
    """transformers would import the modules that `auto_map` names, if it were allowed to."""
    ran = tmp_path / "ran"
    for weights in ("model.safetensors", "pytorch_model.bin"):
        folder = copy_of(
            folders[0] / "vit",
            tmp_path / weights.partition(".")[2],
            model_type="nobody_knows_this",
            auto_map={"AutoConfig": "code.Config", "AutoModelForImageClassification": "code.Model"},
        )
        if weights == "pytorch_model.bin":
            (folder / "model.safetensors").unlink()
            torch.save(folders[1]["vit"][0].state_dict(), folder / weights)
        (folder / "code.py").write_text(f"open({str(ran)!r}, 'w').close()\n")
        processor = folder / "preprocessor_config.json"
        settings = json.loads(processor.read_text()) | {"auto_map": {"AutoImageProcessor": "code.Processor"}}
        processor.write_text(json.dumps(settings | {"image_processor_type": "NobodyKnowsThis"}))
        with pytest.raises(UnseenError, match="can be loaded"):
            load_network(f"hf:{folder}")
        assert not ran.exists()
    folder = copy_of(folders[0] / "vit", tmp_path / "processor")
    (folder / "code.py").write_text(f"open({str(ran)!r}, 'w').close()\n")
    (folder / "preprocessor_config.json").write_text(processor.read_text())
    assert load_network(f"hf:{folder}").transform_assumed and not ran.exists()
