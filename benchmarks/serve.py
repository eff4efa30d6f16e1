"""The web server: latency of a photo, requests in parallel, memory over 2,000 of them. Same as `unseen bench serve`."""

import json

from unseen.bench.serve import run

if __name__ == "__main__":
    print(json.dumps(run(), indent=1))
