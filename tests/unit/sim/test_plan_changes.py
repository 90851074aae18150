"""Plans that change in the middle of a simulated run."""

from __future__ import annotations

import numpy as np
import pytest

from parm_ray.codes import make_code
from parm_ray.core import Outcome
from parm_ray.groups.lanes import DEPLOYED
from parm_ray.redundancy import Hedge, RedundancyPlan
from parm_ray.sim import PoolSpec, simulate
from parm_ray.workload import poisson

SLOT = make_code("concat", "slot", 2, 1)
NEVER = 1e6
NONE = RedundancyPlan(deadline_s=NEVER)
COPIES = RedundancyPlan("replicated", copies=2, deadline_s=NEVER)
CODED = RedundancyPlan("coded", k=2, r=1, fill_timeout_s=0.5, deadline_s=NEVER)
HEDGED = RedundancyPlan("hedged", hedge=Hedge("fixed", 2.0, budget_ratio=1.0), deadline_s=NEVER)


def pools(n: int = 6, parity: int = 3, seed: int = 1) -> list[PoolSpec]:
    rng = np.random.default_rng(seed)

    def service(server: str, number: int, at: float, call: object) -> float:
        return 10.0 if rng.random() < 0.1 else 1.0

    found = [PoolSpec([f"d/{i}" for i in range(n)], [DEPLOYED], service)]
    return [*found, PoolSpec([f"p/{i}" for i in range(parity)], [0], service)] if parity else found


def arrivals(n: int = 2000, rate: float = 1.5) -> np.ndarray:
    return poisson(rate, np.random.default_rng(0), n=n)


def test_no_query_is_lost_however_often_plans_change() -> None:
    plans = (NONE, COPIES, CODED, HEDGED)
    changes = [(3.0 * i, plans[i % 4]) for i in range(450)]
    found = simulate(NONE, pools(), arrivals(), code=SLOT, changes=changes)
    assert found.share(Outcome.FAILED) == 0
    assert np.isfinite(found.latency).all()
    for outcome in (Outcome.ORIGINAL, Outcome.COPY, Outcome.RECONSTRUCTED):
        assert found.share(outcome) > 0.01, outcome


def test_before_the_change_it_is_one_plan_s_run_and_after_it_the_other_plan_is_at_work() -> None:
    at = 600.0
    changed = simulate(NONE, pools(), arrivals(), code=SLOT, changes=[(at, CODED)])
    before = changed.planned < at
    unchanged = simulate(NONE, pools(parity=0), arrivals())
    # A long call of the old plan may end after the change, so leave out the last few before it.
    early = changed.planned < at - 30
    assert (changed.latency[early] == unchanged.latency[early]).all()
    reconstructed = changed.outcome == list(Outcome).index(Outcome.RECONSTRUCTED)
    assert not reconstructed[before].any()
    assert reconstructed[~before].mean() > 0.05


def test_a_change_away_takes_the_extra_work_with_it() -> None:
    half = simulate(COPIES, pools(parity=0), arrivals(), changes=[(arrivals()[1000], NONE)])
    assert half.calls[DEPLOYED] < 1000 * 2 + 1000 + 1
    whole = simulate(COPIES, pools(parity=0), arrivals())
    assert half.extra_work < 0.6 * whole.extra_work


def test_a_shared_pool_takes_over_the_new_plan_s_reserve() -> None:
    """Three servers, two queries at once: one is left, which a reserve of a half forbids to take."""

    def parities(reserve: float) -> int:
        plan = RedundancyPlan("coded", k=2, r=1, deadline_s=NEVER, idle_reserve=reserve)
        spec = PoolSpec(["a", "b", "c"], [DEPLOYED, 0], lambda s, i, t, call: 1.0, low=[0])
        return simulate(NONE, [spec], np.array([1.0, 1.0]), code=SLOT, changes=[(0.5, plan)]).calls[0]

    assert parities(0.0) == 1
    assert parities(0.5) == 0


def test_deadlines_are_those_of_the_plan_on_arrival() -> None:
    slow = [PoolSpec(["a", "b"], [DEPLOYED], lambda s, i, t, call: 10.0)]
    changes = [(0.5, RedundancyPlan(deadline_s=1.0))]
    found = simulate(NONE, slow, np.array([0.0, 1.0]), changes=changes)
    assert found.latency.tolist() == [10.0, np.inf]


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ([(2.0, NONE), (1.0, NONE)], "ascending"),
        ([(-1.0, NONE)], "ascending"),
        ([(float("nan"), NONE)], "ascending"),
        ([(1.0, RedundancyPlan("coded", k=3, r=1))], "k: expected 2"),
        ([(1.0, RedundancyPlan("backup", backup=True))], "lanes"),
    ],
)
def test_changes_that_cannot_be_are_refused(changes: list, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        simulate(NONE, pools(), arrivals(10), code=SLOT, changes=changes)
