"""Networks of the user's own: finding their classifier, and refusing what cannot work with a reason."""

from __future__ import annotations

import threading

import pytest
import torch
from safetensors.torch import save_file
from torch import nn

from unseen.networks.base import Network
from unseen.networks.custom import from_module, read_weights
from unseen.networks.loading import load_network
from unseen.photos.transforms import PhotoTransform
from unseen.util.errors import UnseenError

SMALL = PhotoTransform(16)
IDS = ["cat", "dog", "emu"]


class Net(nn.Module):
    """A convolution, a hidden linear layer, a classifier; registered in another order than they run."""

    def __init__(self, classes: int = 3, hidden: int = 5, bias: bool = True):
        super().__init__()
        self.head = nn.Linear(hidden, classes, bias=bias)
        self.conv = nn.Conv2d(3, 4, 3)
        self.hidden = nn.Linear(4, hidden)
        self.unused = nn.Linear(7, classes)

    def features(self, x):
        return torch.relu(self.hidden(self.conv(x).mean((2, 3))))

    def forward(self, x):
        return self.head(self.features(x))


def build_net() -> nn.Module:
    """What `load_network("...test_custom_network:build_net")` calls."""
    torch.manual_seed(0)
    return Net()


def build_network() -> Network:
    return from_module(build_net(), IDS, SMALL)


not_callable = 3


def build_nothing():
    return None


def test_the_classifier_is_found_and_its_input_are_the_features():
    net = Net()
    network = from_module(net, IDS, SMALL)
    x = torch.randn(4, 3, 16, 16)
    assert network.get_classifier() is net.head
    assert network.class_ids == ("cat", "dog", "emu") and network.num_features == 5
    with torch.no_grad():
        assert torch.equal(network.features(x), net.features(x))
        assert torch.equal(network(x), net(x))
    network.forward_pre_logits(x).sum().backward()
    assert net.conv.weight.grad.any() and net.head.weight.grad is None
    assert not net.head._forward_pre_hooks  # nothing is left behind in the user's network


def test_a_missing_bias_is_zero():
    classifiers = from_module(Net(bias=False), IDS, SMALL).classifiers()
    assert classifiers.shape == (3, 6) and not classifiers[:, -1].any()


def test_several_possible_classifiers_are_refused_unless_one_is_named():
    class Two(Net):
        def __init__(self):
            super().__init__()
            self.other = nn.Linear(5, 3)

        def forward(self, x):
            return self.head(self.features(x)), self.other(self.features(x))

    with pytest.raises(UnseenError, match=r"'head', 'other'.*layer='other'"):
        from_module(Two(), IDS, SMALL)
    assert from_module(Two(), IDS, SMALL, layer="head").layer == "head"
    with pytest.raises(UnseenError, match="answers come from"):
        from_module(Two(), IDS, SMALL, layer="other")


class Tokens(nn.Module):
    """Scores every position, then averages: its classifier has no one row of features."""

    def __init__(self):
        super().__init__()
        self.head = nn.Linear(3, 3)

    def forward(self, x):
        return self.head(x.flatten(2).transpose(1, 2)).mean(1)


class Twice(Net):
    def forward(self, x):
        return self.head(self.features(x)) + self.head(self.features(x.flip(3)))


@pytest.mark.parametrize(
    ("make", "options", "reason"),
    [
        (lambda: Net(classes=4), {}, "No linear layer has 3 outputs.*'head' with 4 outputs"),
        (Net, {"layer": "nope"}, "no linear layer named 'nope'. It has: .*'head'"),
        (Net, {"layer": "conv"}, "no linear layer named 'conv'"),
        (Net, {"layer": "unused"}, "takes no part"),
        (Net, {"layer": "hidden"}, "5 outputs, but 3 class ids"),
        (Net, {"transform": lambda image: image}, "PhotoTransform"),
        (Tokens, {}, r"for two photos \(2, 256, 3\)"),
        (Twice, {}, r"\(2, 5\) and \(2, 5\)"),
        (
            lambda: nn.Sequential(nn.Flatten(), nn.Linear(3 * 64, 3)),
            {},
            "does not take photos of 3 x 16 x 16.*PhotoTransform",
        ),
        (lambda: nn.Sequential(nn.Conv2d(3, 3, 1), nn.AdaptiveAvgPool2d(1)), {}, "1 x 1 convolution '0'.*nn.Linear"),
        (lambda: "not a network", {}, "not str"),
    ],
)
def test_what_cannot_work_is_refused_with_a_reason(make, options, reason):
    with pytest.raises(UnseenError, match=reason):
        from_module(make(), IDS, **{"transform": SMALL, **options})


def test_threads_do_not_mix_their_features():
    network = from_module(Net(), IDS, SMALL)
    batches = [torch.randn(8, 3, 16, 16) for _ in range(4)]
    expected = [network.features(batch) for batch in batches]
    wrong = []

    def work(i: int):
        for _ in range(50):
            if not torch.equal(network.features(batches[i]), expected[i]):
                wrong.append(i)

    threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_an_importable_callable():
    network = load_network(f"{__name__}:build_net", classes=IDS, transform=SMALL)
    assert network.name == f"{__name__}:build_net" and network.transform == SMALL
    made = load_network(f"{__name__}:build_network")
    assert made.class_ids == tuple(IDS) and made.name == f"{__name__}:build_network"
    assert made.checksum == network.checksum


