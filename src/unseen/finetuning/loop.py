"""Stage 2 in one process: what a step does, what a checkpoint holds, validation. `finetuning.stage2` is the way in.

Chance follows from (seed, epoch, photo) and (seed, step) alone: what a step computes depends neither on the worker
processes nor on where a run was interrupted.
"""

from __future__ import annotations

import hashlib
import math
import time
from collections.abc import Iterable
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unseen.backbones import Backbone
from unseen.bundle import Bundle
from unseen.bundle.records import FinetuneRecord, Validation
from unseen.errors import UnseenError
from unseen.finetuning.freezing import freeze, set_training_mode
from unseen.finetuning.frozen_batches import FrozenBatches, can_share
from unseen.finetuning.photo_sets import PhotoSet
from unseen.finetuning.settings import FinetuneSettings
from unseen.finetuning.training_data import (
    Batch,
    BatchPlan,
    EvaluationPhotos,
    TrainingPhotos,
    load_batches,
    split_off_validation,
)
from unseen.runtime.loops import TrainingLoop
from unseen.runtime.memory import peak_memory_mb
from unseen.runtime.processes import Processes
from unseen.runtime.run import Run
from unseen.runtime.workers import watch_workers

LISTED = 100  # unreadable photos that a bundle names


def identify(bundle: Bundle, photos: PhotoSet) -> dict[str, str]:
    """What a finetuning is made from: the network and the classifiers that it begins with, and the list of photos."""
    classifiers = hashlib.sha256(bundle.solution.classifiers[bundle.seen].tobytes()).hexdigest()
    return {"network": bundle.backbone.checksum[:12], "classifiers": classifiers[:12], "photo_list": photos.digest()}


class SeenHead(nn.Module):
    """Photos B x 3 x H x W, or what the last stage sees of them -> logits B x M under frozen classifiers (M x P)."""

    def __init__(self, backbone: Backbone, classifiers: np.ndarray):
        super().__init__()
        self.backbone = backbone
        # Parameters, not buffers: several processes would send each other buffers at every step.
        self.weight = nn.Parameter(torch.from_numpy(classifiers[:, :-1].astype(np.float32)), requires_grad=False)
        self.bias = nn.Parameter(torch.from_numpy(classifiers[:, -1].astype(np.float32)), requires_grad=False)

    def forward(self, x: Tensor, at_last_stage: bool = False) -> Tensor:
        network = self.backbone
        mapped = network.module.forward_last_stage(x) if at_last_stage else network.forward_features(x)
        return F.linear(network.forward_head(mapped, pre_logits=True), self.weight, self.bias)


