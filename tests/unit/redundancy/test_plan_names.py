"""A plan's name: a metric's label, so it must be short, and the same for all delays and budgets."""

import pytest

from parm_ray.redundancy import Hedge, RedundancyPlan


@pytest.mark.parametrize(
    ("plan", "name"),
    [
        (RedundancyPlan(), "none"),
        (RedundancyPlan("coded", k=2, r=1), "coded k=2"),
        (RedundancyPlan("coded", k=3, r=2, hedge=Hedge()), "coded k=3 r=2, hedges"),
        (RedundancyPlan("hedged", hedge=Hedge("fixed", 0.1)), "hedged"),
        (RedundancyPlan("hedged", hedge=Hedge(), copy_share=0.5), "hedged, copies when idle"),
        (RedundancyPlan("replicated", copies=3), "3 copies"),
        (RedundancyPlan("replicated", copies=2, keep="start"), "2 copies, first to start"),
    ],
)
def test_names_say_the_mechanisms_and_no_more(plan: RedundancyPlan, name: str) -> None:
    assert plan.name == name
