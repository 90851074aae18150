"""From pages of observations to a workload."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from parm_ray.advisor import ParityOffer
from parm_ray.advisor.observed import Pools, workload_of


def page(seconds: list[float], **more: Any) -> dict[str, Any]:
    deployed = {"seconds": seconds, "cut_off_s": [], "running_s": [], "failed": 0}
    return {
        "rates": {"queries": 20.0, "batches": 20.0, "refused": 0.0},
        "pools": {
            "deployed": {"replicas": 4, "slots": 1, "lanes": ["deployed"]},
            "parity0": {"replicas": 2, "slots": 1, "lanes": ["parity0"]},
        },
        "calls": {"deployed": deployed, "parity0": {"seconds": [], "cut_off_s": [], "running_s": []}},
        "pairs": [],
        "agreement": {"agreed": 0, "total": 0},
    } | more


OFFER = ParityOffer(2)


def test_a_call_that_still_runs_says_that_calls_may_take_longer() -> None:
    """Ten ended, of 1 s; one has run for 0.5 s and tells nothing, one for 9 s: a twelfth takes so long."""
    seen = page([1.0] * 10)
    seen["calls"]["deployed"]["running_s"] = [0.5, 9.0]
    law = workload_of([seen], Pools()).workload.service
    assert law.values.tolist() == [1.0, 9.0]
    assert law.probabilities[1] == pytest.approx(1 / 11)
    seen["calls"]["deployed"] |= {"running_s": [], "cut_off_s": [9.0]}
    assert workload_of([seen], Pools()).workload.service.values.tolist() == [1.0, 9.0]


def test_several_ingresses_share_the_replicas_and_add_up_their_queries() -> None:
    seen = workload_of([page([1.0]), page([3.0])], Pools())
    assert seen.workload.rate == 40
    assert seen.workload.replicas == 4
    assert seen.workload.service.mean == pytest.approx(2.0)
    assert seen.calls == 2


def test_refused_queries_count_as_demand_in_batches() -> None:
    """30 queries a second came, 10 of them were refused, 20 went in batches of two."""
    rates = {"queries": 30.0, "batches": 10.0, "refused": 10.0}
    assert workload_of([page([1.0], rates=rates)], Pools()).workload.rate == pytest.approx(15)


@pytest.mark.parametrize(("shared", "pool"), [(False, 2), (True, 0)])
def test_the_parity_pool_is_what_it_is(shared: bool, pool: int) -> None:
    workload = workload_of([page([1.0])], Pools(OFFER, shared)).workload
    assert (workload.replicas, workload.parity_pool) == (4, pool)
    assert workload.parities == (OFFER,)
    assert workload_of([page([1.0])], Pools()).workload.parities == ()


def test_slowdown_and_accuracy_are_measured_once_there_is_enough_of_them() -> None:
    few = page([1.0], agreement={"agreed": 4, "total": 5})
    few["calls"]["parity0"]["seconds"] = [3.0] * 5
    assert workload_of([few], Pools(OFFER)).workload.parities == (OFFER,)
    enough = page([1.0], agreement={"agreed": 90, "total": 100})
    enough["calls"]["parity0"]["seconds"] = [3.0] * 100
    (offer,) = workload_of([enough], Pools(OFFER)).workload.parities
    assert (offer.slowdown, offer.accuracy_loss) == (pytest.approx(3.0), pytest.approx(0.1))
    given = ParityOffer(2, accuracy_loss=0.02)
    assert workload_of([enough], Pools(given)).workload.parities[0].accuracy_loss == 0.02


def test_pairs_of_all_are_put_together_and_none_is_none() -> None:
    assert workload_of([page([1.0])], Pools()).pairs is None
    pages = [page([1.0], pairs=[[1.0, 2.0]]), page([1.0], pairs=[[0.0, 4.0]])]
    np.testing.assert_allclose(workload_of(pages, Pools()).pairs, [[1, 2], [1e-6, 4]])


@pytest.mark.parametrize(
    ("seen", "words"),
    [
        (page([]), r"calls\.deployed"),
        (page([1.0], rates={"queries": None, "batches": None, "refused": None}), "rate"),
        (page([1.0], pools={}), "pools"),
        (
            page([1.0], pools={"d": {"replicas": 3, "slots": 1, "lanes": ["deployed"]}}),
            "pools: .*0 for parity",
        ),
    ],
)
def test_too_little_to_go_by_is_refused(seen: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        workload_of([seen], Pools(OFFER))
