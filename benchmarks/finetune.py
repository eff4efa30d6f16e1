"""Photos a second of stage 2 against the bare network step. Same as `unseen bench finetune`."""

import json

from unseen.bench.finetune import run

if __name__ == "__main__":
    print(json.dumps(run(), indent=1))
