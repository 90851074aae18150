"""Work spread over a Ray cluster: the `spread` of `scenarios.study`."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import ray


def over_cluster(address: str) -> Callable[[Callable[..., Any], Iterable[Any]], Iterator[Any]]:
    """Return a `map` whose calls run as Ray tasks, one CPU each, results in the order of the arguments.

    address: of the cluster, "auto" or host:port; its nodes need this package. A task that is lost with
    its node runs again. Raises ConnectionError if there is no cluster, when it is used.
    """

    def spread(function: Callable[..., Any], tasks: Iterable[Any]) -> Iterator[Any]:
        ray.init(address=address, ignore_reinit_error=True, log_to_driver=False)
        remote = ray.remote(num_cpus=1)(function)
        for under_way in [remote.remote(task) for task in tasks]:
            yield ray.get(under_way)

    return spread
