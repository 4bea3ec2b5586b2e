"""The file of figures that benches store and ``tests.bench.capacity`` reads, with the machine of each."""

import json
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

FILE: Final = Path(__file__).with_name("figures.json")

Values = dict[str, float]


def keep(bench: str, values: Mapping[str, float]) -> None:
    """Store the figures of a bench, and where and when they were measured."""
    stored = json.loads(FILE.read_text()) if FILE.exists() else {}
    stored[bench] = {
        "machine": _machine(),
        "measured_on": f"{datetime.now(UTC):%Y-%m-%d}",
        # Other work of the machine makes each millisecond of a processor dearer.
        "load": round(os.getloadavg()[0], 1),
        "values": {name: round(value, 3) for name, value in values.items()},
    }
    FILE.write_text(json.dumps(dict(sorted(stored.items())), indent=1) + "\n")


def _machine() -> dict[str, Any]:
    found = [
        line.partition(":")[2].strip()
        for line in Path("/proc/cpuinfo").read_text().splitlines()
        if line.startswith("model name")
    ]
    memory = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    return {
        "processor": found[0] if found else platform.machine(),
        "cores": os.cpu_count(),
        "memory_gib": round(memory / 2**30),
        "system": f"{platform.system()} {platform.release().partition('-')[0]}",
        "python": platform.python_version(),
    }
