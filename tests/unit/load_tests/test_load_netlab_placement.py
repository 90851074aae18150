from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from load_tests.netlab.placement import place
from parm_ray.config.loading import load_settings
from parm_ray.core import ConfigError

CONFIGS = Path(__file__).parents[3] / "serve_configs"


def document() -> dict:
    return yaml.safe_load((CONFIGS / "tiny.yaml").read_text())


def test_every_pool_goes_to_model_nodes_and_the_ingress_to_the_frontend() -> None:
    placed = place(document())
    (app,) = placed["applications"]
    assert app["args"]["model"]["resources"] == {"model_node": 1.0}
    assert app["args"]["parity"][0]["resources"] == {"model_node": 1.0}
    assert app["deployments"] == [
        {"name": "Ingress", "ray_actor_options": {"num_cpus": 0.1, "resources": {"frontend": 0.01}}}
    ]
    assert placed["proxy_location"] == "HeadOnly"


def test_the_document_itself_is_left_alone() -> None:
    before = document()
    place(before)
    assert before == document()


def test_what_is_placed_already_stays_there() -> None:
    before = document()
    second = {**yaml.safe_load(yaml.safe_dump(before["applications"][0])), "name": "second"}
    second["route_prefix"] = "/second"
    second["args"]["model"]["resources"] = {"second_model": 0.5}
    second["deployments"] = [{"name": "Ingress", "ray_actor_options": {"num_cpus": 0}}]
    before["applications"].append(second)
    first, second = place(before, amount=0.5)["applications"]
    assert first["args"]["model"]["resources"] == {"model_node": 0.5}
    assert second["args"]["model"]["resources"] == {"second_model": 0.5}
    assert second["args"]["parity"][0]["resources"] == {"model_node": 0.5}
    assert second["deployments"] == [{"name": "Ingress", "ray_actor_options": {"num_cpus": 0}}]


def test_an_override_of_the_ingress_keeps_what_else_it_says() -> None:
    before = document()
    before["applications"][0]["deployments"] = [{"name": "Ingress", "max_ongoing_requests": 7}]
    (override,) = place(before)["applications"][0]["deployments"]
    assert override["max_ongoing_requests"] == 7
    assert override["ray_actor_options"]["resources"] == {"frontend": 0.01}


def test_other_applications_are_left_as_they_are() -> None:
    other = {"name": "x", "import_path": "somebody.elses:app", "args": {"model": {}}}
    assert place({"applications": [other]})["applications"] == [other]


@pytest.mark.parametrize("name", sorted(path.name for path in CONFIGS.glob("*.yaml")))
def test_placed_files_are_still_valid(name: str, tmp_path: Path) -> None:
    placed = place(yaml.safe_load((CONFIGS / name).read_text()))
    path = tmp_path / name
    path.write_text(yaml.safe_dump(placed))
    for settings in load_settings(path).values():
        assert settings.model.resources == {"model_node": 1.0}
        parity = {} if settings.plan.pool == "shared" else {"model_node": 1.0}
        assert all(pool.resources == parity for pool in settings.parity)


def test_bad_values_are_named() -> None:
    with pytest.raises(ConfigError, match="amount: expected more than 0, got 0"):
        place(document(), amount=0)
    wrong = document()
    wrong["applications"][0]["args"]["deadline"] = 1
    with pytest.raises(ConfigError, match=r"applications\[0\].args.deadline"):
        place(wrong)
