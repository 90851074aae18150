"""Simulations over several processes of this machine."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from multiprocessing import get_context
from typing import Any

Map = Callable[[Callable[..., Any], Iterable[Any]], Iterator[Any]]
"""Like the built-in `map` of one iterable, in order; over processes, or over a cluster."""


def over_processes(processes: int) -> Map:
    """Return a `map` over so many processes; one is this one. They are spawned: Ray's and torch's
    threads would not survive a fork.
    """

    def spread(function: Callable[..., Any], tasks: Iterable[Any]) -> Iterator[Any]:
        if processes == 1:
            yield from map(function, tasks)
            return
        with workers(processes) as over:
            yield from over(function, tasks)

    return spread


@contextmanager
def workers(processes: int, module: str | None = None) -> Iterator[Map]:
    """A `map` over so many processes that are started once, for whoever calls it often.

    module: imported there at once, while the caller has other things to do.
    """
    if processes == 1:
        yield map
        return
    with ProcessPoolExecutor(processes, mp_context=get_context("spawn")) as pool:
        if module is not None:
            for _ in range(processes):
                pool.submit(_imported, module)
        yield pool.map


def _imported(module: str) -> None:
    import_module(module)
