"""Import every module of the package, to see that it can be: on another system, or with fewer extras."""

from __future__ import annotations

import importlib
import pkgutil
import sys
import traceback

import unseen


def main() -> int:
    names = [found.name for found in pkgutil.walk_packages(unseen.__path__, "unseen.")]
    failed = 0
    for name in names:
        if name == "unseen.__main__":  # would run the command line
            continue
        try:
            importlib.import_module(name)
        except Exception as error:
            if getattr(error, "name", None) == "sklearn":  # a module for those who have it
                continue
            failed += 1
            print(f"{name}:\n{traceback.format_exc()}", file=sys.stderr)
    print(f"{len(names) - failed} of {len(names)} modules of unseen {unseen.__version__} import on {sys.platform}")
    return failed > 0


if __name__ == "__main__":
    sys.exit(main())
