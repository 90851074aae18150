"""Work spread over a Ray cluster: the `spread` of `scenarios.study`."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import ray

REACH_S = 5.0
"""How long a cluster's port may take to answer."""


def over_cluster(address: str) -> Callable[[Callable[..., Any], Iterable[Any]], Iterator[Any]]:
    """Return a `map` whose calls run as Ray tasks, one CPU each, results in the order of the arguments.

    address: of the cluster, "auto" or host:port; its nodes need this package. A task that is lost with
    its node runs again. Raises ConnectionError if there is no cluster.
    """

    _reach(address)

    def spread(function: Callable[..., Any], tasks: Iterable[Any]) -> Iterator[Any]:
        ray.init(address=address, ignore_reinit_error=True, log_to_driver=False)
        remote = ray.remote(num_cpus=1)(function)
        for under_way in [remote.remote(task) for task in tasks]:
            yield ray.get(under_way)

    return spread


def _reach(address: str) -> None:
    """Knock first: Ray itself waits for minutes where nobody listens. "auto" it finds out at once."""
    host, colon, port = address.rpartition(":")
    if not colon:
        return
    try:
        socket.create_connection((host, int(port)), timeout=REACH_S).close()
    except (OSError, ValueError) as error:
        raise ConnectionError(str(error)) from None
