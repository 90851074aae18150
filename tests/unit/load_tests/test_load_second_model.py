"""The second application of inference multitenancy: what is deployed, and where."""

from __future__ import annotations

from pathlib import Path

import pytest
from pydantic import ValidationError

from load_tests import run, second_model
from load_tests.netlab import LabSettings, placement
from load_tests.scenario_apps import document_of
from parm_ray.config.loading import parse_settings
from parm_ray.config.scenario import Scenario

SCENARIO = Scenario.model_validate(
    {
        "name": "shared_nodes",
        "m": 2,
        "rates": [4],
        "queries": 20,
        "service": {"kind": "deterministic", "service_s": 0.05},
        "artifacts": "models",
        "second_model": {"nodes": 2, "rate": 3},
        "plans": [
            {"name": "equal_resources", "deployed": 3},
            {"name": "coded", "deployed": 2, "parity": 1, "plan": {"kind": "coded", "k": 2}},
        ],
    }
)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("deployed", "concat_slot_k2"):
        (tmp_path / "models" / name).mkdir(parents=True)
        (tmp_path / "models" / name / "manifest.json").write_text("{}")
    return tmp_path


@pytest.mark.parametrize("plan", SCENARIO.plans, ids=lambda plan: plan.name)
def test_it_is_deployed_beside_every_plan_and_all_pools_share_their_nodes_accelerators(
    plan: object, root: Path
) -> None:
    document = placement.place(document_of(SCENARIO, plan, root))  # type: ignore[arg-type]
    first, second = (parse_settings(app["args"], app["name"]) for app in document["applications"])
    assert second.model.resources == {"second_model": 1.0}
    assert second.model.replicas == 2
    assert second.redundancy_plan().kind == "none"
    pools = [first.model, *first.parity, second.model]
    assert {pool.emulate.accelerator for pool in pools} == {"node"}
    assert {pool.resources.get("model_node") for pool in pools[:-1]} == {1.0}
    routes = [app["route_prefix"] for app in document["applications"]]
    assert routes == ["/", "/second_model"]


def test_without_a_second_model_every_replica_has_an_accelerator_of_its_own(root: Path) -> None:
    alone = SCENARIO.model_copy(update={"second_model": None})
    (app,) = document_of(alone, alone.plans[1], root)["applications"]
    settings = parse_settings(app["args"], "args")
    assert [pool.emulate.accelerator for pool in (settings.model, *settings.parity)] == [None, None]


def test_a_labs_first_nodes_take_it_unless_the_lab_says_which() -> None:
    lab = LabSettings.model_validate(
        {"model_nodes": 3, "nodes": {2: {"rate_mbit": 7, "resources": {"fast": 1}}}}
    )
    found = second_model.on_some_nodes(lab, 2)
    assert [found.ray_of(n).resources.get("second_model") for n in found.numbers] == [None, 1, 1, None]
    assert found.ray_of(2).resources["fast"] == 1
    assert found.link_of(2).rate_mbit == 7
    own = LabSettings.model_validate({"nodes": {5: {"resources": {"second_model": 1}}}})
    assert second_model.on_some_nodes(own, 2) == own
    with pytest.raises(ValidationError, match="node numbers"):
        second_model.on_some_nodes(LabSettings(model_nodes=1), 2)


def test_on_one_machine_it_is_refused_at_once(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(run, "cluster", lambda **_: pytest.fail("no cluster is needed to say so"))
    file = tmp_path / "scenario.yaml"
    file.write_text(SCENARIO.model_dump_json(exclude_unset=True))
    assert run.main([str(file), "--out", str(tmp_path / "out")]) == 2
    assert "second_model: one machine has no nodes to share" in capsys.readouterr().err
