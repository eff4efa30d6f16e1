"""Stage 2: finetune the network under the predicted classifiers of the seen classes, which stay as they are.

    loss = cross-entropy of  [f(photo); 1] . W~[seen]        trained: all of f      frozen: W~

Runs unchanged under torchrun. Chance comes from (seed, epoch, photo) alone: what a step computes depends neither on
the worker processes nor on where a run was interrupted.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.data import DataLoader

from unseen.backbones import Backbone
from unseen.bundle import Bundle, check_place
from unseen.checkpoint import load_checkpoint, save_checkpoint
from unseen.errors import UnseenError
from unseen.photo_sets import PhotoSet, open_photo_set
from unseen.processes import Processes
from unseen.progress import progress
from unseen.run import Run, interruption, peak_memory_mb
from unseen.training_data import BatchPlan, Photos, split_off_validation

LOG_EVERY = 10  # steps


@dataclass
class FinetuneSettings:
    """The paper's: SGD 1e-4 with momentum 0.9 for 20 epochs. `batch` is for one process."""

    epochs: int = 20
    learning_rate: float = 1e-4
    momentum: float = 0.9
    weight_decay: float = 0.0
    batch: int = 64
    accumulate: int = 1  # batches a step
    schedule: str = "constant"  # or "cosine"
    freeze_batch_norm: bool = False
    freeze_stages: int = 0  # how many of the network's first stages stay as they are
    mixed_precision: bool = True  # on CUDA
    validation: float = 0.0  # share of each class's photos kept aside
    patience: int = 0  # stop after so many epochs without a better validation accuracy; 0: never


class SeenHead(nn.Module):
    """Photos B x 3 x H x W -> logits B x M under frozen classifiers."""

    def __init__(self, backbone: Backbone, classifiers: np.ndarray):
        super().__init__()
        self.backbone = backbone
        self.register_buffer("weight", torch.from_numpy(classifiers[:, :-1].copy()))
        self.register_buffer("bias", torch.from_numpy(classifiers[:, -1].copy()))

    def forward(self, x: Tensor) -> Tensor:
        return F.linear(self.backbone.forward_pre_logits(x), self.weight, self.bias)


def finetune(
    bundle: Bundle,
    images: str | Path,
    out: str | Path | None = None,
    settings: FinetuneSettings | None = None,
    run: Run | None = None,
    *,
    workers: int = 2,
    skip_unknown: bool = False,
    backbone: Backbone | None = None,
    say: Callable[[str], None] = lambda message: None,
) -> Bundle:
    """The bundle with a network finetuned on photos of seen classes; see the module's docstring.

    `out` saves it, and keeps checkpoints while it runs: `Run(resume=True)` goes on where a run was interrupted.
    """
    settings, run = settings or FinetuneSettings(), run or Run()
    check_settings(settings)
    if bundle.solution.projection.kind != "append1":
        raise UnseenError(f"{bundle.method} predicts no classifiers for the network's features: stage 2 needs them")
    if out is not None:
        check_place(Path(out))
        run.folder = Path(out)
    with Processes(run.device) as processes:
        network = bundle.load_backbone() if backbone is None else backbone
        bundle.check_backbone(network)
        photos = open_photo_set(images, bundle.seen_ids, skip_unknown)
        if photos.empty_classes:
            say(f"{len(photos.empty_classes)} class folders hold no photo: {', '.join(photos.empty_classes[:5])}")
        stage = Stage2(bundle, network, photos, settings, run, processes, workers)
        facts = stage.train()
        if stage.unreadable:
            say(f"{len(stage.unreadable)} photos could not be read and were left out; the first: {stage.unreadable[0]}")
        tuned = _finetuned(bundle, network, facts, run)
        if out is not None and processes.rank == 0:
            tuned.save(out)
        processes.wait()
    return tuned


