from typing import Any

import pytest

from parm_ray.config.scenario import Scenario
from parm_ray.config.size_scale import shrunk
from parm_ray.core import ConfigError

GIVEN: dict[str, Any] = {
    "name": "brief",
    "m": 12,
    "rates": [300],
    "service": {"kind": "deterministic", "service_s": 0.02},
    "lab": {"model_nodes": 18, "link": {"rate_mbit": 1000}},
    "shuffles": {"concurrent": 4, "size_mb": [128, 256]},
    "second_model": {"nodes": 3, "rate": 30},
    "plans": [
        {"name": "equal_resources", "deployed": 18},
        {"name": "coded", "deployed": 12, "parity": 6, "plan": {"kind": "coded"}},
        {"name": "backup", "deployed": 12, "backup": 6, "plan": {"kind": "backup"}},
    ],
}


def test_pools_and_rates_shrink_and_loads_stay() -> None:
    before = Scenario.model_validate(GIVEN)
    after = shrunk(before, 3)
    assert after.points() == [(100.0, before.points()[0][1])]
    assert [(p.deployed, p.parity, p.backup) for p in after.plans] == [
        (6, None, None),
        (4, 2, None),
        (4, None, 2),
    ]
    assert after.lab == {"model_nodes": 6, "link": {"rate_mbit": 1000}}
    assert after.shuffles == {"concurrent": 1, "size_mb": [128, 256]}
    assert after.second_model is not None
    assert (after.second_model.nodes, after.second_model.rate) == (1, 10)
    assert shrunk(before, 1) is before


def test_a_second_models_queries_go_with_its_nodes() -> None:
    """Two nodes become one (2 / 3), which takes half of the queries."""
    before = Scenario.model_validate(GIVEN | {"second_model": {"nodes": 2, "rate": 28}})
    second = shrunk(before, 3).second_model
    assert second is not None
    assert (second.nodes, second.rate) == (1, 14)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"lab": {"link": {"rate_mbit": 1000}}}, r"lab\.model_nodes"),
        ({"shuffles": {"size_mb": [1, 2]}}, r"shuffles\.concurrent"),
        ({"faults": [{"kind": "kill", "replica": "deployed/17", "at_s": 1, "for_s": 1}]}, "deployed/17"),
    ],
)
def test_what_cannot_shrink_is_named(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        shrunk(Scenario.model_validate(GIVEN | change), 3)


@pytest.mark.parametrize(
    ("factor", "words"), [(5, "m: 12"), (4, r"plans\.equal_resources\.deployed"), (0, "shrink")]
)
def test_pools_that_do_not_divide_are_named(factor: int, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        shrunk(Scenario.model_validate(GIVEN), factor)
