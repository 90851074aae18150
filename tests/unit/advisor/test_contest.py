"""The plan in force against the advised one, simulated on the pools that there are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from parm_ray.advisor import Effort, Limits, Objective, ParityOffer, Round, Workload, candidates
from parm_ray.advisor.contest import EFFORT, contest
from parm_ray.advisor.observed import Seen
from parm_ray.redundancy import Hedge, RedundancyPlan
from parm_ray.stats.families import Empirical

SMALL = Effort((Round(1, 600), Round(3, 1000, 3)), (), 500)
TOGETHER = Round(4, 1500)


def seen(*, rate: float = 20.0, slow: float = 0.05, pool: int | None = 0, pairs=None) -> Seen:
    rng = np.random.default_rng(0)
    times = 0.03 + rng.exponential(0.003, 2000)
    times[: int(2000 * slow)] *= 10
    offer = () if pool is None else (ParityOffer(2),)
    return Seen(Workload(Empirical(times), rate, 6, parities=offer, parity_pool=pool), 2000, 0, pairs)


def held(what: Seen, plan: RedundancyPlan, *kinds: str, **more):
    limits = Limits(kinds=frozenset({"none", *kinds}))
    given = {"effort": SMALL, "together": TOGETHER, **more}
    return contest(what, plan, Objective(0.99), limits, **given).found


def test_with_stragglers_a_hedge_is_far_better_than_none_and_none_is_not_better_than_a_hedge() -> None:
    # Which hedge is best a small effort does not tell.
    (rival,) = held(seen(), RedundancyPlan(), "hedged", effort=EFFORT).rivals
    assert rival.plan.kind == "hedged"
    assert rival.interval.high < 0.6
    again = held(seen(), rival.plan, "hedged", effort=EFFORT, seed=1)
    assert not again.rivals or again.rivals[0].share > 0.9


def test_the_server_s_own_deadline_does_not_make_a_plan_another() -> None:
    (rival,) = held(seen(), RedundancyPlan(), "hedged").rivals
    served = replace(rival.plan, deadline_s=5.0, has_default=True, crash_retries=3)
    assert held(seen(), served, "hedged").rivals == ()


def test_where_copies_are_as_slow_as_their_first_call_measured_pairs_say_that_nothing_helps() -> None:
    """Times of single calls promise much; pairs show that long queries are long everywhere."""
    times = seen().workload.service.sample(np.random.default_rng(1), (600,))
    same = np.stack([times, times], axis=1)
    hedged = held(seen(pairs=same), RedundancyPlan(), "hedged", "replicated").rivals
    assert all(one.share > 0.9 for one in hedged)


def test_copies_of_everything_under_load_are_beyond_the_limits() -> None:
    found = held(seen(rate=80.0), RedundancyPlan("replicated", copies=2), "hedged")
    assert "busy" in found.refused
    assert found.rivals


def test_what_won_last_time_is_compared_again() -> None:
    coded = RedundancyPlan("coded", k=2, r=1, fill_timeout_s=0.02, idle_reserve=None)
    names = {one.plan.name for one in held(seen(), RedundancyPlan(), "hedged", again=coded).rivals}
    assert "coded k=2" in names
    assert any(name.startswith("hedged") for name in names)


def test_a_percentile_that_the_sample_cannot_tell_gives_way_to_the_nearest() -> None:
    found = contest(
        seen(), RedundancyPlan(), Objective(0.999), Limits(kinds=frozenset({"none"})), effort=SMALL,
        together=TOGETHER,
    )  # fmt: skip
    assert found.objective == Objective(1 - 10 / 2000)
    assert found.found.rivals == ()


@pytest.mark.parametrize(("pool", "homes"), [(0, {(6, 0, True)}), (3, {(6, 3, False)})])
def test_plans_are_for_the_pools_that_there_are(pool: int, homes: set) -> None:
    workload = seen(pool=pool).workload
    coded = [c for c in candidates(workload, Limits(), Objective(0.99)) if c.plan.coded]
    assert {(c.deployed, c.parity, c.shared) for c in coded} == homes
    in_force = RedundancyPlan("coded", k=2, r=1, hedge=Hedge("fixed", 0.1))
    assert held(seen(pool=pool), in_force, "coded").refused == ""


def test_a_plan_at_its_limit_is_not_left_for_a_little_more() -> None:
    """Coding with k = 2 costs half as much again, a few per cent more or less."""
    in_force = RedundancyPlan("coded", k=2, r=1, fill_timeout_s=1.0)

    def refused(extra_work: float, **more: float) -> str:
        limits = Limits(kinds=frozenset({"none"}), extra_work=extra_work, **more)
        what = seen(pool=3)
        return contest(what, in_force, Objective(0.99), limits, effort=SMALL, together=TOGETHER).found.refused

    assert refused(0.46) == ""
    assert "more work" in refused(0.3)
    assert refused(0.5, accuracy_loss=0.01) == "", "what is not known yet is no reason to leave"


def test_reconstructions_that_are_known_to_cost_too_much_are_a_reason_to_leave() -> None:
    what = seen(pool=3, slow=0.2)
    what = replace(what, workload=replace(what.workload, parities=(ParityOffer(2, accuracy_loss=0.5),)))
    limits = Limits(kinds=frozenset({"none"}), accuracy_loss=0.01)
    in_force = RedundancyPlan("coded", k=2, r=1)
    found = contest(what, in_force, Objective(0.99), limits, effort=SMALL, together=TOGETHER).found
    assert "right answers" in found.refused
    assert [one.plan.kind for one in found.rivals] == ["none"]
