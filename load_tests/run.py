"""`python -m load_tests.run SCENARIO.yaml`: a scenario on a real Serve cluster, recorded, then reported.

Without more it starts a Ray cluster of its own on this machine. The run directory holds everything;
`python -m load_tests.report DIR` makes tables and the page from it at any time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import shlex
import signal
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from pathlib import Path
from types import FrameType
from typing import Literal

from pydantic import ValidationError
from rich.console import Console

from load_tests import netlab, report, scenario_simulated, second_model
from load_tests.client import SendFailed
from load_tests.cluster import ClusterError, cluster
from load_tests.experiment.rows import json_rows, measure
from load_tests.experiment.runs import Run, read_run
from load_tests.faults import NotOurs
from load_tests.given_cluster import reach
from load_tests.progress import Reporter
from load_tests.scenario_places import InLab, OneCluster, TheirCluster
from load_tests.scenario_run import Place, Wanted, carry_out
from parm_ray.config.scenario import Scenario
from parm_ray.config.scenario_files import scenario_file
from parm_ray.core import ConfigError, ParmError

EXECUTORS: dict[str, Literal["netlab", "simulator"]] = {"lab": "netlab", "simulator": "simulator"}
ROOT = Path(__file__).resolve().parents[1]

_CANNOT = (
    ParmError,
    ClusterError,
    netlab.NetlabError,
    NotOurs,
    ValidationError,
    SendFailed,
    OSError,
    KeyError,
)


def main(argv: Sequence[str] | None = None) -> int:
    """Run it and return the exit status: 0, or 2 if it could not run."""
    options = _parser().parse_args(argv)
    stderr = Console(stderr=True)
    try:
        scenario = scenario_file(options.scenario, options.set, options.shrink, options.scale)
        wanted = _wanted(scenario, options)
        # A simulation must not replace the measurement that it is to be held against.
        folder = f"{scenario.name}_simulated" if options.on == "simulator" else scenario.name
        out = options.out or ROOT / "out" / folder
        arguments = sys.argv[1:] if argv is None else list(argv)
        run = described(scenario, arguments, options.on)
        if options.on == "netlab":
            return _inside_a_lab(scenario, options, arguments)
        if options.on == "simulator":
            scenario_simulated.carry_out(scenario, wanted, out, run, Reporter(stderr), options.processes)
        else:
            with _place(scenario, options) as place:
                carry_out(scenario, wanted, place, out, ROOT, run, Reporter(stderr))
    except _CANNOT as error:
        stderr.print(f"[red]error:[/] {error}", highlight=False, soft_wrap=True)
        return 2
    if options.json:
        print(json.dumps(json_rows([one.row for one in measure(read_run(out))]), indent=2))
        return 0
    return report.main([str(out)])


@contextmanager
def _place(scenario: Scenario, options: argparse.Namespace) -> Iterator[Place]:
    if options.on == "lab":
        yield InLab(netlab.current())
    elif options.on == "cluster":
        given = reach(options.dashboard, options.http)
        yield TheirCluster(given, options.address, on_model_nodes=scenario.lab is not None)
    elif scenario.second_model is not None:
        raise ConfigError("second_model: one machine has no nodes to share; run it with --on netlab")
    else:
        with cluster(num_cpus=4, cwd=ROOT) as ray:
            yield OneCluster(ray)


def _inside_a_lab(scenario: Scenario, options: argparse.Namespace, arguments: Sequence[str]) -> int:
    """Start a lab and this command again in its frontend, where the load has to come from."""
    settings = netlab.LabSettings.model_validate(scenario.lab or {})
    if scenario.second_model is not None:
        settings = second_model.on_some_nodes(settings, scenario.second_model.nodes)
    command = [sys.executable, "-m", "load_tests.run", *arguments, "--on", "lab"]
    with netlab.start(settings, cwd=ROOT, say=lambda words: print(words, file=sys.stderr)) as lab:
        return lab.run(command, cwd=ROOT, check=False).returncode


def _wanted(scenario: Scenario, options: argparse.Namespace) -> Wanted:
    by_name = {plan.name: plan for plan in scenario.plans}
    names = list(by_name) if options.plans is None else options.plans.split(",")
    unknown = [name for name in names if name not in by_name]
    if unknown:
        raise ConfigError(f"plans: {', '.join(unknown)} not in the scenario, which has {', '.join(by_name)}")
    queries = options.queries or scenario.queries
    if queries <= scenario.warm_up:
        raise ConfigError(f"queries: expected more than warm_up ({scenario.warm_up}), got {queries}")
    return Wanted(
        tuple(by_name[name] for name in names), queries, options.repetitions or scenario.repetitions
    )


def described(scenario: Scenario, arguments: Sequence[str], on: str, module: str = "load_tests.run") -> Run:
    """Return a run without cells: what is run, where, from which commit, by which command."""
    return Run(
        scenario=scenario.name,
        executor=EXECUTORS.get(on, "serve"),
        command=shlex.join(["python", "-m", module, *arguments]),
        commit=_commit(),
        date=datetime.now(timezone.utc).date().isoformat(),
        machine={"cores": os.cpu_count(), "platform": platform.system(), "python": platform.python_version()},
        settings=scenario.model_dump(mode="json"),
    )


def _commit() -> str:
    done = subprocess.run(
        ["git", "rev-parse", "--short=12", "HEAD"], cwd=ROOT, capture_output=True, text=True, check=False
    )
    return done.stdout.strip() or "unknown"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m load_tests.run", description=__doc__.split("\n")[0])
    parser.add_argument("scenario", type=Path, help="a YAML file, see load_tests/scenarios")
    parser.add_argument("--plans", help="comma-separated names (default: all)")
    parser.add_argument("--queries", type=int, help="per repetition (default: the scenario's)")
    parser.add_argument("--repetitions", type=int, help="(default: the scenario's)")
    parser.add_argument(
        "--set", action="append", default=[], metavar="KEY=VALUE", help="over the file's, such as seed=2"
    )
    parser.add_argument("--shrink", type=int, default=1, help="all pools so many times smaller, rates too")
    parser.add_argument(
        "--scale", type=float, default=1.0, help="all times so many times as long, rates as many times lower"
    )
    parser.add_argument(
        "--on",
        choices=("local", "netlab", "lab", "cluster", "simulator"),
        default="local",
        help="a cluster on this machine; a lab of several nodes (root); the lab this command runs in; "
        "a running cluster; virtual time",
    )
    parser.add_argument(
        "--dashboard", default="http://127.0.0.1:8265", help="of --on cluster: Ray's dashboard"
    )
    parser.add_argument("--http", default="http://127.0.0.1:8000", help="of --on cluster: Serve's proxy")
    parser.add_argument("--address", default="auto", help="of --on cluster: Ray's address, for shuffles")
    parser.add_argument("--processes", type=int, default=1, help="of the simulator (default: 1)")
    parser.add_argument("--out", type=Path, help="run directory (default: out/NAME, or out/NAME_simulated)")
    parser.add_argument("--json", action="store_true", help="print the rows on stdout as JSON")
    return parser


def interrupt(number: int, frame: FrameType | None) -> None:
    """For SIGTERM: leave through the context managers, which end the cluster."""
    raise KeyboardInterrupt


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, interrupt)
    sys.exit(main())
