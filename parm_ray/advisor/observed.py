"""From what ingresses have seen to what the adviser is asked about."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parm_ray.advisor.workload import ParityOffer, Workload
from parm_ray.core import Discipline
from parm_ray.stats.censored import kaplan_meier

# So many parity calls and comparisons are needed before what they say of slowdown and accuracy is believed.
PARITY_LEAST = 50


@dataclass(frozen=True, slots=True)
class Pools:
    """What a server has beside its deployed pool. offer: its parity models, None = no coded plans.

    shared: the deployed model's replicas hold them. discipline: see `routing.make_queue`.
    """

    offer: ParityOffer | None = None
    shared: bool = False
    discipline: Discipline = "single"


@dataclass(frozen=True, slots=True)
class Seen:
    """A workload as it was observed.

    calls: how many that ended it rests on; censored: cut off or still running. pairs: `[n, 2]` seconds, or
    None.
    """

    workload: Workload
    calls: int
    censored: int
    pairs: NDArray[np.float64] | None


def workload_of(pages: Sequence[Mapping[str, Any]], pools: Pools) -> Seen:
    """Return what the pages (`GET .../observations`, one of each ingress) say together.

    Service times are estimated with the calls that were cut off or still run as censored ones (Kaplan and
    Meier); where the longest of all is one of those, it is taken to end there, which is too soon. Several
    ingresses each send a replica as many calls as it has slots; they are taken for one. Batches are taken
    for queries: waiting for a batch to fill is the same under every plan. Refused queries count as demand.
    Raises ValueError if no call has ended, no query came, or a pool has no replica.
    """
    deployed, parity = _servers(pages, "deployed"), _servers(pages, "parity0")
    dedicated = pools.offer is not None and not pools.shared
    if not deployed or (dedicated and not parity):
        raise ValueError(f"pools: expected replicas in each, got {deployed} deployed and {parity} for parity")
    times, ended = _calls(pages, "deployed")
    service = kaplan_meier(times, ended, close=True)
    offer = _offer(pages, pools.offer, float(times[ended].mean()))
    workload = Workload(
        service,
        rate=sum(_demand(page["rates"]) for page in pages),
        replicas=deployed,
        parities=() if offer is None else (offer,),
        discipline=pools.discipline,
        parity_pool=parity if dedicated else 0,
    )
    pairs = np.array([pair for page in pages for pair in page["pairs"]], np.float64).reshape(-1, 2)
    return Seen(
        workload, int(ended.sum()), int((~ended).sum()), np.maximum(pairs, 1e-6) if len(pairs) else None
    )


def _servers(pages: Sequence[Mapping[str, Any]], lane: str) -> int:
    """Slots of the pool that takes a lane; an ingress that has just started may not see all replicas yet."""
    return max(
        (
            pool["replicas"] * pool["slots"]
            for page in pages
            for pool in page["pools"].values()
            if lane in pool["lanes"]
        ),
        default=0,
    )


def _calls(pages: Sequence[Mapping[str, Any]], lane: str) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    lanes = [page["calls"][lane] for page in pages if lane in page["calls"]]
    seconds = [s for one in lanes for s in one["seconds"]]
    more = [s for one in lanes for s in (*one["cut_off_s"], *one["running_s"])]
    if not seconds:
        raise ValueError(f"calls.{lane}: expected some that ended, got none")
    return np.array(seconds + more), np.arange(len(seconds) + len(more)) < len(seconds)


def _demand(rates: Mapping[str, float | None]) -> float:
    """Batches a second, those that refused queries would have made included."""
    batches, queries, refused = (rates[name] or 0.0 for name in ("batches", "queries", "refused"))
    served = queries - refused
    return batches * queries / served if served > 0 else queries


def _offer(
    pages: Sequence[Mapping[str, Any]], offer: ParityOffer | None, mean_s: float
) -> ParityOffer | None:
    """The offer with what was measured of it, as far as that is enough to go by."""
    if offer is None:
        return None
    slowdown, loss = offer.slowdown, offer.accuracy_loss
    seconds = [s for page in pages for s in page["calls"].get("parity0", {}).get("seconds", ())]
    if len(seconds) >= PARITY_LEAST and mean_s > 0:
        slowdown = float(np.mean(seconds)) / mean_s
    agreed, total = (sum(page["agreement"][name] for page in pages) for name in ("agreed", "total"))
    if loss is None and total >= PARITY_LEAST:
        # Every disagreement taken for an error: at most so much is lost, as the original may be wrong, too.
        loss = 1 - agreed / total
    return ParityOffer(offer.k, slowdown, offer.encoder, offer.decoder, loss)
