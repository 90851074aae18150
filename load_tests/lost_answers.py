"""Sends labelled queries to a system that loses answers, until each was once answered without its own.

Which query is lost is the server's choice: one slot of every group. A query whose own answer came is
sent again in the next round, among others that are still to be lost, in a new random order. So every
query is counted once whatever the server does, and its neighbours are random queries like itself.
"""

from __future__ import annotations

import asyncio
import math
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from load_tests import oip
from load_tests.client import Reply, SendFailed
from load_tests.http_target import HttpTarget
from load_tests.phase import LabelledImages
from load_tests.server_stats import ServedModel
from parm_ray.core import Outcome

# Failed requests until the run is given up.
PATIENCE = 50


class NotLost(RuntimeError):
    """The run cannot measure anything; the message says why."""


@dataclass(frozen=True, slots=True)
class Answer:
    """One answer over HTTP. image: which of the set was sent; output: `[*output]` as it came."""

    image: int
    outcome: Outcome
    group: int
    slot: int
    output: NDArray[np.generic]


@dataclass
class Collected:
    """Every answer of a run, in the order of arrival; failed requests by reason; rounds it took."""

    k: int
    answers: list[Answer] = field(default_factory=list)
    failures: Counter[str] = field(default_factory=Counter)
    rounds: int = 0

    def full_groups(self) -> list[list[Answer]]:
        """The groups that had all k slots, members by slot. One ingress's ids never repeat."""
        groups: dict[int, list[Answer]] = {}
        for answer in self.answers:
            groups.setdefault(answer.group, []).append(answer)
        full = [sorted(g, key=lambda a: a.slot) for g in groups.values()]
        return [g for g in full if [a.slot for a in g] == list(range(self.k))]

    def reconstructed(self) -> list[Answer]:
        """The reconstructed answers of full groups: what A_d is about."""
        return [a for g in self.full_groups() for a in g if a.outcome is Outcome.RECONSTRUCTED]


async def collect(
    model: ServedModel,
    images: LabelledImages,
    queries: int,
    k: int,
    rng: np.random.Generator,
    *,
    rows_per_request: int = 1,
    concurrency: int = 8,
    timeout_s: float = 120.0,
    on_round: Callable[[int, int], None] = lambda number, left: None,
) -> Collected:
    """Send until `queries` queries (whole passes over the set, the last cut off) were reconstructed.

    on_round: told each round's number and how many queries it sends. Raises NotLost when nothing is ever
    reconstructed, or more than PATIENCE requests fail.
    """
    left = np.concatenate(
        [rng.permutation(len(images.images)) for _ in range(math.ceil(queries / len(images.images)))]
    )[:queries]
    template = oip.RequestTemplate(
        model.input.name, model.input.shape, model.input.dtype, model.output.name, rows_per_request
    )
    requests: list[NDArray[np.integer]] = []

    def body(i: int) -> bytes:
        rows = images.images[requests[i]]
        return template.body(rows[0] if rows_per_request == 1 else rows)

    found = Collected(k)
    async with HttpTarget(model.base_url, model.name, template.headers, body, timeout_s) as target:
        while len(left):
            found.rounds += 1
            on_round(found.rounds, len(left))
            # Whole groups and whole requests, so that a round leaves no group open: filled up at random.
            padding = -len(left) % math.lcm(rows_per_request, k)
            sent = rng.permutation(np.concatenate([left, rng.integers(len(images.images), size=padding)]))
            requests[:] = sent.reshape(-1, rows_per_request)
            before, failed = len(found.answers), sum(found.failures.values())
            await _round(target, requests, model.output.name, concurrency, found)
            lost = Counter(a.image for a in found.answers[before:] if a.outcome is Outcome.RECONSTRUCTED)
            if not lost and sum(found.failures.values()) == failed:
                raise NotLost("no answer was reconstructed; is model.emulate.lose set to one_per_group?")
            left = _still_to_be_lost(left, lost)
    return found


def _still_to_be_lost(left: NDArray[np.integer], lost: Counter[int]) -> NDArray[np.integer]:
    """Take each image off the list as often as it was lost, if it is there."""
    kept = []
    for image in left.tolist():
        if lost[image] > 0:
            lost[image] -= 1
        else:
            kept.append(image)
    return np.asarray(kept, np.int64)


async def _round(
    target: HttpTarget,
    requests: Sequence[NDArray[np.integer]],
    output_name: str,
    concurrency: int,
    found: Collected,
) -> None:
    """Send every request once, `concurrency` at a time, in order."""
    numbers = iter(range(len(requests)))

    async def work() -> None:
        for i in numbers:
            try:
                found.answers += _read(await target(i), output_name, requests[i])
            except (SendFailed, oip.Malformed) as error:
                found.failures[str(error)] += 1
                if found.failures.total() > PATIENCE:
                    (reason, times), *_ = found.failures.most_common(1)
                    raise NotLost(f"too many requests failed; {times} times: {reason}") from None

    workers = [asyncio.create_task(work()) for _ in range(concurrency)]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()


def _read(reply: Reply, output_name: str, sent: NDArray[np.integer]) -> list[Answer]:
    """The answers of one response. Raises SendFailed for an error, Malformed for one without provenance."""
    if reply.status != 200:
        raise SendFailed(f"HTTP {reply.status}: {oip.error_message(reply.body)}")
    arrays = oip.outputs(reply.headers, reply.body, output_name)
    said = oip.document(reply.headers, reply.body).get("parameters", {})
    many = len(sent) > 1
    try:
        outcomes, groups, slots = (
            said[name + "s"].split(",") if many else [said[name]] for name in ("outcome", "group", "slot")
        )
        return [
            Answer(int(image), Outcome(outcome), int(group), int(slot), array)
            for image, outcome, group, slot, array in zip(sent, outcomes, groups, slots, arrays, strict=True)
        ]
    except (KeyError, ValueError, AttributeError) as error:
        raise oip.Malformed(f"infer response: {type(error).__name__}: {error}") from None
