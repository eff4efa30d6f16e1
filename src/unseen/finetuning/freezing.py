"""What a finetuning leaves as it is: the last layer always, the first stages and batch-norm if asked."""

from __future__ import annotations

from torch import nn

from unseen.backbones import Backbone
from unseen.errors import UnseenError


def stages(backbone: Backbone) -> list[list[nn.Module]]:
    """The network's parts from the photo on, the last layer left out.

    They are its children, a sequence of blocks taken apart; a normalisation goes with what it follows.
    """
    last, parts = backbone.get_classifier(), []
    for child in backbone.module.children():
        parts += list(child.children()) if isinstance(child, nn.Sequential) else [child]
    found: list[list[nn.Module]] = []
    for part in parts:
        if part is last or not any(True for _ in part.parameters()):
            continue
        if _is_batch_norm(part) and found:
            found[-1].append(part)
        else:
            found.append([part])
    return found


def freeze(backbone: Backbone, first_stages: int, batch_norm: bool) -> None:
    """Mark what gets no gradient."""
    backbone.requires_grad_(True)
    backbone.get_classifier().requires_grad_(False)
    for module in _kept(backbone, first_stages, batch_norm):
        module.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in backbone.parameters()):
        raise UnseenError(
            f"with its first {first_stages} stages frozen nothing of {backbone.name} is left to train: "
            f"it has {len(stages(backbone))}"
        )


def set_training_mode(backbone: Backbone, first_stages: int, batch_norm: bool) -> None:
    """Training mode, but evaluation mode for what is frozen, so that its running statistics stay as well."""
    backbone.train()
    for module in _kept(backbone, first_stages, batch_norm):
        module.eval()


def _kept(backbone: Backbone, first_stages: int, batch_norm: bool) -> list[nn.Module]:
    kept = [module for stage in stages(backbone)[:first_stages] for module in stage]
    return kept + ([module for module in backbone.modules() if _is_batch_norm(module)] if batch_norm else [])


def _is_batch_norm(module: nn.Module) -> bool:
    return isinstance(module, nn.modules.batchnorm._BatchNorm)
