"""Stage 2: finetune the network under the predicted classifiers of its seen classes, which stay as they are.

    loss = cross-entropy of  [f(photo); 1] . W~[seen]        trained: all of f      frozen: W~

It runs unchanged under torchrun. Random numbers follow from (seed, epoch, photo) and (seed, step) alone, so that a
training which resumes after an epoch ends as an uninterrupted one.
"""

from __future__ import annotations

import copy
import hashlib
import logging
import time
from contextlib import nullcontext
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn import functional as F

from unseen.bundle import Bundle
from unseen.bundle.records import FinetuneRecord, Validation
from unseen.methods.graph.loop import TrainingLoop, check_finite, tensors_within
from unseen.networks.base import Network
from unseen.networks.processes import Processes, watch_workers
from unseen.training.photos_data import (
    Batch,
    Photos,
    PhotoSet,
    epoch_batches,
    load_batches,
    open_photo_set,
    split_off_validation,
)
from unseen.training.settings import FinetuneSettings
from unseen.training.stage1 import check_same, open_output, save_trained
from unseen.util.devices import peak_memory_mb
from unseen.util.errors import UnseenError
from unseen.util.run import Run

logger = logging.getLogger(__name__)

LISTED = 100  # unreadable photos that a bundle names
LOG_EVERY = 10  # steps


def finetune(
    bundle: Bundle,
    network: Network,
    photos: str | Path,
    settings: FinetuneSettings | None = None,
    *,
    out: str | Path | None = None,
    overwrite: bool = False,
    skip_unknown: bool = False,
    run: Run | None = None,
) -> Bundle:
    """The bundle with a network f finetuned on photos of seen classes, under their predicted classifiers.

    Args:
        bundle: Not changed.
        network: The bundle's; not changed.
        photos: Photos by class, DIR/<id or name>/*, or a folder of tar shards.
        settings: Epochs, learning rate and the like; by default the paper's.
        out: Where to save the bundle; checkpoints are kept beside it while it runs.
        overwrite: Replace a bundle in `out`, or start an interrupted finetuning again.
        skip_unknown: Leave out photos of classes that are not seen ones, instead of refusing them.
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
        photo_set = open_photo_set(photos, seen, skip_unknown, order, bundle.hierarchy)
        if finished:
            return _finished(Path(str(out)), bundle, photo_set, settings, run)
        for message in photo_set.remarks:
            logger.info("%s", message)
        with Processes(run.device) as processes:
            stage = Stage2(bundle, copy.deepcopy(network), photo_set, settings, run, processes)
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
            tuned.keep_network(trained)
            if out is not None and processes.rank == 0:
                save_trained(tuned, out)
            processes.wait()
        return tuned


def _finished(out: Path, bundle: Bundle, photos: PhotoSet, settings: FinetuneSettings, run: Run) -> Bundle:
    """The bundle in `out`; refused if its parts or settings differ."""
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
    """Checksums of a finetuning's inputs: network, classifiers and list of photos."""
    classifiers = hashlib.sha256(bundle.solution.classifiers[bundle.seen].tobytes()).hexdigest()
    return {"network": bundle.network.checksum[:12], "classifiers": classifiers[:12], "photo_list": photos.digest()}


