"""Which nodes of a cluster take part, and in which order."""

from __future__ import annotations

import ipaddress
from collections.abc import Sequence
from typing import Any

from load_tests.shuffles.settings import ShuffleSettings


class ShuffleError(RuntimeError):
    """Shuffles cannot run on this cluster; the message says what is missing."""


def taking_part(cluster: Sequence[dict[str, Any]], settings: ShuffleSettings) -> list[dict[str, Any]]:
    """The living nodes with the resource, by address: a seed then means the same pairs every time.

    cluster: what `ray.nodes()` returned. Raises ShuffleError for fewer than two nodes, or if a node's
    object store is too small for the chunks that can meet there.
    """
    wanted = settings.resource
    found = [
        node for node in cluster if node["Alive"] and (wanted is None or node["Resources"].get(wanted, 0) > 0)
    ]
    if len(found) < 2:
        which = "living nodes" if wanted is None else f"living nodes that have {wanted!r}"
        raise ShuffleError(f"resource: expected at least 2 {which}, found {len(found)}")
    needed = settings.most_stored_bytes
    for node in found:
        room = int(node["Resources"].get("object_store_memory", 0))
        if room < needed:
            raise ShuffleError(
                f"concurrent, window, chunk_mb: up to {needed / 1e6:.0f} MB of chunks can meet on a node,"
                f" but the object store of {node['NodeManagerAddress']} has {room / 1e6:.0f} MB"
            )
    return sorted(found, key=lambda node: (*_order(node["NodeManagerAddress"]), node["NodeID"]))


def names(nodes: Sequence[dict[str, Any]]) -> tuple[str, ...]:
    """The nodes' addresses; where several nodes share one, with the start of their ids."""
    addresses = [node["NodeManagerAddress"] for node in nodes]
    return tuple(
        address if addresses.count(address) == 1 else f"{address}/{node['NodeID'][:6]}"
        for address, node in zip(addresses, nodes, strict=True)
    )


def _order(address: str) -> tuple[int, str]:
    """10.0.0.9 before 10.0.0.10."""
    try:
        return int(ipaddress.ip_address(address)), ""
    except ValueError:
        return 0, address
