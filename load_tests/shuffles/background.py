"""Keeps exchanges going on the current Ray connection, from the start of a block to its end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import ray
from ray.exceptions import ActorDiedError, GetTimeoutError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from load_tests.shuffles import actor, plan
from load_tests.shuffles.nodes import ShuffleError, names, taking_part
from load_tests.shuffles.plan import Exchange
from load_tests.shuffles.report import Finished, ShuffleReport
from load_tests.shuffles.settings import ShuffleSettings
from parm_ray.core import Clock, monotonic

# How long actors may take to start, and how long chunks under way may take to arrive at the end.
START_S = 120.0
END_S = 20.0
# Before the next exchange after one that failed: a fault that stays must not become a busy loop.
AFTER_FAILURE_S = 1.0


class Shuffles:
    """Exchanges that are going on. `over` is set once no further one will be begun."""

    def __init__(self, settings: ShuffleSettings, clock: Clock = monotonic) -> None:
        self.settings = settings
        self.over = threading.Event()
        self._clock = clock
        nodes = taking_part(ray.nodes(), settings)
        self.nodes = names(nodes)
        self._planned = plan.exchanges(len(nodes), settings.size_mb, settings.seed)
        # Guards the plan and the records, which all lanes share.
        self._lock = threading.Lock()
        self._finished: list[Finished] = []
        self._cut = 0
        self._lost: set[int] = set()
        self._addresses: list[tuple[str, int]] = []
        self._report: ShuffleReport | None = None
        self._actors = [_actor(node["NodeID"], settings.seed + i) for i, node in enumerate(nodes)]
        self._lanes = ThreadPoolExecutor(settings.concurrent, thread_name_prefix="shuffle")
        self._timer = threading.Timer(settings.duration_s or 0.0, self._finish)
        self._timer.daemon = True

    @property
    def ended(self) -> int:
        """How many exchanges have ended so far."""
        return len(self._finished)

    @property
    def report(self) -> ShuffleReport:
        """What was moved; there once the block has ended. Raises ShuffleError before."""
        if self._report is None:
            raise ShuffleError("the shuffles still run: their report is there after the end of the block")
        return self._report

    def begin(self) -> None:
        """Wait for the actors and start the lanes. Raises ShuffleError if an actor does not come up."""
        try:
            ray.get([each.ready.remote() for each in self._actors], timeout=START_S)
        except (GetTimeoutError, RayError) as error:
            raise ShuffleError(f"an actor did not start within {START_S:.0f} s: {error}") from None
        if self.settings.via == "tcp":
            self._addresses = ray.get([each.listen.remote() for each in self._actors], timeout=START_S)
        self._began = self._clock()
        self._running = [self._lanes.submit(self._lane) for _ in range(self.settings.concurrent)]
        if self.settings.duration_s is not None:
            self._timer.start()

    def end(self) -> None:
        """Let chunks under way arrive, write the report, end the actors."""
        self._finish()
        for lane in self._running:
            lane.result()
        seconds = self._clock() - self._began
        moved = {}
        answers = [each.received.remote() for each in self._actors]
        ray.wait(answers, num_returns=len(answers), timeout=END_S)
        for receiver, answer in enumerate(answers):
            try:
                taken = ray.get(answer, timeout=0)
            except (GetTimeoutError, RayError):
                self._lost.add(receiver)
            else:
                moved.update({(sender, receiver): n for sender, n in taken.items()})
        lost = tuple(self.nodes[i] for i in sorted(self._lost))
        self._report = ShuffleReport(self.nodes, moved, tuple(self._finished), self._cut, seconds, lost)

    def kill(self) -> None:
        """End the actors, and with them whatever they hold in the object stores."""
        self.over.set()
        self._timer.cancel()
        for each in self._actors:
            ray.kill(each)
        # A call to a dead actor fails, which is how its death is known.
        ray.wait([each.ready.remote() for each in self._actors], num_returns=len(self._actors), timeout=END_S)
        self._lanes.shutdown(wait=True)

    def _finish(self) -> None:
        self.over.set()
        for each in self._actors:
            each.stop.remote()

    def _lane(self) -> None:
        """One exchange after the other, until it is over."""
        while not self.over.is_set():
            with self._lock:
                exchange = next(self._planned)
                alive = len(self._actors) - len(self._lost)
                skipped = self._lost & {exchange.first, exchange.second}
            if alive < 2:
                self.over.set()
            elif not skipped:
                failed = self._exchange(exchange)
                self.over.wait(max(self.settings.pause_s, AFTER_FAILURE_S if failed else 0.0))

    def _exchange(self, exchange: Exchange) -> bool:
        """Carry out one exchange and note how it ended; return whether it failed."""
        began = self._clock()
        sending = [self._sent(exchange.first, exchange.second, exchange.size)]
        if self.settings.both_ways:
            sending.append(self._sent(exchange.second, exchange.first, exchange.size))
        arrived = self._arrived(sending)
        ended = self._clock()
        failed = arrived is None and not self.over.is_set()
        if failed:
            self._note_losses(exchange)
        with self._lock:
            if failed or arrived == exchange.size * len(sending):
                self._finished.append(
                    Finished(exchange.first, exchange.second, began - self._began, ended - began, failed)
                )
            else:
                self._cut += 1
        return failed

    def _sent(self, sender: int, receiver: int, size: int) -> Any:
        """Begin to send; return the reference to the bytes that will have arrived."""
        actor = self._actors[sender]
        if self.settings.via == "tcp":
            return actor.stream.remote(sender, self._addresses[receiver], size)
        sizes = plan.chunks(size, self.settings.chunk_bytes)
        return actor.send.remote(sender, self._actors[receiver], sizes, self.settings.window)

    def _arrived(self, sending: list[Any]) -> int | None:
        """Bytes that arrived; None if a node was lost, or the rest did not arrive in time after the end."""
        patience = END_S
        while patience > 0:
            done, _ = ray.wait(sending, num_returns=len(sending), timeout=0.5)
            if len(done) == len(sending):
                try:
                    return sum(ray.get(sending))
                except RayError:
                    return None
            if self.over.is_set():
                patience -= 0.5
        return None

    def _note_losses(self, exchange: Exchange) -> None:
        for node in (exchange.first, exchange.second):
            try:
                ray.get(self._actors[node].ready.remote(), timeout=END_S)
            except ActorDiedError:
                with self._lock:
                    self._lost.add(node)
            except (GetTimeoutError, RayError):
                # Out of reach, which may pass.
                pass


@contextmanager
def start(settings: ShuffleSettings) -> Iterator[Shuffles]:
    """Shuffle in the background of the block, on the current Ray connection, and leave nothing behind.

    One actor per node, zero CPUs, bound to its node. The report is there after the block. Raises
    ShuffleError if fewer than two nodes have the resource, their object stores are too small for the
    chunks under way, or an actor does not start.
    """
    shuffles = Shuffles(settings)
    try:
        shuffles.begin()
        try:
            yield shuffles
        finally:
            shuffles.end()
    finally:
        shuffles.kill()


def _actor(node_id: str, seed: int) -> Any:
    # By value: the nodes of a real cluster need not have load_tests.
    ray.cloudpickle.register_pickle_by_value(actor)
    try:
        return (
            ray.remote(actor.Mover)
            .options(
                num_cpus=0,
                max_restarts=0,
                scheduling_strategy=NodeAffinitySchedulingStrategy(node_id, soft=False),
            )
            .remote(seed)
        )
    finally:
        ray.cloudpickle.unregister_pickle_by_value(actor)