class SeenHead(nn.Module):
    """Photos B x 3 x H x W -> logits B x M under frozen classifiers (M x (D + 1))."""

    def __init__(self, network: Network, classifiers: np.ndarray):
        super().__init__()
        self.network = network
        # Parameters, not buffers: several processes would send each other buffers at every step.
        self.weight = nn.Parameter(torch.from_numpy(classifiers[:, :-1].astype(np.float32)), requires_grad=False)
        self.bias = nn.Parameter(torch.from_numpy(classifiers[:, -1].astype(np.float32)), requires_grad=False)

    def forward(self, photos: Tensor) -> Tensor:
        features = self.network.forward_head(self.network.forward_features(photos), pre_logits=True)
        return F.linear(features, self.weight, self.bias)


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
    ):
        self.train_photos, self.validation = split_off_validation(photos, settings.validation, run.seed)
        self.settings, self.device, self.network = settings, processes.device, network.to(processes.device)
        self.network.to(memory_format=torch.channels_last)  # pyright: ignore[reportCallIssue]
        self.frozen = freeze(self.network, settings.freeze_stages, settings.freeze_batch_norm)
        self.head = SeenHead(self.network, bundle.solution.classifiers[bundle.seen]).to(self.device)
        self.model = processes.parallel(self.head)
        # A class without photos is never the right answer: in the loss it would only be pushed away from all of them.
        self.absent = torch.ones(len(bundle.seen), dtype=torch.bool, device=self.device)
        self.absent[torch.from_numpy(np.unique(photos.labels)).to(self.device)] = False
        trained = [parameter for parameter in self.network.parameters() if parameter.requires_grad]
        optimiser = torch.optim.SGD(
            trained, settings.learning_rate, settings.momentum, weight_decay=settings.weight_decay
        )
        self.made_from = identify(bundle, photos)
        identity = {
            **{key: value for key, value in asdict(settings).items() if key != "patience"},
            "seed": run.seed,
            "processes": processes.world,
            "photos": len(self.train_photos),
            **self.made_from,
        }
        super().__init__(run, settings.epochs, identity, self.network.module, optimiser, processes)
        self.size = settings.batch * settings.accumulate  # photos of a step, for this process
        self.steps, self.save_every = len(self._batches(0)), 1
        self.optimiser = optimiser
        self.is_half = settings.mixed_precision and self.device.type == "cuda" and torch.cuda.is_bf16_supported()
        self.step = 0  # of all epochs
        self.window = torch.zeros(3, device=self.device)  # loss, right answers, photos since the last log line
        self.unreadable: dict[int, str] = {}  # photo -> reason
        self.best: Validation | None = None
        self.best_weights: dict[str, Tensor] = {}

    def train(self) -> None:
        """Train to the end, and leave the network with the weights to keep."""
        with torch.random.fork_rng([self.device] if self.device.type == "cuda" else []):
            advice = "Resume it with fewer workers, or with more (shared) memory."
            watch_workers(lambda: self.do_epochs("Finetuning"), advice)
        self._share_unreadable()
        self.processes.copy_first(self.network.buffers())
        if self.best_weights:
            self.network.module.load_state_dict(self.best_weights)

    def record(self, photos: PhotoSet) -> FinetuneRecord:
        """The facts that a bundle keeps."""
        reasons = [self.unreadable[i] for i in sorted(self.unreadable)]
        return FinetuneRecord(
            epochs=self.epoch,
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

    def train_epoch(self) -> None:
        self.network.train()
        for module in self.frozen:
            module.eval()  # running statistics stay as well
        photos = Photos(self.train_photos, self.network.transform, (self.run.seed, self.epoch))
        batches = self._batches(self.epoch).tolist()
        pinned = self.device.type == "cuda"
        for batch in load_batches(photos, self.run.workers, batch_sampler=batches, pin_memory=pinned):
            if self.is_interrupted():
                raise self.stopped()
            self.update(batch)
            self.step += 1
            is_logged = self.step % LOG_EVERY == 0 or self.step % self.steps == 0
            self.bar.advance(1, **(self._log() if is_logged else {}))

    def _batches(self, epoch: int) -> np.ndarray:
        processes = self.processes
        return epoch_batches(len(self.train_photos), self.size, processes.rank, processes.world, self.run.seed, epoch)

    def update(self, batch: Batch) -> None:
        """One step of the optimiser; loss and right answers count as they were before it."""
        pixels, labels, failed = batch
        settings = self.settings
        self.unreadable |= failed
        if pixels is None or len(labels) < self.size:
            raise UnseenError(f"{len(failed)} photos in a row cannot be read. {next(iter(failed.values()))}")
        for group in self.optimiser.param_groups:
            group["lr"] = settings.learning_rate_at(self.step, self.total * self.steps)
        # Dropout and the like: the same for the same step, however often the run was interrupted before.
        torch.manual_seed(_seed(self.run.seed, self.step, self.processes.rank))
        parts = list(zip(pixels.split(settings.batch), labels.split(settings.batch), strict=True))
        for number, (x, y) in enumerate(parts, 1):
            x = x.to(self.device, torch.float32, memory_format=torch.channels_last, non_blocking=True)
            y = y.to(self.device, non_blocking=True)
            with self.processes.gather_gradients(self.model, now=number == len(parts)):
                with torch.autocast(self.device.type, torch.bfloat16) if self.is_half else nullcontext():
                    logits = self.model(x)
                likely = (settings.scale * logits.float()).masked_fill(self.absent, -torch.inf)
                loss = F.cross_entropy(likely, y, reduction="sum")
                (loss / self.size).backward()
            self.window += torch.stack([loss.detach(), (logits.detach().argmax(1) == y).sum(), y.new_tensor(len(y))])
        self.optimiser.step()
        self.optimiser.zero_grad(set_to_none=True)

    def _speed(self) -> float:
        """Photos a second, of all processes, since this process began."""
        photos = (self.step - self.resumed * self.steps) * self.size * self.processes.world
        return photos / max(time.monotonic() - self.started, 1e-9)

    def _log(self) -> dict[str, str]:
        """Log the steps since the last record; return what the progress bar shows."""
        loss, right, photos = self.processes.sum(self.window.tolist())
        loss, accuracy, epoch, speed = loss / photos, 100 * right / photos, self.epoch + 1, self._speed()
        self.window.zero_()
        check_finite(loss, epoch)
        if self.processes.rank == 0:
            figures = {"loss": round(loss, 5), "accuracy": round(accuracy, 2), "photos_per_s": round(speed, 2)}
            self.run.log(step=self.step, epoch=epoch, **figures, peak_memory_mb=peak_memory_mb())
        return {"loss": f"{loss:.3f}", "accuracy": f"{accuracy:.1f} %", "photos/s": f"{speed:.1f}"}

    def end_epoch(self, saves: bool) -> None:
        """Measure the validation photos, and remember the best epoch."""
        if not len(self.validation):
            return
        accuracy = self.accuracy(self.validation)
        if self.processes.rank == 0:
            self.run.log(epoch=self.epoch, validation_accuracy=round(accuracy, 2))
        if self.best is None or accuracy > self.best.accuracy:
            self.best = Validation(accuracy, self.epoch)
            if self.settings.patience:
                self.best_weights = {name: t.clone() for name, t in self.network.module.state_dict().items()}

    def is_enough(self) -> bool:
        """Whether `patience` epochs have passed without a better validation accuracy."""
        patience = self.settings.patience
        return patience > 0 and self.best is not None and self.epoch - self.best.epoch >= patience

    def accuracy(self, photos: PhotoSet) -> float:
        """Per cent of photos whose own class scores best among the seen ones; the processes share the work."""
        self.network.eval()
        self.processes.copy_first(self.network.buffers())
        share = photos.subset(np.arange(self.processes.rank, len(photos), self.processes.world))
        batches = load_batches(Photos(share, self.network.transform), self.run.workers, batch_size=self.settings.batch)
        right = read = 0
        for pixels, labels, _ in batches:
            if pixels is None:
                continue
            with torch.inference_mode():
                best = self.head(pixels.to(self.device, memory_format=torch.channels_last)).argmax(1).cpu()
            right, read = right + int((best == labels).sum()), read + len(labels)
        right, read = self.processes.sum([right, read])
        return 100 * right / max(read, 1)

    def pack(self) -> tuple[dict[str, Tensor], dict[str, Any]]:
        self._share_unreadable()
        best = None if self.best is None else [self.best.accuracy, self.best.epoch]
        weights = {f"best.{name}": tensor for name, tensor in self.best_weights.items()}
        return weights, {"best": best, "unreadable": list(self.unreadable.items())}

    def unpack(self, tensors: dict[str, Tensor], facts: dict[str, Any]) -> None:
        self.best_weights = tensors_within("best.", tensors)
        self.best = Validation(*facts["best"]) if facts["best"] else None
        self.unreadable = dict(facts["unreadable"])
        self.step = facts["epoch"] * self.steps

    def _share_unreadable(self) -> None:
        for theirs in self.processes.gather(self.unreadable):
            self.unreadable |= theirs


def _seed(*numbers: int) -> int:
    return int(np.random.SeedSequence(numbers).generate_state(1, np.uint64)[0])


def stages(network: Network) -> list[list[nn.Module]]:
    """The network's stages in order, without the last layer.

    Stages are the module's children, with nn.Sequential flattened; a batch norm belongs to the stage before it.
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


def freeze(network: Network, first_stages: int, batch_norm: bool) -> list[nn.Module]:
    """Turn off the gradients of the last layer, the first stages and perhaps batch norms; return the latter two."""
    frozen = [module for stage in stages(network)[:first_stages] for module in stage]
    frozen += [module for module in network.modules() if batch_norm and _is_batch_norm(module)]
    network.requires_grad_(True)
    for module in [network.get_classifier(), *frozen]:
        module.requires_grad_(False)
    if not any(parameter.requires_grad for parameter in network.parameters()):
        raise UnseenError(
            f"with its first {first_stages} stages frozen nothing of {network.name} is left to train: "
            f"it has {len(stages(network))}"
        )
    return frozen


def _is_batch_norm(module: nn.Module) -> bool:
    return isinstance(module, nn.modules.batchnorm._BatchNorm)
