"""A test file run as a program that talks to Ray: pytest's own process has no connection, and keeps none."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]


def run_driver(server: Any, file: str, folder: Path, *words: str, timeout: float = 300) -> None:
    """Run `file` with the cluster's address, `folder` and `words`; raises AssertionError if it fails."""
    address = (server.cluster.temp_dir / "ray_current_cluster").read_text()
    done = subprocess.run(
        [sys.executable, file, address, str(folder), *words],
        env=server.cluster.env | {"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=timeout,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
