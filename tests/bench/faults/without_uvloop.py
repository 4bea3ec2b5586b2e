"""The console script ``svc`` as on a system without uvloop, also in the worker processes that it starts."""

import sys
from typing import Any

modules: dict[str, Any] = sys.modules
modules["uvloop"] = None

from deploy.cli import main  # noqa: E402 -- the web server chooses its loop when it is imported

if __name__ == "__main__":
    main()