class Stage2:
    """One finetuning in this process: network, photos, optimiser."""

    def __init__(self, bundle, network, photos, settings, run, processes, workers):
        self.settings, self.run, self.processes, self.workers = settings, run, processes, workers
        self.device = processes.device
        train, self.validation = split_off_validation(photos, settings.validation, run.seed)
        self.photos = Photos(train, network.transform.for_training(), run.seed)
        size = settings.batch * settings.accumulate
        self.plan = BatchPlan(len(train), size, processes.rank, processes.world, run.seed)
        classifiers = bundle.solution.classifiers[bundle.seen]
        self.network = network.to(self.device).to(memory_format=torch.channels_last)
        head = SeenHead(self.network, classifiers).to(self.device)
        freeze(self.network, settings)
        self.model = processes.parallel(head)
        trained = [parameter for parameter in head.parameters() if parameter.requires_grad]
        self.optimiser = torch.optim.SGD(
            trained, settings.learning_rate, settings.momentum, weight_decay=settings.weight_decay
        )
        self.scaler = torch.amp.GradScaler(self.device.type, enabled=self._half() == torch.float16)
        self.identity = {
            **{key: value for key, value in asdict(settings).items() if key not in ("patience",)},
            "seed": run.seed,
            "processes": processes.world,
            "photos": len(train),
            "network": bundle.backbone.checksum,
            "method": bundle.method,
        }
        self.unreadable: list[str] = []
        self.best: tuple[float, int] | None = None  # validation accuracy and its epoch

    # -- the loop --------------------------------------------------------------------------------------------------

    def train(self) -> dict[str, Any]:
        settings, plan, run = self.settings, self.plan, self.run
        step = self._restore()
        total, started, begun = settings.epochs * plan.steps, time.monotonic(), step
        shown = {"loss": "", "accuracy": ""}
        with progress("Finetuning", total, run.show_progress, step) as bar, interruption() as interrupted:
            while step < total:
                epoch, first = divmod(step, plan.steps)
                set_mode(self.network, settings)
                window = _Window()
                for batch in self._batches(epoch, first):
                    window.add(*self._step(batch, step, total))
                    step += 1
                    if step % LOG_EVERY == 0 or step == total or step % plan.steps == 0:
                        shown = self._log(step, epoch, window.mean(self.processes), begun, started)
                        window = _Window()
                    bar.advance(1, **shown)
                    stop = self.processes.any(interrupted())
                    if stop or step == total or step % run.checkpoint_every == 0:
                        self._save(step)
                    if stop and step < total:
                        raise UnseenError(self._stopped(step, total))
                if self._validated_enough(epoch):
                    break
        return {
            "epochs": math.ceil(step / plan.steps),
            "steps": step,
            "photos": len(self.photos),
            "photos_per_s": round((step - begun) * plan.size * self.processes.world / (time.monotonic() - started), 2),
            "seconds": round(time.monotonic() - started, 1),
            "unreadable": sorted(set(self.unreadable)),
            "processes": self.processes.world,
            "settings": asdict(settings),
            "best_validation": None if self.best is None else {"accuracy": self.best[0], "epoch": self.best[1]},
            "peak_memory_mb": round(peak_memory_mb()),
        }

    def _batches(self, epoch: int, first: int):
        """Batches of this process from step `first` of an epoch on, decoded by worker processes ahead of their use."""
        self.photos.epoch = epoch
        return DataLoader(
            self.photos,
            batch_sampler=self.plan.batches(epoch, first),
            num_workers=self.workers,
            collate_fn=collate,
            prefetch_factor=2 if self.workers else None,
            pin_memory=self.device.type == "cuda",
        )

    def _step(self, batch, step: int, total: int) -> tuple[Tensor, Tensor, int]:
        """One update; summed loss, right answers and photos, as they were before it."""
        pixels, labels, failed = batch
        self.unreadable += failed
        for group in self.optimiser.param_groups:
            group["lr"] = learning_rate(self.settings, step, total)
        # Dropout and the like: the same for the same step, however often the run was interrupted before.
        torch.manual_seed(hash((self.run.seed, step, self.processes.rank)) % 2**63)
        parts = list(zip(pixels.split(self.settings.batch), labels.split(self.settings.batch), strict=True))
        loss_sum, right = torch.zeros((), device=self.device), torch.zeros((), device=self.device)
        for number, (x, y) in enumerate(parts, 1):
            x = x.to(self.device, memory_format=torch.channels_last, non_blocking=True)
            y = y.to(self.device, non_blocking=True)
            with self.processes.gather_gradients(self.model, number == len(parts)):
                with torch.autocast(self.device.type, self._half() or torch.bfloat16, enabled=self._half() is not None):
                    logits = self.model(x)
                loss = F.cross_entropy(logits.float(), y, ignore_index=UNREADABLE, reduction="sum")
                # Divided by the planned size, not by what was readable, so that processes weigh alike.
                self.scaler.scale(loss / self.plan.size).backward()
            loss_sum += loss.detach()
            right += (logits.detach().argmax(1) == y).sum()
        self.scaler.step(self.optimiser)
        self.scaler.update()
        self.optimiser.zero_grad(set_to_none=True)
        if not torch.isfinite(loss_sum):
            raise UnseenError(f"the loss became {float(loss_sum)} at step {step}: lower the learning rate")
        return loss_sum, right, len(labels) - len(failed)

    def _half(self) -> torch.dtype | None:
        if not self.settings.mixed_precision or self.device.type != "cuda":
            return None
        return torch.bfloat16 if torch.cuda.is_bf16_supported() else torch.float16

    # -- what is kept ----------------------------------------------------------------------------------------------

    def _log(self, step: int, epoch: int, means: tuple[float, float], begun: int, started: float) -> dict[str, str]:
        loss, accuracy = means
        speed = (step - begun) * self.plan.size * self.processes.world / (time.monotonic() - started)
        if self.processes.rank == 0:
            fields = {"loss": round(loss, 5), "accuracy": round(accuracy, 2), "photos_per_s": round(speed, 2)}
            self.run.log(step=step, epoch=epoch + 1, **fields, peak_memory_mb=round(peak_memory_mb()))
        return {"loss": f"{loss:.3f}", "accuracy": f"{accuracy:.1f} %", "photos/s": f"{speed:.1f}"}

    def _save(self, step: int) -> None:
        if self.processes.rank == 0 and self.run.folder is not None:
            tensors = {f"network.{name}": tensor for name, tensor in self.network.module.state_dict().items()}
            for index, state in self.optimiser.state_dict()["state"].items():
                if state.get("momentum_buffer") is not None:
                    tensors[f"momentum.{index}"] = state["momentum_buffer"]
            facts = {"identity": self.identity, "step": step, "records": self.run.records, "best": self.best}
            save_checkpoint(self.run.folder, tensors, facts)
        self.processes.wait()

    def _restore(self) -> int:
        """Steps done: from the checkpoint where one is to be resumed, else none."""
        saved = load_checkpoint(self.run.folder, self.identity) if self.run.resume and self.run.folder else None
        if saved is None:
            return 0
        tensors, facts = saved
        with torch.no_grad():
            for name, tensor in self.network.module.state_dict().items():
                tensor.copy_(tensors[f"network.{name}"])
        for group in self.optimiser.param_groups:
            for index, parameter in enumerate(group["params"]):
                if f"momentum.{index}" in tensors:
                    kept = tensors[f"momentum.{index}"].to(parameter.device)
                    self.optimiser.state[parameter]["momentum_buffer"] = kept.clone(memory_format=torch.preserve_format)
        self.run.records[:] = facts["records"]
        self.best = tuple(facts["best"]) if facts["best"] else None
        return facts["step"]

    def _stopped(self, step: int, total: int) -> str:
        kept = "go on with the same command and --resume" if self.run.folder else "nothing is kept: no output was named"
        return f"stopped after step {step} of {total}; {kept}"

    # -- validation ------------------------------------------------------------------------------------------------

    def _validated_enough(self, epoch: int) -> bool:
        """Measure the photos kept aside; whether `patience` epochs have passed without a better accuracy."""
        if not len(self.validation):
            return False
        accuracy = self.accuracy(self.validation)
        if self.processes.rank == 0:
            self.run.log(epoch=epoch + 1, validation_accuracy=round(accuracy, 2))
        if self.best is None or accuracy > self.best[0]:
            self.best = (accuracy, epoch + 1)
        return bool(self.settings.patience) and epoch + 1 - self.best[1] >= self.settings.patience

    def accuracy(self, photos: PhotoSet) -> float:
        """Per cent of photos whose own class scores best among the seen ones."""
        head = self.model.module if hasattr(self.model, "module") else self.model
        self.network.eval()
        right = read = 0
        data = Photos(photos, self.network.transform)
        for pixels, labels, _ in DataLoader(data, self.settings.batch, num_workers=self.workers, collate_fn=collate):
            with torch.inference_mode():
                best = head(pixels.to(self.device, memory_format=torch.channels_last)).argmax(1).cpu()
            right += int((best == labels).sum())
            read += int((labels != UNREADABLE).sum())
        return 100 * right / max(read, 1)


