"""Stage 2: finetune the network under the predicted classifiers of the seen classes, which stay as they are.

    loss = cross-entropy of  [f(photo); 1] . W~[seen]        trained: all of f      frozen: W~

It runs unchanged under torchrun. Random numbers follow from (seed, epoch, photo) and (seed, step) alone: what a step
computes depends neither on the worker processes nor on where a run was interrupted.
"""

from __future__ import annotations

import copy
import hashlib
import json
import logging
import math
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import nullcontext
from dataclasses import asdict, replace
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unseen.bundle import Bundle
from unseen.bundle.records import FinetuneRecord, Validation
from unseen.networks.base import Network
from unseen.training import photos_data
from unseen.training.photos_data import Batch, BatchPlan, PhotoSet, load_batches
from unseen.training.settings import FinetuneSettings
from unseen.training.stage1 import check_same, open_output, save_trained
from unseen.util.devices import peak_memory_mb
from unseen.util.errors import UnseenError
from unseen.util.loop import TrainingLoop, load_checkpoint, save_checkpoint
from unseen.util.processes import Processes, watch_workers
from unseen.util.run import Run

logger = logging.getLogger(__name__)

LISTED = 100  # unreadable photos that a bundle names
BLOCK = 32  # steps of a file of frozen batches


def finetune(
    bundle: Bundle,
    network: Network,
    photos: str | Path,
    settings: FinetuneSettings | None = None,
    *,
    out: str | Path | None = None,
    overwrite: bool = False,
    skip_unknown: bool = False,
    shared: Path | None = None,
    run: Run | None = None,
) -> Bundle:
    """The bundle with a network f finetuned on photos of seen classes, under their predicted classifiers.

    Args:
        bundle: Stays as it is.
        network: The bundle's, which stays as it is, too.
        photos: Photos by class, DIR/<id or name>/*, or a folder of tar shards.
        settings: Epochs, learning rate and the like; by default the paper's.
        out: Where to save the bundle; checkpoints are kept beside it while it runs.
        overwrite: Replace a bundle in `out`, or start an interrupted finetuning again.
        skip_unknown: Leave out photos of classes that are not seen ones, instead of refusing them.
        shared: A folder for what frozen stages make of the photos, where only the last stage of a built-in network is
            trained: finetunings with the same network, photos and seed share it, and take a fraction of the time.
        run: Seed, device, workers, and whether to resume: continue an interrupted finetuning in `out`, or return the
            bundle of a finished one with the same settings.
    """
    settings, run = settings or FinetuneSettings(), run or Run()
    if bundle.solution.projection.kind != "append1":
        raise UnseenError(
            f"{bundle.method} predicts no classifiers for the network's features, which stage 2 needs: "
            "finetune a bundle of another method, such as dgp"
        )
    if bundle.taught:
        raise UnseenError(
            f"{len(bundle.taught):,} classes were taught with photos as the network sees them now: finetune first and "
            "teach afterwards, or make them forget with `unseen teach`"
        )
    with open_output(out, run, overwrite) as (run, finished):
        seen, order = bundle.seen_ids, bundle.network.class_ids
        photo_set = photos_data.open_photo_set(photos, seen, skip_unknown, order, bundle.hierarchy)
        if finished:
            return _finished(Path(str(out)), bundle, photo_set, settings, run)
        for message in photo_set.remarks:
            logger.info("%s", message)
        with Processes(run.device) as processes:
            stage = Stage2(bundle, copy.deepcopy(network), photo_set, settings, run, processes, shared)
            stage.train()
            record = stage.record(photo_set)
            if record.unreadable:
                first = record.unreadable_photos[0]
                logger.warning("%s photos could not be read and were left out. %s", record.unreadable, first)
            trained = stage.network.eval()
            tuned = bundle.change(
                network=replace(bundle.network, checksum=trained.checksum, finetuned=True),
                network_weights={name: tensor.numpy() for name, tensor in trained.weights().items()},
                log=bundle.log + run.records,
                finetuning=record,
            )
            if out is not None and processes.rank == 0:
                save_trained(tuned, out)
            processes.wait()
        return tuned


def _finished(out: Path, bundle: Bundle, photos: PhotoSet, settings: FinetuneSettings, run: Run) -> Bundle:
    """The bundle that is there already, if it is what was asked for."""
    tuned = Bundle.load(out, trust_code=bundle.trust_code)
    record = tuned.finetuning
    if record is None:
        raise UnseenError(f"{out} is a finished bundle that was not finetuned: choose another name")
    made_from = identify(bundle, photos)
    if bundle.path is not None and bundle.path.resolve() == out.resolve():
        del made_from["network"]  # it was replaced by the finetuned one
    seed = run.seed if record.seed is None else record.seed
    then = {**record.settings, "seed": seed, **record.made_from}
    check_same(out, then, {**asdict(settings), "seed": run.seed, **made_from})
    logger.info("%s is finished already.", out)
    return tuned


