"""Top-k and exact ranks against the bare matrix product. Same as `unseen bench score`."""

import json

from unseen.bench.score import run

if __name__ == "__main__":
    print(json.dumps(run(), indent=1))
