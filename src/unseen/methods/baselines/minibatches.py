"""Adam over batches of photos, for the baselines that learn from them by gradient."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from unseen.methods.settings import AT_LEAST_1, NOT_NEGATIVE
from unseen.runtime.progress import progress
from unseen.runtime.run import Run

if TYPE_CHECKING:
    import torch

# Of the settings of all methods that learn this way.
LIMITS = {"epochs": AT_LEAST_1, "batch": AT_LEAST_1, "learning_rate": NOT_NEGATIVE, "weight_decay": NOT_NEGATIVE}


def minimise(
    what: str,
    loss_of: Callable[[torch.Tensor], torch.Tensor],
    photos: int,
    optimiser: torch.optim.Optimizer,
    settings: Any,  # .epochs and .batch
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
