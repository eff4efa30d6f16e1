"""An epoch of stage 1 on the full graph, on the receptive field, and its bare products: `unseen bench stage1`."""

import json

from unseen.bench.stage1 import run

if __name__ == "__main__":
    print(json.dumps(run(), indent=1))
