"""Shuffles between the nodes of a small real cluster, all of them on this machine's one address."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
ENV = {**os.environ, "RAY_AUTH_MODE": "disabled", "RAY_USAGE_STATS_ENABLED": "0"}

# A process of its own: this one has no Ray connection, and keeps none.
CLUSTER = """
import os, sys, tempfile
from ray.cluster_utils import Cluster
# Where it writes its address, wherever its own files are: nobody else makes the directory.
os.makedirs("/tmp/ray", exist_ok=True)
with tempfile.TemporaryDirectory(prefix="parm-", ignore_cleanup_errors=True) as folder:
    head = {"num_cpus": 0, "include_dashboard": False, "temp_dir": folder}
    cluster = Cluster(initialize_head=True, head_node_args=head)
    for _ in range(2):
        cluster.add_node(num_cpus=0, resources={"model_node": 1}, object_store_memory=100 * 2**20)
    print(cluster.address, flush=True)
    sys.stdin.read()
    cluster.shutdown()
"""

DRIVER = """
import json, sys, time
import ray
from ray._private.internal_api import memory_summary
from load_tests import shuffles
from load_tests.shuffles import ShuffleError, ShuffleSettings, plan

ray.init(sys.argv[1], log_to_driver=False)
settings = ShuffleSettings(concurrent=1, size_mb=(1, 2), chunk_mb=0.5, seed=3, via=sys.argv[2])
give_up = time.monotonic() + 120
with shuffles.start(settings) as running:
    try:
        running.report
        early = True
    except ShuffleError:
        early = False
    while running.ended < 4 and time.monotonic() < give_up:
        time.sleep(0.05)
report = running.report

planned = plan.exchanges(2, settings.size_mb, settings.seed)
ahead = [next(planned) for _ in report.finished]
# Ray frees what nobody refers to about once a second.
give_up = time.monotonic() + 60
while " 0 objects," not in (stored := memory_summary(sys.argv[1], stats_only=True)):
    if time.monotonic() > give_up:
        break
    time.sleep(0.1)
states = {actor["State"] for actor in ray._private.state.actors().values()}
print(json.dumps({
    "report": report.to_json(), "early": early, "actors": sorted(states), "stored": stored,
    "planned": [[e.first, e.second, e.size] for e in ahead],
}))
"""


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    with subprocess.Popen(
        [sys.executable, "-c", CLUSTER], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=ENV
    ) as process:
        assert process.stdout is not None
        assert process.stdin is not None
        lines = iter(process.stdout.readline, "")
        yield next(line.strip() for line in lines if line.count(":") == 1 and line.strip()[-1:].isdigit())
        process.stdin.close()


@pytest.mark.parametrize("via", ["objects", "tcp"])
def test_exchanges_follow_the_plan_and_leave_nothing_behind(address: str, via: str) -> None:
    done = subprocess.run(
        [sys.executable, "-c", DRIVER, address, via],
        capture_output=True,
        text=True,
        env=ENV,
        cwd=ROOT,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    report, planned = found["report"], found["planned"]
    assert not found["early"]
    assert len(report["finished"]) >= 4
    assert (report["failed"], report["lost_nodes"]) == (0, [])
    assert [[one["first"], one["second"]] for one in report["finished"]] == [one[:2] for one in planned]
    whole = 2 * sum(size for _, _, size in planned)
    # Beyond the exchanges that ended there is at most a part of the one that was cut short.
    assert whole <= report["bytes"] <= whole + report["cut"] * 2 * 2_000_000
    there, back = (pair["bytes"] for pair in report["pairs"])
    assert there + back == report["bytes"]
    assert found["actors"] == ["DEAD"]
    assert " 0 objects," in found["stored"], found["stored"]


def command(address: str, tmp_path: Path, settings: str, *more: str) -> list[str]:
    config = tmp_path / "shuffles.yaml"
    config.write_text(settings)
    program = [sys.executable, "-m", "load_tests.shuffles", "--address", address]
    return [*program, "--config", str(config), *more]


def test_the_command_shuffles_until_it_is_told_to_stop(address: str, tmp_path: Path) -> None:
    out = tmp_path / "report.json"
    words = command(
        address, tmp_path, "{size_mb: [1, 2], both_ways: false, concurrent: 2}", "--out", str(out)
    )
    with subprocess.Popen(
        words, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=ENV, cwd=ROOT
    ) as process:
        assert process.stderr is not None
        assert any(line.startswith("shuffling between") for line in process.stderr)
        process.send_signal(signal.SIGTERM)
        printed, complaints = process.communicate(timeout=120)
    assert process.returncode == 0, complaints
    assert " exchanges between 2 nodes, 0 failed" in printed
    assert json.loads(out.read_text())["cut"] <= 2


def test_the_command_ends_by_itself_after_its_duration(address: str, tmp_path: Path) -> None:
    words = command(address, tmp_path, "{size_mb: [0.5, 0.5], duration_s: 0.5}", "--json")
    done = subprocess.run(words, capture_output=True, text=True, env=ENV, cwd=ROOT, timeout=300, check=False)
    assert done.returncode == 0, done.stderr[-3000:]
    assert json.loads(done.stdout)["seconds"] >= 0.5


def test_the_command_says_why_it_cannot(address: str, tmp_path: Path) -> None:
    words = command(address, tmp_path, "resource: no_such_thing")
    done = subprocess.run(words, capture_output=True, text=True, env=ENV, cwd=ROOT, timeout=300, check=False)
    assert done.returncode == 2
    assert "at least 2 living nodes that have 'no_such_thing', found 0" in done.stderr
