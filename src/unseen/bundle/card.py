"""The README.md that a bundle carries: what it is, where it comes from, how to use it."""

from __future__ import annotations

from typing import Any


def card(header: dict[str, Any]) -> str:
    details, backbone = header["details"], header["backbone"]
    hierarchy = header["hierarchy"].get("kind", "own")
    lines = [
        f"# {header['method']} classifiers for {header['nodes']:,} classes",
        "",
        f"Made by `unseen` {header['made']['packages'].get('unseen', '')} on "
        f"{header['made']['at'][:10]}: a classifier for every class of a hierarchy, predicted from the "
        f"{header['seen']:,} classes that the network was trained on.",
        "",
        "| | |",
        "|---|---|",
        f"| network | {backbone['name']}{' (finetuned, inside)' if backbone['finetuned'] else ''}, "
        f"weights {backbone['checksum'][:12]} |",
        f"| hierarchy | {hierarchy}, {header['nodes']:,} nodes |",
        f"| class vectors | {' + '.join(header['vectors']['names'])} |",
        f"| method | {header['method']}, seed {header['seed']} |",
    ]
    for key in ("epochs", "loss", "train_seconds"):
        if details.get(key) is not None:
            lines.append(f"| {key.replace('_', ' ')} | {details[key]} |")
    if details.get("holdout"):
        held = details["holdout"]
        lines.append(
            f"| hidden seen classes | {held['classes']}: own classifier found first {held['hit@1']} %, "
            f"among five {held['hit@5']} % |"
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
        + (", ".join(f"{key} {value}" for key, value in header["settings"].items()) or "the method's defaults")
        + ".",
        "",
    ]
    return "\n".join(lines)
