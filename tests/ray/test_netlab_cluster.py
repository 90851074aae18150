"""A real lab: Ray on three nodes in namespaces of their own, a Serve application, shuffles, a lost node."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest

from load_tests import netlab
from load_tests.netlab import kernel, lifecycle, members, state
from load_tests.netlab.lab import Lab
from load_tests.netlab.layout import Layout
from load_tests.netlab.settings import LabSettings

ROOT = Path(__file__).parents[2]
REASON = netlab.unavailable()

pytestmark = [
    pytest.mark.root,
    pytest.mark.slow,
    pytest.mark.skipif(REASON is not None, reason=str(REASON)),
]

INFER = """
import json, sys, urllib.request
import numpy as np
from load_tests import netlab, serve_app
lab = netlab.current()
images = np.load(sys.argv[1])["images"][:4]
tensor = {"name": "image", "datatype": "UINT8", "shape": list(images.shape), "data": images.ravel().tolist()}
body = json.dumps({"inputs": [tensor]}).encode()
request = urllib.request.Request(f"{lab.base_url}/v2/models/digits/infer", data=body)
with urllib.request.urlopen(request, timeout=60) as response:
    outcomes, shape = response.headers["x-parm-outcome"], json.load(response)["outputs"][0]["shape"]
replicas = [
    {"deployment": name, "pid": replica["pid"], "node": lab.node_of(replica["pid"])}
    for app in serve_app.applications(lab.cluster).values()
    for name, deployment in app["deployments"].items()
    for replica in deployment["replicas"]
]
print(json.dumps({"outcomes": outcomes, "shape": shape, "replicas": replicas}))
"""

WAIT_FOR_A_LOSS = """
import sys, time
from load_tests import netlab
from load_tests.netlab import ready
url, give_up = netlab.current().dashboard_url, time.monotonic() + 120
while (alive := ready.alive(url)) > int(sys.argv[1]) and time.monotonic() < give_up:
    time.sleep(0.3)
print(alive)
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with netlab.start(LabSettings(model_nodes=2), cwd=ROOT) as running:
        yield running


def python(lab: Lab, *arguments: str) -> str:
    """Run Python in the frontend; what it printed last."""
    done = lab.run([sys.executable, *arguments], capture=True, check=False, cwd=ROOT)
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout.splitlines()[-1]


def left_of(name: str) -> list[str]:
    layout = Layout(name, 2)
    found = [namespace for namespace in layout.namespaces if kernel.exists(namespace)]
    return found + [str(path) for path in (lifecycle.temp_dir(name), state.path_of(name)) if path.exists()]


def gone(process: psutil.Process) -> bool:
    """Whether a process has ended; one that init has not taken leave of yet has."""
    try:
        return not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return True


def test_an_application_answers_in_the_lab_and_its_replicas_are_where_they_belong(
    lab: Lab, artifacts: Path
) -> None:
    deploy = ["-m", "load_tests.netlab", "deploy", "serve_configs/tiny.yaml", "--amount", "0.5"]
    assert python(lab, *deploy) == lab.base_url
    found = json.loads(python(lab, "-c", INFER, str(artifacts / "digits" / "queries.npz")))
    assert set(found["outcomes"].split(",")) <= {"original", "reconstructed"}
    assert found["shape"] == [4, 10]
    nodes: dict[str, list[int]] = {}
    for replica in found["replicas"]:
        nodes.setdefault(replica["deployment"], []).append(replica["node"])
        assert lab.owns(replica["pid"])
        assert lab.cluster.owns(replica["pid"])
    assert nodes["Ingress"] == [0]
    assert len(nodes["DeployedModel"] + nodes["ParityModel"]) == 3
    assert set(nodes["DeployedModel"] + nodes["ParityModel"]) <= {1, 2}
    assert not lab.owns(os.getpid())


def test_what_shuffles_move_crosses_the_nodes_links(lab: Lab, tmp_path: Path) -> None:
    config = tmp_path / "shuffles.yaml"
    config.write_text("{concurrent: 2, size_mb: [2, 4], duration_s: 3, seed: 5}")
    before = lab.traffic()
    report: dict[str, Any] = json.loads(
        python(lab, "-m", "load_tests.shuffles", "--config", str(config), "--json")
    )
    moved = {node: now - before[node] for node, now in lab.traffic().items()}
    assert report["nodes"] == [lab.layout.address(1), lab.layout.address(2)]
    assert (report["exchanges"] > 0, report["failed"]) == (True, 0)
    there, back = (pair["bytes"] for pair in report["pairs"])
    assert min(there, back) > 1_000_000
    # Headers and what Ray says besides come on top; more than that would be another way than the links.
    assert there <= moved[1].sent < 1.3 * there + 2e6
    assert there <= moved[2].received < 1.3 * there + 2e6
    assert back <= moved[2].sent < 1.3 * back + 2e6
    assert moved[0].sent + moved[0].received < report["bytes"] / 2 + 2e6


def test_a_lost_node_is_lost_to_ray_and_shuffles_end_when_nobody_is_left_to_talk_to(
    lab: Lab, tmp_path: Path
) -> None:
    out = tmp_path / "report.json"
    command = [sys.executable, "-m", "load_tests.shuffles", "--out", str(out)]
    with lab.popen(command, stderr=subprocess.PIPE, cwd=ROOT) as shuffling:
        assert shuffling.stderr is not None
        assert any(line.startswith("shuffling between") for line in shuffling.stderr)
        lab.lose(2)
        complaints = shuffling.stderr.read()
    assert shuffling.returncode == 0, complaints
    report = json.loads(out.read_text())
    assert report["failed"] > 0
    assert report["lost_nodes"] == [lab.layout.address(2)]
    assert python(lab, "-c", WAIT_FOR_A_LOSS, "2") == "2"


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGKILL])
def test_a_lab_from_the_command_line_is_gone_after_its_owner(end: signal.Signals, tmp_path: Path) -> None:
    config = tmp_path / "lab.yaml"
    config.write_text("model_nodes: 1")
    words = [sys.executable, "-m", "load_tests.netlab"]
    command = ["sh", "-c", "echo $PARM_NETLAB; sleep 600"]
    owner = subprocess.Popen(
        [*words, "run", "--config", str(config), "--", *command], stdout=subprocess.PIPE, text=True, cwd=ROOT
    )
    try:
        assert owner.stdout is not None
        name = Path(owner.stdout.readline().strip()).stem
        inside = members.members(members.identities(Layout(name, 1).namespaces))
        assert {"raylet", "gcs_server", "sh"} <= {process.name() for process in inside}
    finally:
        owner.send_signal(end)
        status = owner.wait(timeout=60)
    if end == signal.SIGKILL:
        assert left_of(name)
        cleaned = subprocess.run([*words, "clean"], capture_output=True, text=True, cwd=ROOT, check=True)
        assert name in cleaned.stdout
    else:
        assert status == 128 + end
    assert left_of(name) == []
    assert [process for process in inside if not gone(process)] == []