@pytest.mark.parametrize(
    ("name", "reason"),
    [
        ("no_such_module:build", "no Python module 'no_such_module'"),
        ("torch.no_such_part:build", "no Python module 'torch.no_such_part'"),
        (f"{__name__}:no_such_function", "has no attribute 'no_such_function'"),
        (f"{__name__}:not_callable", "nn.Module, not int"),
        (f"{__name__}:build_nothing", "return an nn.Module, not NoneType"),
        (f"{__name__}:build_net", "give the ids of its classes"),
    ],
)
def test_a_wrong_callable_is_refused_with_a_reason(name, reason):
    with pytest.raises(UnseenError, match=reason):
        load_network(name)


@pytest.mark.parametrize("form", ["safetensors", "torch", "checkpoint", "distributed", "arrays"])
def test_weights_from_a_file(form, tmp_path):
    net = Net()
    state, path = net.state_dict(), tmp_path / "weights.pth"
    if form == "safetensors":
        path = tmp_path / "weights.safetensors"
        save_file(state, path)
    elif form == "checkpoint":
        torch.save({"epoch": 3, "state_dict": state}, path)
    elif form == "distributed":
        torch.save({f"module.{name}": value for name, value in state.items()}, path)
    elif form == "arrays":
        path = {name: value.numpy() for name, value in state.items()}
    else:
        torch.save(state, path)
    network = load_network(f"{__name__}:build_net", IDS, weights=path, transform=SMALL)
    assert network.checksum == from_module(net, IDS, SMALL).checksum


class Harmful:
    def __reduce__(self):
        return (exec, ("raise RuntimeError('code was run')",))


def test_files_that_are_not_weights_are_refused(tmp_path):
    torch.save(Net(), tmp_path / "pickled.pt")
    torch.save({"x": Harmful()}, tmp_path / "harmful.pt")
    torch.save([1, 2], tmp_path / "list.pt")
    (tmp_path / "text.pt").write_text("hello")
    (tmp_path / "table.csv").write_text("id,name\nn01,cat\n")
    (tmp_path / "empty.pt").touch()
    (tmp_path / "cut.pt").write_bytes((tmp_path / "list.pt").read_bytes()[:100])
    (tmp_path / "text.safetensors").write_text("hello")
    for name, reason in (
        ("pickled.pt", "could run code"),
        ("harmful.pt", "could run code"),
        ("list.pt", "state dict"),
        ("text.pt", "is not a file of weights"),
        ("table.csv", "is not a file of weights"),
        ("empty.pt", "is not a file of weights"),
        ("cut.pt", "not a readable torch file"),
        ("text.safetensors", "not a readable safetensors"),
        ("missing.pt", "no such file"),
    ):
        with pytest.raises(UnseenError, match=reason):
            read_weights(tmp_path / name)


def test_weights_that_do_not_fit_say_what_is_wrong():
    network, state = from_module(Net(), IDS, SMALL), Net(classes=4).state_dict()
    del state["conv.bias"]
    state["extra"] = torch.zeros(1)
    before = network.checksum
    with pytest.raises(
        UnseenError, match=r"1 missing \(conv.bias\); 1 unknown \(extra\); 4 of another shape \(head.weight"
    ):
        network.load_weights(state)
    assert network.checksum == before  # refused before anything was changed


class WithPrior(nn.Module):
    """Subtracts the log of how frequent classes were, after its last layer."""

    def __init__(self, prior: torch.Tensor | None, end: nn.Module | None = None):
        super().__init__()
        self.body = nn.Sequential(nn.Conv2d(3, 8, 3), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten())
        self.fc, self.prior, self.end = nn.Linear(8, 5), prior, end or nn.Identity()

    def forward(self, x):
        logits = self.fc(self.body(x))
        return self.end(logits if self.prior is None else logits - self.prior)


class TwoHeads(WithPrior):
    """As a distilled DeiT: the mean of two layers."""

    def __init__(self):
        super().__init__(None)
        self.other = nn.Linear(8, 5)

    def forward(self, x):
        features = self.body(x)
        return (self.fc(features) + self.other(features)) / 2


FIVE, SMALL_PHOTOS = list("abcde"), PhotoTransform(32)


@pytest.mark.parametrize("module", [WithPrior(torch.arange(5.0)), TwoHeads()])
def test_a_layer_that_is_not_the_networks_answer_is_refused(module):
    with pytest.raises(UnseenError, match=r"'fc' is not what the network's answers come from.*fold that into"):
        from_module(module, FIVE, SMALL_PHOTOS, layer="fc")


@pytest.mark.parametrize("end", [None, nn.Softmax(dim=1), nn.LogSoftmax(dim=1), nn.Sigmoid()])
def test_what_keeps_the_order_of_classes_is_no_matter(end):
    assert from_module(WithPrior(None, end), FIVE, SMALL_PHOTOS).layer == "fc"
    assert from_module(WithPrior(torch.full((5,), 3.0), end), FIVE, SMALL_PHOTOS).layer == "fc"  # the same for all


def test_an_output_in_a_form_of_its_own_is_not_compared():
    assert from_module(WithPrior(torch.arange(5.0), Named()), FIVE, SMALL_PHOTOS).num_features == 8
    with pytest.raises(UnseenError, match="answers come from"):
        from_module(WithPrior(torch.arange(5.0), InATuple()), FIVE, SMALL_PHOTOS)


class Named(nn.Module):
    def forward(self, x):
        return {"scores": x[:, :2]}


class InATuple(nn.Module):
    def forward(self, x):
        return x, None