class _Window:
    """Loss and accuracy since the last line of the log."""

    def __init__(self):
        self.loss, self.right, self.photos = 0.0, 0.0, 0

    def add(self, loss: Tensor, right: Tensor, photos: int) -> None:
        self.loss, self.right, self.photos = self.loss + loss, self.right + right, self.photos + photos

    def mean(self, processes: Processes) -> tuple[float, float]:
        loss, right, photos = processes.sum([float(self.loss), float(self.right), float(self.photos)])
        return loss / max(photos, 1), 100 * right / max(photos, 1)


UNREADABLE = -100  # the label of a photo that could not be read: it counts for nothing


def collate(items: list[tuple[Tensor | None, int, str | None]]) -> tuple[Tensor, Tensor, list[str]]:
    """Pixels, labels, and what was unreadable, whose place is taken by zeros."""
    shape = next((pixels.shape for pixels, _, _ in items if pixels is not None), (3, 32, 32))
    pixels = torch.stack([torch.zeros(shape) if p is None else p for p, _, _ in items])
    labels = torch.tensor([UNREADABLE if p is None else label for p, label, _ in items])
    return pixels, labels, [why for _, _, why in items if why is not None]


def learning_rate(settings: FinetuneSettings, step: int, total: int) -> float:
    if settings.schedule == "constant":
        return settings.learning_rate
    return settings.learning_rate * (1 + math.cos(math.pi * step / total)) / 2


