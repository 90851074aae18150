"""The lab's network: made, shaped, cut, counted, removed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from load_tests.netlab import kernel
from load_tests.netlab.kernel import NetlabError
from load_tests.netlab.layout import BRIDGE, NODE_INTERFACE, PREFIX_LENGTH, Layout
from load_tests.netlab.settings import LabSettings, LinkSettings


@dataclass(frozen=True, slots=True)
class Traffic:
    """Bytes over a node's link since it was made, headers included. Differences are a run's bytes."""

    sent: int
    received: int

    def __sub__(self, earlier: Traffic) -> Traffic:
        return Traffic(self.sent - earlier.sent, self.received - earlier.received)


def build(layout: Layout, settings: LabSettings) -> None:
    """Make every namespace, the bridge and the shaped links. Raises NetlabError; what was made stays."""
    for command in commands(layout, settings):
        kernel.call(*command)


def commands(layout: Layout, settings: LabSettings) -> Iterator[tuple[str, ...]]:
    """The commands of `build`, in order."""
    bridge = layout.bridge_namespace
    for namespace in layout.namespaces:
        yield ("ip", "netns", "add", namespace)
        yield ("ip", "-n", namespace, "link", "set", "lo", "up")
    # No spanning tree: there are no loops, and a port forwards from the moment it is up.
    yield (
        *("ip", "-n", bridge, "link", "add", "name", BRIDGE, "type", "bridge"),
        *("stp_state", "0", "forward_delay", "0"),
    )
    yield ("ip", "-n", bridge, "link", "set", BRIDGE, "up")
    for node in layout.numbers:
        namespace, port = layout.namespace(node), layout.port(node)
        yield (
            *("ip", "-n", namespace, "link", "add", "name", NODE_INTERFACE, "type", "veth"),
            *("peer", "name", port, "netns", bridge),
        )
        yield ("ip", "-n", bridge, "link", "set", port, "master", BRIDGE, "up")
        address = f"{layout.address(node)}/{PREFIX_LENGTH}"
        yield ("ip", "-n", namespace, "address", "add", address, "dev", NODE_INTERFACE)
        yield ("ip", "-n", namespace, "link", "set", NODE_INTERFACE, "up")
        yield from shape_commands(layout, node, settings.link_of(node))


def shape_commands(layout: Layout, node: int, link: LinkSettings) -> Iterator[tuple[str, ...]]:
    """One token bucket for what the node sends, one at the bridge for what it receives; how TCP behaves."""
    yield (
        *("ip", "-n", layout.namespace(node), "route", "replace", layout.subnet, "dev", NODE_INTERFACE),
        *("proto", "kernel", "scope", "link", "src", layout.address(node)),
        # Of a route: for a namespace but the first, the kernel allows few of them.
        *("rto_min", f"{round(link.rto_min_ms)}ms", "congctl", link.congestion_control),
    )
    if link.tcp_buffer_mb is not None:
        most = round(link.tcp_buffer_mb * 1e6)
        for name, first in (("tcp_wmem", 16384), ("tcp_rmem", 131072)):
            setting = f"net.ipv4.{name}=4096 {first} {most}"
            yield ("ip", "netns", "exec", layout.namespace(node), "sysctl", "-q", "-w", setting)
    for namespace, device in (
        (layout.namespace(node), NODE_INTERFACE),
        (layout.bridge_namespace, layout.port(node)),
    ):
        yield (
            *("tc", "-n", namespace, "qdisc", "replace", "dev", device, "root", "tbf"),
            *("rate", f"{round(link.rate_mbit * 1e6)}bit"),
            *("burst", f"{round(link.burst_kb * 1024)}b"),
            *("latency", f"{link.latency_ms:g}ms"),
        )


def shape(layout: Layout, node: int, link: LinkSettings) -> None:
    """Give a running node's link another rate, burst or latency; connections stay."""
    for command in shape_commands(layout, node, link):
        kernel.call(*command)


def set_link(layout: Layout, node: int, *, up: bool) -> None:
    """Pull a node's cable at the bridge, or plug it in. Nobody is told: packets just get lost."""
    state = "up" if up else "down"
    kernel.call("ip", "-n", layout.bridge_namespace, "link", "set", layout.port(node), state)


def traffic(layout: Layout) -> dict[int, Traffic]:
    """Every node's counters, in one reading at the bridge (dropped packets are not in it)."""
    ports = {layout.port(node): node for node in layout.numbers}
    found = {}
    for interface in kernel.ask("ip", "-n", layout.bridge_namespace, "-j", "-s", "link", "show"):
        if (node := ports.get(interface["ifname"])) is not None:
            counted = interface["stats64"]
            found[node] = Traffic(sent=counted["rx"]["bytes"], received=counted["tx"]["bytes"])
    return found


def remove(layout: Layout) -> None:
    """Delete what there is of the lab's namespaces, and with them all interfaces. Repeatable.

    A namespace lives on, nameless, while a process is in it: end those first.
    """
    for namespace in layout.namespaces:
        try:
            if kernel.exists(namespace):
                kernel.call("ip", "netns", "delete", namespace)
        except NetlabError:
            # Somebody else may be cleaning up, too.
            if kernel.exists(namespace):
                raise
