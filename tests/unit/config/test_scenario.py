from pathlib import Path
from typing import Any

import pytest
import yaml

from parm_ray.config.scenario import Scenario, load_scenario
from parm_ray.core import ConfigError

ROOT = Path(__file__).parents[3]
FILES = sorted((ROOT / "load_tests" / "scenarios").glob("*.yaml"))


def scenario(**changed: Any) -> Scenario:
    given = {
        "name": "brief",
        "m": 4,
        "loads": [0.5],
        "service": {"kind": "deterministic", "service_s": 0.05},
        "slowness": {"share": 0.02, "factor": 10},
        "plans": [{"name": "none", "deployed": 4}],
    }
    return Scenario.model_validate(given | changed)


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_the_scenarios_that_ship_are_legal(path: Path) -> None:
    found = load_scenario(path)
    assert found.name == path.stem
    for plan in found.plans:
        assert found.settings_of(plan).redundancy_plan().kind == plan.plan.kind


def test_a_load_is_a_share_of_what_m_replicas_can_do_slow_calls_counted_in() -> None:
    """0.05 s x (1 + 0.02 x 9) = 0.059 s a call: four replicas do 67.8 a second."""
    ((rate, load),) = scenario().points()
    assert load == 0.5
    assert rate == pytest.approx(0.5 * 4 / 0.059)
    ((rate, load),) = scenario(loads=[], rates=[20]).points()
    assert (rate, load) == (20, pytest.approx(20 * 0.059 / 4))


@pytest.mark.parametrize(
    ("changed", "words"),
    [
        ({"rates": [1.0]}, "loads or rates"),
        ({"loads": []}, "loads or rates"),
        ({"warm_up": 5000}, "warm_up"),
        ({"service": {"kind": "magic"}}, "service"),
        ({"parity_service": {"kind": "exponential"}}, "parity_service"),
        ({"plans": []}, "plans"),
        ({"plans": [{"name": "a", "deployed": 1}, {"name": "a", "deployed": 2}]}, "same name"),
        ({"plans": [{"name": "a", "deployed": 1, "parity": 1}]}, "parity"),
        ({"plans": [{"name": "a", "deployed": 1, "plan": {"kind": "coded"}}]}, "parity"),
        ({"plans": [{"name": "a", "deployed": 1, "plan": {"kind": "backup"}}]}, "backup"),
        ({"plans": [{"name": "a", "deployed": 1, "plan": {"kind": "none", "pool": "shared"}}]}, "pool"),
        ({"plans": [{"name": "a", "deployed": 1, "plan": {"hedge": {}}}]}, "hedge"),
        ({"plans": [{"name": "a", "deployed": 1, "plan": {"copies": 3}}]}, "copies"),
        ({"plans": [{"name": "a", "deployed": 1, "plan": {"k": 3}}]}, "k: only for plan.kind coded"),
        ({"plans": [{"name": "a", "deployed": 1, "plan": {"hold_off_ms": 9}}]}, "hold_off_ms"),
        ({"plans": [{"name": "a", "deployed": 1, "plan": {"copy_share": 0.5}}]}, "copy_share"),
        ({"speed": 1}, "speed"),
    ],
)
def test_what_does_not_hang_together_is_refused_by_name(changed: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        scenario(**changed)


def test_a_file_that_is_wrong_is_named_with_its_key(tmp_path: Path) -> None:
    path = tmp_path / "bad.yaml"
    path.write_text(yaml.safe_dump({"name": "bad", "m": 0, "plans": [], "service": {}}))
    with pytest.raises(ConfigError, match=r"bad\.yaml: .*m: "):
        load_scenario(path)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_scenario(tmp_path / "none.yaml")
