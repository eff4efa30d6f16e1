"""Every command on two small bundles, in a process of its own: `python commands.py FOLDER QUICK|SLOW OUT.json`.

It runs `python -m unseen` again and again in one process, for the import of torch takes longer than most commands.
"""

from __future__ import annotations

import contextlib
import csv
import io
import json
import os
import re
import runpy
import subprocess
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np

SEEN = [
    "n01530575", "n01688243", "n01774750", "n01917289", "n02033041", "n02091635", "n02099712", "n02108000", "n02115913",
    "n02177972", "n02391049", "n02487347", "n02699494", "n02817516", "n02951358", "n03063689", "n03220513", "n03425413",
    "n03544143", "n03710193", "n03791053", "n03891251", "n03982430", "n04118776", "n04252077", "n04355338", "n04476259",
    "n04579145", "n07697537", "n07920052",
]  # fmt: skip
UNSEEN = [
    "n01530439", "n01772664", "n01917611", "n02032222", "n02088745", "n02116185", "n02177196", "n02390101", "n02485988",
    "n02687821", "n02859184", "n03061345", "n03216562", "n03522100", "n02748491",
]  # fmt: skip
WIDTH = 16

NETWORK = """
import torch
from torch import nn


class Net(nn.Module):
    def __init__(self, num_classes=6):
        super().__init__()
        self.stem = nn.Conv2d(3, 16, 3, stride=2)
        self.head = nn.Linear(16, num_classes)

    def forward(self, x):
        return self.head(torch.relu(self.stem(x)).mean((2, 3)))


def build():
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(0)
        return Net()
"""

LINEAR = "--hierarchy tree.csv --vectors glove --network linear:head.npz --device cpu"
PHOTOS = "--hierarchy tree.csv --vectors glove --network golden_network:build --classes six.txt --transform small.json"
SMALL = "--bundle photos --trust-code --device cpu"

QUICK: dict[str, list[str]] = {
    "train": [
        f"train {LINEAR} --out linear --json",
        f"train {PHOTOS} --device cpu --out photos --json",
        f"train {LINEAR} --holdout 0.2 --precision fp16 --out hidden --json",
        f"train {LINEAR} --method dgp --epochs 3 --set hidden=8 --out dgp --json",
        f"train {LINEAR} --method structural --set decay=0.5 --out structural --json",
        f"train {LINEAR} --method eszsl --features seen.npz --out eszsl --json",
        f"train {LINEAR} --method nothing --out none --json",
        f"train {LINEAR} --out linear --json",
    ],
    "classify": [
        f"classify one.png {SMALL} -k 3 --json",
        f"classify labelled/unseen two.png broken.png {SMALL} -k 2 --confidence 0.5 --json",
        f"classify one.png {SMALL} --candidates unseen --prior uniform --json",
        f"classify one.png {SMALL} --candidates six.txt -k 9 --json",
        f"classify one.png {SMALL} --among names.txt --json",
        f"classify one.png {SMALL} --explain -k 1 --json",
        f"classify one.png {SMALL} --prior weights.csv -k 2 --json",
        "classify --features some.npy --bundle linear -k 3 --json",
        f"classify labelled/unseen --out labels.csv {SMALL} -k 2 --json",
        "show labels.csv",
        f"classify one.png {SMALL} --candidates some --json",
    ],
    "expect": ["expect names.txt --bundle linear --json"],
    "evaluate": [
        "evaluate linear --features unseen.npz --json",
        "evaluate linear --features unseen.npz --with-seen --per-class --json",
        "evaluate linear --features all.npz --candidates any --photos-of both --no-verdicts --json",
        "evaluate linear --features unseen.npz --candidates hops:2 --ties pessimistic --prior common --no-verdicts "
        "--json",
        "evaluate photos --photos labelled/unseen --workers 0 --trust-code --device cpu --no-verdicts --per-class "
        "--json",
    ],
    "calibrate": [
        "calibrate linear --photos seen.npz --fresh --out calibrated --json",
        "calibrate linear --photos seen.npz --fresh --harm 2 --holdout 0.3 --out other --json",
        "classify --features some.npy --bundle calibrated -k 2 --json",
        "evaluate calibrated --features all.npz --candidates any --photos-of both --json",
    ],
    "features": [
        "features --photos labelled/seen --out store --bundle photos --trust-code --workers 0 --device cpu --json",
        "features --photos labelled/seen --out store --bundle photos --trust-code --workers 0 --device cpu --json",
        "features --photos labelled/unseen --out store --bundle photos --trust-code --workers 0 --device cpu --prune "
        "--json",
    ],
    "add": [
        "add linear --name zorse --parent zebra --looks striped --out added --json",
        "add linear --csv new.csv --out added-many --json",
        "add linear --id n02456645 --out added-wordnet --json",
        "classify --features some.npy --bundle added-many --candidates own -k 2 --json",
        "add linear --name x --parent nowherexx --out none --json",
    ],
    "teach": [
        "teach linear --features lesson.npz --out taught --json",
        "teach photos --photos labelled/unseen --trust-code --device cpu --out taught-photos --json",
        "classify --features some.npy --bundle taught --candidates unseen -k 2 --json",
        "teach taught --forget mule --out taught --json",
    ],
    "hierarchy-check": [
        "hierarchy check tree.csv --classes classes.txt --json",
        "hierarchy check imagenet+new.csv --json",
    ],
    "hierarchy-suggest": ["hierarchy suggest names.txt --json"],
    "hierarchy-find": ["hierarchy find drill --json", "hierarchy find mule --hierarchy tree.csv --json"],
    "hierarchy-show": [
        "hierarchy show equine --hierarchy tree.csv --json",
        "hierarchy show n03239726 --depth 1 --json",
    ],
    "hierarchy-export": [
        "hierarchy export --hierarchy tree.csv --out copy.csv --json",
        "hierarchy export --hierarchy tree.csv --below equine",
    ],
    "info": ["info linear --json", "info photos --json", "info dgp --json", "info calibrated --json"],
    "compare": ["compare --ranks ranks.csv.gz --json"],
}
TUNE = "--workers 0 --device cpu --trust-code --epochs 2 --batch 4 --learning-rate 0.02"
SLOW: dict[str, list[str]] = {
    "demo": ["demo --json"],
    "finetune": [
        f"finetune photos --photos labelled/seen {TUNE} --out tuned --json",
        f"finetune photos --photos labelled/seen {TUNE} --schedule cosine --validation 0.5 --out tuned-cosine --json",
        "classify one.png --bundle tuned --trust-code --device cpu -k 3 --json",
    ],
    "export-onnx": ["export photos --to onnx --trust-code --candidates six.txt --out model.onnx --json"],
    "export-web": ["export photos --to web --trust-code --out page --json"],
    "reproduce": [
        "reproduce gat --photos labelled --hierarchy tree.csv --network golden_network:labelled --epochs 1 --workers 0 "
        "--device cpu --out work --json",
        "reproduce ablation --photos labelled --hierarchy tree.csv --network golden_network:labelled --epochs 2 "
        "--finetune-epochs 0 --workers 0 --device cpu --out work --json",
    ],
    "compare-photos": [
        "compare --photos labelled --network golden_network:labelled --methods structural,kin:glove --out compared "
        "--device cpu --json",
    ],
}
GROUPS = {"quick": QUICK, "slow": SLOW}
ONLY_KEYS = {"demo"}
RANKS = Path(__file__).resolve().parents[2] / "docs" / "results" / "comparison-ranks.csv.gz"

