"""Real links between real namespaces, without Ray: what passes, what is counted, what is limited."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from load_tests import netlab
from load_tests.netlab import kernel, lifecycle, ray_nodes
from load_tests.netlab.lab import Lab
from load_tests.netlab.layout import NODE_INTERFACE
from load_tests.netlab.settings import LabSettings, LinkSettings, NodeOverride

REASON = netlab.unavailable()

pytestmark = [pytest.mark.root, pytest.mark.skipif(REASON is not None, reason=str(REASON))]

SETTINGS = LabSettings(
    model_nodes=2,
    link=LinkSettings(rate_mbit=400),
    nodes={2: NodeOverride(rate_mbit=40, latency_ms=20, congestion_control="reno")},
)

SERVER = """
import socket
with socket.create_server(("", 5000)) as listening:
    print("listening", flush=True)
    while True:
        peer = listening.accept()[0]
        got = 0
        while chunk := peer.recv(1 << 16):
            got += len(chunk)
        peer.sendall(str(got).encode())
        peer.close()
"""
CLIENT = """
import socket, sys
with socket.create_connection((sys.argv[1], 5000), timeout=float(sys.argv[3])) as server:
    server.sendall(bytes(int(sys.argv[2])))
    server.shutdown(socket.SHUT_WR)
    print(server.recv(100).decode())
"""

# Both print how their end of one connection finds its rate.
ACCEPTS = """
import socket
with socket.create_server(("", 5001)) as listening:
    print("listening", flush=True)
    peer = listening.accept()[0]
    print(peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).decode().strip(chr(0)))
"""
CONNECTS = """
import socket, sys
peer = socket.create_connection((sys.argv[1], 5001), timeout=60)
print(peer.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).decode().strip(chr(0)))
"""


@pytest.fixture(scope="module")
def lab() -> Iterator[Lab]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ray_nodes.RayNodes, "start", lambda self, say: None)
        command = [sys.executable, "-c", SERVER]
        with (
            lifecycle.start(SETTINGS) as running,
            running.popen(command, node=2, stdout=subprocess.PIPE) as server,
        ):
            assert server.stdout is not None
            assert server.stdout.readline() == "listening\n"
            yield running
            server.kill()


def send(lab: Lab, size: int, *, from_node: int = 1, timeout_s: float = 60) -> str | None:
    """Send bytes to node 2; what it says it got, or None if that failed."""
    arguments = [sys.executable, "-c", CLIENT, lab.layout.address(2), str(size), str(timeout_s)]
    done = lab.run(arguments, node=from_node, capture=True, check=False)
    return done.stdout.strip() if done.returncode == 0 else None


def buckets(lab: Lab, node: int) -> list[tuple[int, int, int]]:
    """(bytes a second, burst in bytes, latency in microseconds) at both ends of a node's link."""
    ends = [
        (lab.layout.namespace(node), NODE_INTERFACE),
        (lab.layout.bridge_namespace, lab.layout.port(node)),
    ]
    found = []
    for namespace, device in ends:
        (root,) = kernel.ask("tc", "-n", namespace, "-j", "qdisc", "show", "dev", device)
        assert root["kind"] == "tbf"
        options = root["options"]
        found.append((options["rate"], options["burst"], options["lat"]))
    return found


def near(wanted: tuple[int, int, int]) -> object:
    # The kernel keeps bursts and queue lengths as times, in ticks.
    return pytest.approx(wanted, rel=0.02)


def test_every_links_two_ends_are_limited_as_the_settings_say(lab: Lab) -> None:
    for node in (0, 1):
        assert [near(end) for end in buckets(lab, node)] == [(50_000_000, 65536, 200_000)] * 2
    assert [near(end) for end in buckets(lab, 2)] == [(5_000_000, 65536, 20_000)] * 2


def test_connections_find_their_rate_as_their_node_is_told(lab: Lab) -> None:
    with lab.popen([sys.executable, "-c", ACCEPTS], node=2, stdout=subprocess.PIPE) as accepts:
        assert accepts.stdout is not None
        assert accepts.stdout.readline() == "listening\n"
        connects = [sys.executable, "-c", CONNECTS, lab.layout.address(2)]
        assert lab.run(connects, node=1, capture=True).stdout.strip() == "cubic"
        assert accepts.stdout.readline().strip() == "reno"


def test_what_crosses_a_link_is_counted_there_and_nowhere_else(lab: Lab) -> None:
    before = lab.traffic()
    assert send(lab, 1_000_000) == "1000000"
    moved = {node: now - before[node] for node, now in lab.traffic().items()}
    # Headers come on top, and packets that were sent again.
    assert 1_000_000 < moved[1].sent < 1_500_000
    assert 1_000_000 < moved[2].received < 1_500_000
    assert moved[1].received + moved[2].sent < 500_000
    assert moved[0].sent + moved[0].received < 10_000


def test_a_pulled_cable_lets_nothing_through_until_it_is_back(lab: Lab) -> None:
    lab.set_link(2, up=False)
    try:
        before = lab.traffic()[2]
        assert send(lab, 1000, timeout_s=0.3) is None
        assert lab.traffic()[2] == before
    finally:
        lab.set_link(2, up=True)
    assert send(lab, 1000) == "1000"
    assert [near(end) for end in buckets(lab, 2)] == [(5_000_000, 65536, 20_000)] * 2


def test_a_changed_rate_holds_at_both_ends_and_keeps_the_rest(lab: Lab) -> None:
    lab.set_rate(2, 8)
    assert [near(end) for end in buckets(lab, 2)] == [(1_000_000, 65536, 20_000)] * 2
    assert send(lab, 1000) == "1000"
    lab.set_rate(2, 40)


def test_commands_run_in_the_frontends_namespace(lab: Lab) -> None:
    done = lab.run(["ip", "-4", "-o", "address", "show", "dev", NODE_INTERFACE], capture=True)
    assert f"inet {lab.layout.address(0)}/24" in done.stdout
    shown = lab.run(["sh", "-c", "echo $PARM_NETLAB $RAY_ADDRESS $MARK"], capture=True, env={"MARK": "7"})
    assert shown.stdout.split() == [
        f"/run/parm-netlab/{lab.name}.json",
        f"{lab.layout.address(0)}:6379",
        "7",
    ]
    with pytest.raises(subprocess.CalledProcessError):
        lab.run(["false"])


def test_a_lost_node_loses_its_processes_and_the_others_keep_theirs(lab: Lab) -> None:
    victims = [lab.popen(["sleep", "600"], node=node) for node in (1, 2)]
    lab.lose(1)
    assert victims[0].wait(timeout=5) == -9
    assert victims[1].poll() is None
    assert send(lab, 10, from_node=0) == "10"
    victims[1].kill()
    victims[1].wait()