def identify(bundle: Bundle, photos: PhotoSet) -> dict[str, str]:
    """What a finetuning is made from: the network and the classifiers that it begins with, and the list of photos."""
    classifiers = hashlib.sha256(bundle.solution.classifiers[bundle.seen].tobytes()).hexdigest()
    return {"network": bundle.network.checksum[:12], "classifiers": classifiers[:12], "photo_list": photos.digest()}


class SeenHead(nn.Module):
    """Photos B x 3 x H x W, or what the last stage sees of them -> logits B x M under frozen classifiers (M x P)."""

    def __init__(self, network: Network, classifiers: np.ndarray):
        super().__init__()
        self.network = network
        # Parameters, not buffers: several processes would send each other buffers at every step.
        self.weight = nn.Parameter(torch.from_numpy(classifiers[:, :-1].astype(np.float32)), requires_grad=False)
        self.bias = nn.Parameter(torch.from_numpy(classifiers[:, -1].astype(np.float32)), requires_grad=False)

    def forward(self, x: Tensor, at_last_stage: bool = False) -> Tensor:
        network = self.network
        mapped = network.module.forward_last_stage(x) if at_last_stage else network.forward_features(x)
        return F.linear(network.forward_head(mapped, pre_logits=True), self.weight, self.bias)


class Stage2(TrainingLoop):
    """One finetuning in this process: network, photos, optimiser."""

    def __init__(
        self,
        bundle: Bundle,
        network: Network,
        photos: PhotoSet,
        settings: FinetuneSettings,
        run: Run,
        processes: Processes,
        shared: Path | None = None,
    ):
        self.train_photos, self.validation = photos_data.split_off_validation(photos, settings.validation, run.seed)
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
        self.settings, self.device = settings, processes.device
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
        self.window = torch.zeros(3, device=self.device)  # loss, right answers, photos since the last log line
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

    @property
    def ends_epoch(self) -> bool:
        return self.step % self.plan.steps == 0

    def batches(self) -> Iterable[Batch]:
        """This process's batches from the next step on: one loader for all epochs, so that none begins with a wait."""
        set_training_mode(self.network, *self.kept)
        photos = photos_data.TrainingPhotos(self.train_photos, self.network.transform.for_training(), self.run.seed)

        def load(first: int, end: int) -> Iterable[Batch]:
            steps = self.plan.batches(first, end)
            return load_batches(photos, self.run.workers, batch_sampler=steps, pin_memory=self.device.type == "cuda")

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
            raise _unreadable(failed)
        for group in self.optimiser.param_groups:
            group["lr"] = settings.learning_rate_at(self.step, self.total)
        # Dropout and the like: the same for the same step, however often the run was interrupted before.
        torch.manual_seed(_seed(self.run.seed, self.step, self.processes.rank))
        step = torch.zeros(3, device=self.device)
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
            step += torch.stack([loss.detach(), (logits.detach().argmax(1) == y).sum(), y.new_tensor(len(y))])
        self.scaler.step(self.optimiser)
        self.scaler.update()
        self.optimiser.zero_grad(set_to_none=True)
        self.window += step

    def _speed(self) -> float:
        """Photos a second, of all processes, since this process began."""
        photos = (self.step - self.begun) * self.plan.size * self.processes.world
        return photos / max(time.monotonic() - self.started, 1e-9)

    def log(self) -> dict[str, str]:
        loss, right, photos = self.processes.sum(self.window.tolist())
        loss, accuracy = loss / photos, 100 * right / photos
        self.window.zero_()
        self.check_finite(loss)
        speed = self._speed()
        if self.processes.rank == 0:
            figures = {"loss": round(loss, 5), "accuracy": round(accuracy, 2), "photos_per_s": round(speed, 2)}
            epoch = math.ceil(self.step / self.plan.steps)
            self.run.log(step=self.step, epoch=epoch, **figures, peak_memory_mb=peak_memory_mb())
        return {"loss": f"{loss:.3f}", "accuracy": f"{accuracy:.1f} %", "photos/s": f"{speed:.1f}"}

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
        share = photos.subset(np.arange(self.processes.rank, len(photos), self.processes.world))
        dataset = photos_data.EvaluationPhotos(share, self.network.transform)
        right = read = 0
        for pixels, labels, _ in load_batches(dataset, self.run.workers, batch_size=self.settings.batch):
            if pixels is None:
                continue
            with torch.inference_mode():
                best = self.head(pixels.to(self.device, memory_format=torch.channels_last)).argmax(1).cpu()
            right, read = right + int((best == labels).sum()), read + len(labels)
        right, read = self.processes.sum([right, read])
        return 100 * right / max(read, 1)


def _seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])