class Stage2(TrainingLoop):
    """One finetuning in this process: network, photos, optimiser."""

    def __init__(
        self,
        bundle: Bundle,
        network: Backbone,
        photos: PhotoSet,
        settings: FinetuneSettings,
        run: Run,
        processes: Processes,
        workers: int = 0,
        shared: Path | None = None,
    ):
        self.train_photos, self.validation = split_off_validation(photos, settings.validation, run.seed)
        size = settings.batch * settings.accumulate
        self.plan = BatchPlan(len(self.train_photos), size, processes.rank, processes.world, run.seed)
        self.made_from = identify(bundle, photos)
        identity = {
            **{key: value for key, value in asdict(settings).items() if key != "patience"},
            "seed": run.seed,
            "processes": processes.world,
            "photos": len(self.train_photos),
            **self.made_from,
        }
        super().__init__(run, settings.epochs * self.plan.steps, identity, processes)
        self.settings, self.workers, self.device = settings, workers, processes.device
        self.kept = (settings.freeze_stages, settings.freeze_batch_norm)
        self.network = network.to(self.device)
        self.network.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
        self.frozen: FrozenBatches | None = None
        if shared is not None and can_share(self.network, settings.freeze_stages):
            same = ("seed", "processes", "photos", "photo_list", "batch", "accumulate", "validation")
            asked = {key: identity[key] for key in same} | {"rank": processes.rank}
            self.frozen = FrozenBatches(shared, self.network, asked)
        freeze(self.network, *self.kept)
        self.head = SeenHead(self.network, bundle.solution.classifiers[bundle.seen]).to(self.device)
        # A class without photos is never the right answer: in the loss it would only be pushed away from all of them.
        self.absent = torch.ones(len(bundle.seen), dtype=torch.bool, device=self.device)
        self.absent[torch.from_numpy(np.unique(photos.labels)).to(self.device, torch.long)] = False
        self.model = processes.parallel(self.head)
        self.trained = [parameter for parameter in self.network.parameters() if parameter.requires_grad]
        self.optimiser = torch.optim.SGD(
            self.trained, settings.learning_rate, settings.momentum, weight_decay=settings.weight_decay
        )
        half = settings.mixed_precision and self.device.type == "cuda"
        self.dtype = torch.float32 if not half else torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=self.dtype == torch.float16)
        self.window = Window()
        self.unreadable: dict[int, str] = {}  # photo -> reason
        self.best: Validation | None = None
        self.best_weights: dict[str, Tensor] = {}

    def train(self) -> None:
        """Train to the end, and leave the network with the weights to keep."""
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            advice = "Resume it with fewer workers, or with more (shared) memory."
            watch_workers(lambda: self.do_steps("Finetuning"), advice)
        self._share_unreadable()
        self.processes.copy_first(self.network.buffers())
        if self.best_weights:
            self._set_weights(self.best_weights)

    def record(self, photos: PhotoSet) -> FinetuneRecord:
        """The facts that a bundle keeps."""
        reasons = [self.unreadable[i] for i in sorted(self.unreadable)]
        return FinetuneRecord(
            epochs=math.ceil(self.step / self.plan.steps),
            steps=self.step,
            photos=len(self.train_photos),
            validation_photos=len(self.validation),
            seconds=round(self.seconds(), 1),
            photos_per_s=round(self._speed(), 2),
            unreadable=len(reasons),
            unreadable_photos=reasons[:LISTED],
            processes=self.processes.world,
            settings=asdict(self.settings),
            seed=self.run.seed,
            best_validation=self.best,
            peak_memory_mb=peak_memory_mb(),
            empty_classes=len(photos.empty_classes),
            skipped_classes=len(photos.skipped_classes),
            made_from=self.made_from,
        )

    # -- the steps -------------------------------------------------------------------------------------------------

    @property
    def ends_epoch(self) -> bool:
        return self.step % self.plan.steps == 0

    def batches(self) -> Iterable[Batch]:
        """This process's batches from the next step on: one loader for all epochs, so that none begins with a wait."""
        set_training_mode(self.network, *self.kept)
        photos = TrainingPhotos(self.train_photos, self.network.transform.for_training(), self.run.seed)

        def load(first: int, end: int) -> Iterable[Batch]:
            steps = self.plan.batches(first, end)
            return load_batches(photos, self.workers, batch_sampler=steps, pin_memory=self.device.type == "cuda")

        if self.frozen is None:
            return load(self.step, self.total)
        return self.frozen.batches(self.step, self.total, load)

    def is_logged(self) -> bool:
        return self.ends_epoch or super().is_logged()

    def end_step(self) -> None:
        if self.ends_epoch and len(self.validation):
            self._validate()
            set_training_mode(self.network, *self.kept)

    def update(self, batch: Batch) -> None:
        """One step of the optimiser; loss and right answers count as they were before it."""
        pixels, labels, failed = batch
        settings, size = self.settings, self.plan.size
        self.unreadable |= failed
        if pixels is None or len(labels) < size:
            raise UnseenError(f"{len(failed)} photos in a row cannot be read. {next(iter(failed.values()))}")
        for group in self.optimiser.param_groups:
            group["lr"] = settings.learning_rate_at(self.step, self.total)
        # Dropout and the like: the same for the same step, however often the run was interrupted before.
        torch.manual_seed(_seed(self.run.seed, self.step, self.processes.rank))
        loss_sum, right = (torch.zeros((), device=self.device) for _ in range(2))
        parts = list(zip(pixels.split(settings.batch), labels.split(settings.batch), strict=True))
        for number, (x, y) in enumerate(parts, 1):
            x = x.to(self.device, torch.float32, memory_format=torch.channels_last, non_blocking=True)
            y = y.to(self.device, non_blocking=True)
            with self.processes.gather_gradients(self.model, now=number == len(parts)):
                with nullcontext() if self.dtype == torch.float32 else torch.autocast(self.device.type, self.dtype):
                    logits = self.model(x, at_last_stage=self.frozen is not None)
                likely = (settings.scale * logits.float()).masked_fill(self.absent, -torch.inf)
                loss = F.cross_entropy(likely, y, reduction="sum")
                self.scaler.scale(loss / size).backward()
            loss_sum += loss.detach()
            right += (logits.detach().argmax(1) == y).sum()
        self.scaler.step(self.optimiser)
        self.scaler.update()
        self.optimiser.zero_grad(set_to_none=True)
        self.window.add(loss_sum, right, len(labels))

    def _speed(self) -> float:
        """Photos a second, of all processes, since this process began."""
        photos = (self.step - self.begun) * self.plan.size * self.processes.world
        return photos / max(time.monotonic() - self.started, 1e-9)

    def log(self) -> dict[str, str]:
        loss, accuracy = self.window.mean(self.processes)
        self.window = Window()
        self.check_finite(loss)
        speed = self._speed()
        if self.processes.rank == 0:
            self.run.log(
                step=self.step,
                epoch=math.ceil(self.step / self.plan.steps),
                loss=round(loss, 5),
                accuracy=round(accuracy, 2),
                photos_per_s=round(speed, 2),
                peak_memory_mb=peak_memory_mb(),
            )
        return {"loss": f"{loss:.3f}", "accuracy": f"{accuracy:.1f} %", "photos/s": f"{speed:.1f}"}

    # -- what is kept ----------------------------------------------------------------------------------------------

    def pack(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        self._share_unreadable()
        tensors = {f"network.{name}": tensor for name, tensor in self.network.module.state_dict().items()}
        tensors |= {f"best.{name}": tensor for name, tensor in self.best_weights.items()}
        for index, parameter in enumerate(self.trained):
            momentum = self.optimiser.state[parameter].get("momentum_buffer")
            tensors |= {} if momentum is None else {f"momentum.{index}": momentum}
        return tensors, {
            "best": None if self.best is None else [self.best.accuracy, self.best.epoch],
            "unreadable": list(self.unreadable.items()),
            "scaler": self.scaler.state_dict(),
        }

    def unpack(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        self._set_weights(_part(tensors, "network."))
        self.best_weights = _part(tensors, "best.")
        for index, parameter in enumerate(self.trained):
            if f"momentum.{index}" in tensors:
                # Laid out like the parameter: another layout would round differently.
                momentum = torch.empty_like(parameter).copy_(tensors[f"momentum.{index}"])
                self.optimiser.state[parameter]["momentum_buffer"] = momentum.detach()
        self.scaler.load_state_dict(facts["scaler"])
        self.best = Validation(*facts["best"]) if facts["best"] else None
        self.unreadable = dict(facts["unreadable"])

    def _set_weights(self, weights: dict[str, Tensor]) -> None:
        with torch.no_grad():
            for name, tensor in self.network.module.state_dict().items():
                tensor.copy_(weights[name])

    def _share_unreadable(self) -> None:
        for theirs in self.processes.gather(self.unreadable):
            self.unreadable |= theirs

    # -- validation ------------------------------------------------------------------------------------------------

    def _validate(self) -> None:
        """Measure the photos kept aside, and remember the best epoch."""
        epoch, accuracy = self.step // self.plan.steps, self.accuracy(self.validation)
        if self.processes.rank == 0:
            self.run.log(epoch=epoch, validation_accuracy=round(accuracy, 2))
        if self.best is None or accuracy > self.best.accuracy:
            self.best = Validation(accuracy, epoch)
            if self.settings.patience:
                self.best_weights = {name: t.clone() for name, t in self.network.module.state_dict().items()}

    def is_enough(self) -> bool:
        """Whether `patience` epochs have passed without a better validation accuracy."""
        if not self.settings.patience or self.best is None:
            return False
        return self.step // self.plan.steps - self.best.epoch >= self.settings.patience

    def accuracy(self, photos: PhotoSet) -> float:
        """Per cent of photos whose own class scores best among the seen ones; each process looks at its share."""
        self.network.eval()
        self.processes.copy_first(self.network.buffers())
        own = photos.subset(np.arange(self.processes.rank, len(photos), self.processes.world))
        right = read = 0
        for pixels, labels, _ in load_batches(
            EvaluationPhotos(own, self.network.transform), self.workers, batch_size=self.settings.batch
        ):
            if pixels is None:
                continue
            with torch.inference_mode():
                best = self.head(pixels.to(self.device, memory_format=torch.channels_last)).argmax(1).cpu()
            right, read = right + int((best == labels).sum()), read + len(labels)
        right, read = self.processes.sum([right, read])
        return 100 * right / max(read, 1)


class Window:
    """Loss and accuracy since the last line of the log."""

    def __init__(self):
        self.loss, self.right, self.photos = 0.0, 0.0, 0

    def add(self, loss: Tensor, right: Tensor, photos: int) -> None:
        self.loss, self.right, self.photos = self.loss + loss, self.right + right, self.photos + photos

    def mean(self, processes: Processes) -> tuple[float, float]:
        loss, right, photos = processes.sum([float(self.loss), float(self.right), float(self.photos)])
        return loss / photos, 100 * right / photos


def _seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}
