"""`python -m load_tests.shuffles`: background traffic on a running cluster, until Ctrl-C or SIGTERM."""

from __future__ import annotations

import argparse
import json
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from types import FrameType

import ray

from load_tests.shuffles.background import ShuffleError, start
from load_tests.shuffles.settings import ShuffleSettings, load_settings
from parm_ray.core import ConfigError


class _Stop:
    """Set by a signal. A plain flag: the handler may run in the midst of anything."""

    asked = False

    def __call__(self, number: int, frame: FrameType | None) -> None:
        self.asked = True


def main(argv: Sequence[str] | None = None) -> int:
    """Shuffle, print the report, and return the exit status: 0, or 2 if it could not run."""
    options = _parser().parse_args(argv)
    try:
        settings = load_settings(options.config) if options.config else ShuffleSettings()
        ray.init(address=options.address, log_to_driver=False, logging_level=logging.WARNING)
    except (ConfigError, ConnectionError) as error:
        print(f"shuffles: {error}", file=sys.stderr)
        return 2
    # After ray.init, which sets handlers of its own.
    stop = _Stop()
    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        with start(settings) as shuffles:
            print(f"shuffling between {', '.join(shuffles.nodes)}", file=sys.stderr, flush=True)
            while not stop.asked and not shuffles.over.wait(0.3):
                pass
    except ShuffleError as error:
        print(f"shuffles: {error}", file=sys.stderr)
        return 2
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
        ray.shutdown()
    report = shuffles.report
    if options.out:
        options.out.write_text(json.dumps(report.to_json(), indent=1))
    print(json.dumps(report.to_json()) if options.json else report)
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m load_tests.shuffles",
        description="Background traffic: random pairs of nodes exchange data, until Ctrl-C or SIGTERM.",
    )
    parser.add_argument("--config", type=Path, help="YAML file with the settings (default: as in the paper)")
    parser.add_argument(
        "--address", default="auto", help="of the Ray cluster (default: RAY_ADDRESS, or found)"
    )
    parser.add_argument("--json", action="store_true", help="print the whole report as JSON")
    parser.add_argument("--out", type=Path, help="write the report to this file, as JSON")
    return parser


if __name__ == "__main__":
    sys.exit(main())
