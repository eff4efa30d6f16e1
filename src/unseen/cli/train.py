"""`unseen train`: stage 1, from the hierarchy, the names and the network to a bundle."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from unseen.cli.app import JsonFlag, command, emit, escaped, stdout, tell
from unseen.errors import UnseenError

if TYPE_CHECKING:
    from unseen.backbones import Backbone
    from unseen.bundle import Bundle


@command(
    "train",
    examples="""
    unseen train --out my-bundle
    unseen train --method dgp --graph paper --epochs 3000 --out dgp-bundle
    unseen train --method sgcn --holdout 0.2 --epochs 300 --out sgcn-check
    unseen train --graph products.csv --backbone my_module:build_model --classes classes.txt --out products
    unseen train --method dgp --set k=2 --set weighted=false --out ablation
    """,
)
def train(
    out: Annotated[Path, typer.Option(help="The bundle to write: a folder.")],
    method: Annotated[
        str,
        typer.Option(help="dgp, sgcn, gcnz, gat, kin, structural, conse, devise, exem, sync, eszsl or network."),
    ] = "kin",
    graph: Annotated[
        str, typer.Option(help="imagenet (built in), paper, wordnet, a CSV/JSON/edge-list file, or imagenet+FILE.")
    ] = "imagenet",
    vectors: Annotated[
        str | None,
        typer.Option(
            help="glove (as published), text, glove+text (kin's default); or a GloVe, word2vec or fastText file."
        ),
    ] = None,
    backbone: Annotated[
        str, typer.Option(help="efficientnet-lite0, -lite1, -lite2, timm/NAME, or module:callable.")
    ] = "efficientnet-lite0",
    classes: Annotated[Path | None, typer.Option(help="The network's class ids in its order, one a line.")] = None,
    layer: Annotated[str | None, typer.Option(help="Name of the network's last linear layer, if not found.")] = None,
    weights: Annotated[Path | None, typer.Option(help="Weights of the network: safetensors or a torch file.")] = None,
    features: Annotated[
        Path | None, typer.Option(help="Feature store of seen photos, for methods that learn from photos.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Epochs, for the methods that have any.")] = None,
    setting: Annotated[
        list[str] | None, typer.Option("--set", help="Any setting of the method, as name=value; may be repeated.")
    ] = None,
    seed: Annotated[int, typer.Option(help="Random seed.")] = 0,
    holdout: Annotated[float, typer.Option(help="Share of seen classes to hide, for a check without photos.")] = 0.0,
    skip_missing: Annotated[bool, typer.Option(help="Leave out seen classes that the hierarchy lacks.")] = False,
    precision: Annotated[str, typer.Option(help="How classifiers are stored: fp32 or fp16.")] = "fp32",
    device: Annotated[str, typer.Option(help="auto, cpu, cuda, cuda:1, mps.")] = "auto",
    checkpoint_every: Annotated[int, typer.Option(min=1, help="Epochs between checkpoints.")] = 100,
    resume: Annotated[bool, typer.Option(help="Go on with an interrupted training in OUT.")] = False,
    overwrite: Annotated[
        bool, typer.Option(help="Replace a finished bundle in OUT; begin an interrupted one anew.")
    ] = False,
    json_: JsonFlag = False,
) -> None:
    """Predict a classifier for every class of a hierarchy, and write them as a bundle."""
    if precision not in ("fp32", "fp16"):
        raise UnseenError(f"--precision is fp32 or fp16, not {precision!r}")
    from unseen.backbones import load_backbone
    from unseen.bundle import Bundle
    from unseen.bundle.places import check_same, is_finished
    from unseen.methods import make_method
    from unseen.runtime.run import Run
    from unseen.scoring.candidates import read_ids
    from unseen.training.stage1 import train as fit

    settings = parse_settings(setting or [], epochs)
    chosen = asdict(make_method(method, settings).settings)  # here, since train() has other arguments of its own
    run = Run(seed=seed, device=device, resume=resume, checkpoint_every=checkpoint_every)
    ids = read_ids(classes) if classes else None
    if is_finished(out, resume, overwrite):
        bundle, network = Bundle.load(out), load_backbone(backbone, ids, weights, layer)
        asked = {"method": method, **chosen, "seed": seed, "precision": precision}
        check_same(out, *_then_and_now(bundle, network, graph, vectors, holdout, asked))
        bundle.check_backbone(network)
        tell(f"{out} is finished already.")
    else:
        bundle = fit(
            method,
            graph,
            vectors,
            backbone,
            out,
            classes=ids,
            layer=layer,
            weights=weights,
            features=features,
            holdout=holdout,
            skip_missing=skip_missing,
            precision=precision,
            run=run,
            say=tell,
            **settings,
        )
    emit(summary(bundle), json_, lambda: _show(bundle))


def _then_and_now(
    bundle: Bundle, network: Backbone, graph: str, vectors: str | None, holdout: float, asked: dict
) -> tuple[dict, dict]:
    """What a finished bundle was made with, and what is asked for now, in words that can be compared."""
    from unseen.semantics import load_vectors
    from unseen.taxonomy import Taxonomy
    from unseen.training.stage1 import default_vectors

    taxonomy, hidden = Taxonomy.load(graph), bundle.solution.details.get("holdout", {}).get("classes", 0)
    sources = load_vectors(vectors or default_vectors(asked["method"], taxonomy, lambda message: None))
    then = {
        "method": bundle.method,
        "graph": repr(bundle.taxonomy),
        "vectors": _name_vectors(bundle.vectors.provenance),
        "backbone": f"{bundle.backbone.name} ({bundle.backbone.checksum[:12]})",
        "hidden classes": hidden,
        **bundle.settings,
        "seed": bundle.seed,
        "precision": bundle.precision,
    }
    now = {
        "graph": repr(taxonomy),
        "vectors": _name_vectors([source.provenance for source in sources]),
        "backbone": f"{network.name} ({network.checksum[:12]})",  # its full name, whatever was typed
        "hidden classes": round(holdout * (len(bundle.seen) + hidden)),
    }
    return then, {"method": asked["method"], **now, **asked}


def _name_vectors(provenance: Iterable[dict]) -> str:
    """Sources of vectors in a few words that tell them apart."""
    return " + ".join(f"{of['name']} ({of.get('mode')}, {(of.get('sha256') or '')[:12]})" for of in provenance)


def parse_settings(pairs: list[str], epochs: int | None) -> dict:
    """`name=value` pairs; values are read as JSON where they can be (4, 0.5, true, [1, 2]), as text elsewhere."""
    settings = {} if epochs is None else {"epochs": epochs}
    for pair in pairs:
        name, equals, value = pair.partition("=")
        if not equals:
            raise UnseenError(f"--set takes name=value, not {pair!r}")
        try:
            settings[name] = json.loads(value)
        except ValueError:
            settings[name] = value
    return settings


def summary(bundle) -> dict:
    details = bundle.solution.details
    return {
        "bundle": str(bundle.path),
        "method": bundle.method,
        "nodes": len(bundle),
        "seen": len(bundle.seen),
        "epochs": details.get("epochs"),
        "loss": details.get("loss"),
        "seconds": details.get("train_seconds"),
        "peak_memory_mb": details.get("peak_memory_mb"),
        "weights": details.get("weights"),
        "hop_weights": details.get("hop_weights"),
        "holdout": details.get("holdout"),
    }


def _show(bundle) -> None:
    result = summary(bundle)
    stdout.print(
        f"[bold]{escaped(bundle.path)}[/bold]: {bundle.method}, {result['nodes']:,} classes from "
        f"{result['seen']:,} seen ones, {result['seconds']} s"
    )
    if result["loss"] is not None:
        after = "" if result["epochs"] is None else f" after {result['epochs']} epochs"
        stdout.print(f"  loss {result['loss']:.5f}{after}")
    for direction, weights in (result["hop_weights"] or {}).items():
        stdout.print(f"  hop weights from {direction}: " + " ".join(f"{weight:.3f}" for weight in weights))
    held = result["holdout"]
    if held and held["hit@1"] is not None:
        stdout.print(f"  {held['classes']} hidden classes: hit@1 {held['hit@1']} %, hit@5 {held['hit@5']} %")
    stdout.print(f"Try it: unseen classify PHOTO --bundle {escaped(bundle.path)}")