def _unreadable(failed: dict[int, str]) -> UnseenError:
    return UnseenError(f"{len(failed)} photos in a row cannot be read. {next(iter(failed.values()))}")


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def stages(network: Network) -> list[list[nn.Module]]:
    """The network's parts from the photo on, the last layer left out.

    They are its children, a sequence of blocks taken apart; a normalisation goes with what it follows.
    """
    stages: list[list[nn.Module]] = []
    for child in network.module.children():
        for part in child.children() if isinstance(child, nn.Sequential) else [child]:
            if part is network.get_classifier() or not any(True for _ in part.parameters()):
                continue
            if _is_batch_norm(part) and stages:
                stages[-1].append(part)
            else:
                stages.append([part])
    return stages


def freeze(network: Network, first_stages: int, batch_norm: bool) -> None:
    """Turn gradients off for what stays as it is."""
    network.requires_grad_(True)
    network.get_classifier().requires_grad_(False)
    for module in _kept(network, first_stages, batch_norm):
        module.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise UnseenError(
            f"with its first {first_stages} stages frozen nothing of {network.name} is left to train: "
            f"it has {len(stages(network))}"
        )


def set_training_mode(network: Network, first_stages: int, batch_norm: bool) -> None:
    """Training mode, but evaluation mode for what is frozen, so that its running statistics stay as well."""
    network.train()
    for module in _kept(network, first_stages, batch_norm):
        module.eval()


def _kept(network: Network, first_stages: int, batch_norm: bool) -> list[nn.Module]:
    kept = [module for stage in stages(network)[:first_stages] for module in stage]
    return kept + ([module for module in network.modules() if _is_batch_norm(module)] if batch_norm else [])


def _is_batch_norm(module: nn.Module) -> bool:
    return isinstance(module, nn.modules.batchnorm._BatchNorm)


def can_share(network: Network, first_stages: int) -> bool:
    """Whether the network can be cut before its last stage, and only that stage is trained."""
    cut = type(network) is Network and hasattr(network.module, "trunk_for_inference")
    return cut and first_stages in (-1, len(stages(network)) - 1)


class FrozenBatches:
    """The output of a network's frozen stages for each batch, kept on disk.

        FOLDER/<key>/<first step>/checkpoint.safetensors   of BLOCK steps: what the last stage sees, in half precision

    Where only the last stage is trained, everything before it does the same to the same crop of a photo, whatever the
    classifiers are. Finetunings of several bundles with one network, one list of photos and one seed share these
    batches: the first one makes them, the others only train.

    `network` is one that `can_share`; `identity` (JSON) is all that decides on the photos of a step and their crops.
    """

    def __init__(self, folder: Path, network: Network, identity: dict[str, Any]):
        self.network, self._trunk = network, None
        self.identity = {**identity, "network": network.checksum, "transform": repr(network.transform)}
        key = hashlib.sha256(json.dumps(self.identity, sort_keys=True).encode()).hexdigest()[:16]
        self.folder = folder / key

    def batches(self, step: int, end: int, load: Callable[[int, int], Iterable[Batch]]) -> Iterator[Batch]:
        """The batches of the steps step..end-1. `load(first, end)` reads the photos of missing ones."""
        fresh: Iterator[Batch] | None = None
        while step < end:
            first = step - step % BLOCK
            last = min(first + BLOCK, end)
            block = self._read(first, last)
            if block is not None:
                fresh = None
            else:
                fresh = iter(load(first, end)) if fresh is None else fresh
                block = self._make(first, islice(fresh, last - first))
            yield from block[step - first : last - first]
            step = last

    def _read(self, first: int, end: int) -> list[Batch] | None:
        """A block, if it is complete and has this length."""
        try:
            saved = load_checkpoint(self._place(first), self.identity)
        except UnseenError:  # damaged: it is made again
            return None
        if saved is None or len(saved[0]["labels"]) < end - first:
            return None
        tensors, facts = saved
        unreadable = [{int(photo): why for photo, why in failed.items()} for failed in facts["unreadable"]]
        return list(zip(tensors["hidden"], tensors["labels"], unreadable, strict=True))

    def _make(self, first: int, batches: Iterable[Batch]) -> list[Batch]:
        hidden, labels, unreadable = [], [], []
        for pixels, answers, failed in batches:
            if pixels is None or any(len(answers) < len(others) for others in labels):
                raise _unreadable(failed)
            hidden.append(self._hidden(pixels))
            labels.append(answers)
            unreadable.append(failed)
        tensors = {"hidden": torch.stack(hidden), "labels": torch.stack(labels)}
        save_checkpoint(self._place(first), tensors, {"identity": self.identity, "unreadable": unreadable})
        return list(zip(hidden, labels, unreadable, strict=True))

    @torch.no_grad()
    def _hidden(self, pixels: Tensor) -> Tensor:
        if self._trunk is None:
            self._trunk = self.network.module.trunk_for_inference()
        return self._trunk(pixels.to(self.network.device)).half().cpu()

    def _place(self, first: int) -> Path:
        return self.folder / f"{first:06d}"
