from __future__ import annotations

import json
from pathlib import Path

import pytest

from load_tests.netlab import kernel, network, ray_nodes
from load_tests.netlab.kernel import NetlabError
from load_tests.netlab.layout import Layout, is_name, new_name
from load_tests.netlab.network import Traffic
from load_tests.netlab.settings import LabSettings, LinkSettings

LAYOUT = Layout("parmlab-0a1b2c", 2)


def test_names_follow_from_the_labs_name() -> None:
    assert LAYOUT.namespaces == [
        "parmlab-0a1b2c-0",
        "parmlab-0a1b2c-1",
        "parmlab-0a1b2c-2",
        "parmlab-0a1b2c-bridge",
    ]
    assert len({LAYOUT.address(node) for node in LAYOUT.numbers}) == 3
    assert new_name() != new_name()
    assert is_name(new_name())
    assert not any(map(is_name, ("parmlab-", "parmlab-0a1b2c/..", "eth0", "parmlab-0a1b2c-1", "")))


def test_the_largest_lab_has_an_address_for_everybody() -> None:
    from load_tests.netlab.settings import MOST_MODEL_NODES

    big = Layout("parmlab-0a1b2c", MOST_MODEL_NODES)
    assert max(int(big.address(node).split(".")[-1]) for node in big.numbers) < 255


def test_nothing_is_ever_made_outside_the_labs_namespaces() -> None:
    for command in network.commands(LAYOUT, LabSettings(model_nodes=2)):
        if command[:3] == ("ip", "netns", "add"):
            assert command[3] in LAYOUT.namespaces
        else:
            assert command[1] == "-n"
            assert command[2] in LAYOUT.namespaces


def test_a_link_is_limited_at_both_ends_and_its_nodes_tcp_is_told_how_to_behave() -> None:
    link = LinkSettings(rate_mbit=2.5, burst_kb=16, latency_ms=0.5, rto_min_ms=400)
    wanted = "root tbf rate 2500000bit burst 16384b latency 0.5ms"
    assert [" ".join(command) for command in network.shape_commands(LAYOUT, 1, link)] == [
        "ip -n parmlab-0a1b2c-1 route replace 10.199.0.0/24 dev eth0 proto kernel scope link "
        "src 10.199.0.2 rto_min 400ms congctl cubic",
        f"tc -n parmlab-0a1b2c-1 qdisc replace dev eth0 {wanted}",
        f"tc -n parmlab-0a1b2c-bridge qdisc replace dev port1 {wanted}",
    ]


def test_a_nodes_own_rate_reaches_its_link_alone() -> None:
    settings = LabSettings(model_nodes=2, nodes={2: {"rate_mbit": 7}})  # type: ignore[dict-item]
    slow = [c for c in network.commands(LAYOUT, settings) if "7000000bit" in c]
    assert [(c[2], c[c.index("dev") + 1]) for c in slow] == [
        ("parmlab-0a1b2c-2", "eth0"),
        ("parmlab-0a1b2c-bridge", "port2"),
    ]


def test_what_the_bridge_receives_from_a_node_is_what_the_node_sent(monkeypatch: pytest.MonkeyPatch) -> None:
    interfaces = [
        {"ifname": name, "stats64": {"rx": {"bytes": rx}, "tx": {"bytes": tx}}}
        for name, rx, tx in [("lo", 9, 9), ("br0", 8, 8), ("port0", 1, 2), ("port1", 3, 4), ("port2", 5, 6)]
    ]
    monkeypatch.setattr(kernel, "call", lambda *command: json.dumps(interfaces))
    found = network.traffic(LAYOUT)
    assert found == {0: Traffic(1, 2), 1: Traffic(3, 4), 2: Traffic(5, 6)}
    assert found[2] - found[0] == Traffic(sent=4, received=4)


def test_a_failed_command_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    fake = tmp_path / "ip"
    fake.write_text("#!/bin/sh\necho no such thing >&2\nexit 3\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:/usr/bin:/bin")
    with pytest.raises(NetlabError, match=r"`ip link show x` ended with status 3: no such thing"):
        kernel.call("ip", "link", "show", "x")


def programs(folder: Path, **scripts: str) -> str:
    """A PATH on which only these programs are."""
    for name, script in scripts.items():
        path = folder / name
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
    return str(folder)


def test_a_lab_is_refused_without_root(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 1000)
    with pytest.raises(kernel.NetlabUnavailable, match="needs root"):
        kernel.require()


@pytest.mark.parametrize("missing", ["ip", "tc", "nsenter"])
def test_a_lab_is_refused_without_its_programs(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, missing: str
) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    there = {name: "exit 0" for name in kernel.PROGRAMS if name != missing}
    monkeypatch.setenv("PATH", programs(tmp_path, **there))
    reason = kernel.unavailable()
    assert reason is not None
    assert f"`{missing}`" in reason
    assert kernel.PROGRAMS[missing] in reason


def test_a_lab_is_refused_without_the_qdisc(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("os.geteuid", lambda: 0)
    unknown = "echo Error: Specified qdisc kind is unknown. >&2; exit 2"
    monkeypatch.setenv("PATH", programs(tmp_path, ip="exit 0", nsenter="exit 0", tc=unknown))
    reason = kernel.unavailable()
    assert reason is not None
    assert "token bucket" in reason
    assert "qdisc kind is unknown" in reason


def test_ray_starts_as_head_at_the_frontend_and_joins_it_elsewhere(tmp_path: Path) -> None:
    settings = LabSettings(model_nodes=2)
    nodes = ray_nodes.RayNodes(LAYOUT, settings, tmp_path, tmp_path, {})
    head, member = nodes.command(0), nodes.command(2)
    assert "--head" in head
    assert "--head" not in member
    assert member[member.index("--address") + 1] == f"{LAYOUT.address(0)}:{ray_nodes.GCS_PORT}"
    assert member[member.index("--node-ip-address") + 1] == LAYOUT.address(2)
    assert json.loads(member[member.index("--resources") + 1]) == {"model_node": 1}
    own = {command[command.index("--temp-dir") + 1] for command in map(nodes.command, LAYOUT.numbers)}
    assert len(own) == 3


def test_the_callers_cluster_does_not_leak_into_the_lab(tmp_path: Path) -> None:
    base = {"RAY_ADDRESS": "elsewhere:1", "RAY_DASHBOARD_ADDRESS": "elsewhere:2", "HOME": "/home"}
    settings = LabSettings(environment={"MARK": "1", "RAY_AUTH_MODE": "token"})
    env = ray_nodes.environment(LAYOUT, settings, tmp_path / "state", base)
    assert env["RAY_ADDRESS"] == f"{LAYOUT.address(0)}:{ray_nodes.GCS_PORT}"
    assert "elsewhere" not in " ".join(env.values())
    assert (env["HOME"], env["MARK"], env["RAY_AUTH_MODE"]) == ("/home", "1", "token")