# What differs from one run, machine or version to the next.
VOLATILE = re.compile(
    r"seconds|per_s$|sha256|checksum|version|bytes|memory|^(made|made_from|format|max_difference|error)$"
)


def prepare(folder: Path) -> None:
    """What a user has: a network in a module and one in a file, a hierarchy, photos and features."""
    from PIL import Image

    import unseen

    folder.mkdir(parents=True, exist_ok=True)
    os.chdir(folder)
    random = np.random.default_rng(0)
    hierarchy = unseen.Hierarchy.imagenet().subgraph([*SEEN, *UNSEEN])
    rows = [f'{i},"{hierarchy.name(i)}",{"|".join(hierarchy.parents(i))}' for i in hierarchy.ids]
    Path("tree.csv").write_text("\n".join(["id,name,parent", *rows]) + "\n", encoding="utf-8")

    weight, bias = random.standard_normal((len(SEEN), WIDTH)), random.standard_normal(len(SEEN)) / 4
    np.savez("head.npz", weight=weight.astype(np.float32), bias=bias.astype(np.float32), classes=np.array(SEEN))
    centres = dict(zip(SEEN, weight, strict=True))
    for id in UNSEEN:  # near the seen classes that share most of the way from the top
        above = set(hierarchy.ancestors(id))
        shared = np.array([len(above & set(hierarchy.ancestors(one))) for one in SEEN])
        centres[id] = weight[shared == shared.max()].mean(axis=0) + 0.3 * random.standard_normal(WIDTH)

    def features(ids: list[str], each: int) -> dict[str, np.ndarray]:
        labels = np.repeat(ids, each)
        noise = 0.8 * random.standard_normal((len(labels), WIDTH))
        return {"features": (np.stack([centres[id] for id in labels]) + noise).astype(np.float32), "labels": labels}

    np.savez("seen.npz", **features(SEEN, 10))
    np.savez("unseen.npz", **features(UNSEEN, 6))
    np.savez("all.npz", **features([*SEEN, *UNSEEN], 3))
    np.savez("lesson.npz", **features(["n02390101", "n02485988", SEEN[0]], 2))
    np.save("some.npy", features([UNSEEN[0], UNSEEN[7], SEEN[0], SEEN[10]], 1)["features"])

    six = SEEN[:6]
    Path("golden_network.py").write_text(
        NETWORK + "\n\nfrom unseen import PhotoTransform, from_module\n\n\ndef labelled():\n"
        f'    return from_module(build(), {six!r}, PhotoTransform(32), name="golden_network:labelled")\n'
    )
    Path("classes.txt").write_text("\n".join(SEEN) + "\n")
    Path("six.txt").write_text("\n".join(six) + "\n")
    Path("small.json").write_text(json.dumps({"size": 32, "mean": 0.5, "std": 0.25}))
    Path("names.txt").write_text("zebra\nmule\nqqxzv gadget\nboater\ncrane (bird)\n")
    Path("weights.csv").write_text("name,weight\nn02390101,5\nn01917289,0\n")
    parents = f"pup,rescue pup,{hierarchy.parents('n02088745')[0]}\nbin,wheelie bin,{hierarchy.parents('n03216562')[0]}"
    Path("new.csv").write_text(f"id,name,parent\n{parents}\n")
    Path("ranks.csv.gz").write_bytes(RANKS.read_bytes())
    Path("broken.png").write_text("no photo")

    def photo(path: str, seed: list[int]) -> None:
        Path(path).parent.mkdir(parents=True, exist_ok=True)
        draw = np.random.default_rng(seed)
        pixels = np.clip(draw.uniform(0, 255, 3) + draw.normal(0, 40, (40, 48, 3)), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(path)

    shown = [*UNSEEN[:4], *(hierarchy.parents(id)[0] for id in six[:4])]  # the latter are one hop from a seen class
    photo("one.png", [1])
    photo("two.png", [2])
    for part, ids, each in (("seen", six, 4), ("seen-train", six, 2), ("seen-val", six, 1), ("unseen", shown, 2)):
        for label, id in enumerate(ids):
            for number in range(each):
                photo(f"labelled/{part}/{id}/{number}.png", [label, number, len(part)])


def run(command: str) -> dict[str, Any]:
    """One command as `python -m unseen` would run it."""
    arguments = command.split()
    if arguments[0] == "show":
        return {"command": command, "rows": read_table(Path(arguments[1]))}
    out, err, code = io.StringIO(), io.StringIO(), 0
    sys.argv = ["unseen", *arguments]
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        try:
            runpy.run_module("unseen", run_name="__main__", alter_sys=True)
        except SystemExit as end:
            code = end.code or 0
        except BaseException:
            traceback.print_exc()
            code = 70
    done: dict[str, Any] = {"command": command, "code": code}
    if "Traceback" in err.getvalue():
        done["traceback"] = err.getvalue()
    text = out.getvalue()
    if "--json" not in arguments:
        return done | {"text": text.splitlines()}
    found = json.loads(text) if text.strip() else None
    return done | {"json": only_keys(found) if arguments[0] in ONLY_KEYS else normalise(found)}


def read_table(path: Path) -> list[list[Any]]:
    """A CSV with its numbers as such, without the times of files."""
    with open(path, newline="", encoding="utf-8") as file:
        header, *rows = csv.reader(file)
    kept = [place for place, name in enumerate(header) if not VOLATILE.search(name)]
    number = re.compile(r"-?\d+\.\d+")
    cells = [[float(row[at]) if number.fullmatch(row[at]) else row[at] for at in kept] for row in rows]
    return [[header[at] for at in kept], *cells]


def normalise(value: Any, key: str = "") -> Any:
    """The value with what is volatile replaced."""
    if VOLATILE.search(key):
        return "<volatile>"
    if key == "by_class" and value:
        return f"<{len(value)} lists>"  # the figures beside it are their means
    if key == "trainings":
        return f"<{len(value)} trainings>"  # their seconds
    if isinstance(value, float):
        return float(f"{value:.7g}")
    if isinstance(value, dict):
        return {name: normalise(one, name) for name, one in value.items()}
    if isinstance(value, list):
        return [normalise(one, key) for one in value]
    if isinstance(value, str):
        return value.replace(str(Path.cwd()), "<folder>")
    return value


def only_keys(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: only_keys(one) for name, one in value.items()}
    if isinstance(value, list):
        return [only_keys(value[0])] if value else []
    return None if value is None else type(value).__name__


def run_group(folder: Path, group: str) -> dict[str, Any]:
    """Results of each topic of a group, from a process of its own; those that are in the folder are read."""
    out = folder / f"{group}.json"
    if out.exists():
        return json.loads(out.read_text(encoding="utf-8"))
    environment = {name: value for name, value in os.environ.items() if name != "UNSEEN_ASSETS"}
    environment |= {"OMP_NUM_THREADS": "1", "COLUMNS": "120"}
    command = [sys.executable, str(Path(__file__).resolve()), str(folder / group), group, str(out)]
    subprocess.run(command, env=environment, check=True)
    return json.loads(out.read_text(encoding="utf-8"))


def main(folder: str, group: str, out: str) -> None:
    file = Path(out).resolve()
    prepare(Path(folder))
    sys.path.insert(0, "")
    topics = GROUPS[group]
    if group == "slow":
        run(QUICK["train"][1])
    results = {topic: [run(command) for command in commands] for topic, commands in topics.items()}
    file.write_text(json.dumps(results), encoding="utf-8")


if __name__ == "__main__":
    main(*sys.argv[1:])
