"""Adam over batches of photos, for the baselines that learn from them by gradient."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated

from unseen.methods.settings import AT_LEAST_1, NOT_NEGATIVE
from unseen.runtime.progress import progress
from unseen.runtime.run import Run

if TYPE_CHECKING:
    import torch


@dataclass(frozen=True)
class MinibatchSettings:
    """What the methods that learn this way share.

    Args:
        epochs: Passes over the photos.
        batch: Photos a step.
        learning_rate: Adam's.
        weight_decay: Factor of the L2 term.
    """

    epochs: Annotated[int, AT_LEAST_1] = 100
    batch: Annotated[int, AT_LEAST_1] = 256
    learning_rate: Annotated[float, NOT_NEGATIVE] = 1e-2
    weight_decay: Annotated[float, NOT_NEGATIVE] = 1e-4


def minimise(
    what: str,
    loss_of: Callable[[torch.Tensor], torch.Tensor],
    photos: int,
    optimiser: torch.optim.Optimizer,
    settings: MinibatchSettings,
    generator: torch.Generator,
    run: Run,
) -> float:
    """Take steps down `loss_of(chosen photos)`; the mean loss over the last epoch."""
    import torch

    mean = 0.0
    with progress(what, settings.epochs, run.show_progress) as bar:
        for epoch in range(settings.epochs):
            total = 0.0
            for chosen in torch.randperm(photos, generator=generator).split(settings.batch):
                loss = loss_of(chosen)
                optimiser.zero_grad()
                loss.backward()
                optimiser.step()
                total += loss.item() * len(chosen)
            mean = total / photos
            run.log(epoch=epoch + 1, loss=mean)
            bar.advance(1, loss=f"{mean:.4f}")
    return mean