def freeze(backbone: Backbone, settings: FinetuneSettings) -> None:
    """Mark what stays as it is: the network's own last layer, the first stages, batch-norm if asked."""
    backbone.requires_grad_(True)
    backbone.get_classifier().requires_grad_(False)
    for stage in stages(backbone)[: settings.freeze_stages]:
        stage.requires_grad_(False)
    if settings.freeze_batch_norm:
        for module in _batch_norms(backbone):
            module.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in backbone.parameters()):
        raise UnseenError(f"freezing {settings.freeze_stages} stages leaves nothing to train")


def set_mode(backbone: Backbone, settings: FinetuneSettings) -> None:
    """Training mode, but evaluation mode for what is frozen: its batch statistics stay as well."""
    backbone.train()
    for stage in stages(backbone)[: settings.freeze_stages]:
        stage.eval()
    if settings.freeze_batch_norm:
        for module in _batch_norms(backbone):
            module.eval()


def stages(backbone: Backbone) -> list[nn.Module]:
    """The network's parts from the photo on: its children, a sequence of blocks taken apart."""
    last, parts = backbone.get_classifier(), []
    for child in backbone.module.children():
        parts += list(child.children()) if isinstance(child, nn.Sequential) else [child]
    return [part for part in parts if part is not last and any(True for _ in part.parameters())]


def _batch_norms(backbone: Backbone) -> list[nn.Module]:
    return [module for module in backbone.modules() if isinstance(module, nn.modules.batchnorm._BatchNorm)]


def check_settings(settings: FinetuneSettings) -> None:
    for name in ("epochs", "batch", "accumulate"):
        if getattr(settings, name) < 1:
            raise UnseenError(f"{name} must be 1 or more, not {getattr(settings, name)}")
    if settings.schedule not in ("constant", "cosine"):
        raise UnseenError(f"schedule is constant or cosine, not {settings.schedule!r}")
    if not 0 <= settings.validation < 1:
        raise UnseenError(f"validation is a share of the photos, from 0 to less than 1; not {settings.validation}")
    if settings.patience and not settings.validation:
        raise UnseenError("stopping early needs validation photos: give --validation, for example 0.1")


def _finetuned(bundle: Bundle, network: Backbone, facts: dict, run: Run) -> Bundle:
    network.eval()
    weights = {name: tensor.numpy() for name, tensor in network.weights().items()}
    info = replace(bundle.backbone, checksum=network.checksum, finetuned=True)
    details = bundle.solution.details | {"finetune": facts}
    solution = replace(bundle.solution, details=details)
    return replace(bundle, solution=solution, backbone=info, network=weights, log=bundle.log + run.records, path=None)
