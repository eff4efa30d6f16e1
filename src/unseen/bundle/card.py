"""The README.md that a bundle carries: what it is, where it comes from, how to use it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from unseen.bundle.core import Bundle


def card(bundle: Bundle) -> str:
    backbone, hierarchy = bundle.backbone, bundle.taxonomy.source.get("kind", "own")
    lines = [
        f"# {bundle.method} classifiers for {len(bundle):,} classes",
        "",
        f"Made by `unseen` {bundle.made['packages'].get('unseen', '')} on {bundle.made['at'][:10]}: a classifier for "
        f"every class of a hierarchy, predicted from the {len(bundle.seen):,} classes that the network was trained on.",
        "",
        "| | |",
        "|---|---|",
        f"| network | {backbone.name}{' (finetuned, inside)' if backbone.finetuned else ''}, "
        f"weights {backbone.checksum[:12]} |",
        f"| hierarchy | {hierarchy}, {len(bundle):,} nodes |",
        f"| class vectors | {' + '.join(bundle.vectors.names)} |",
        f"| method | {bundle.method}, seed {bundle.seed} |",
    ]
    fit, training = bundle.solution.record, bundle.training
    figures = {"epochs": fit.epochs, "loss": fit.loss, "train seconds": training.seconds}
    lines += [f"| {name} | {figure} |" for name, figure in figures.items() if figure is not None]
    held = training.holdout
    if held is not None:
        lines.append(
            f"| hidden seen classes | {held.classes}: own classifier found first {held.hit_1} %, "
            f"among five {held.hit_5} % |"
        )
    lines += [
        "",
        "```python",
        "import unseen",
        "",
        'model = unseen.load("path/to/this/folder")',
        'for label in model.classify("photo.jpg", k=5):',
        "    print(label.name, label.id, label.score)",
        "```",
        "",
        "Scores rank classes for one photo; they are not probabilities. Classes far from every seen one are guesswork: "
        "see the trust figure, where the method gives one.",
        "",
        "Settings: "
        + (", ".join(f"{key} {value}" for key, value in bundle.settings.items()) or "the method's defaults")
        + ".",
        "",
    ]
    return "\n".join(lines)
