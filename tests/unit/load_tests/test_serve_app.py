from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from load_tests import serve_app
from load_tests.cluster import Cluster, _environment
from load_tests.demo_plans import TITLES, load_plans, missing_artifacts

CONFIGS = Path(__file__).parents[3] / "serve_configs"


def test_only_the_port_and_the_artefact_paths_change(tmp_path: Path) -> None:
    source = CONFIGS / "demo_concat_slot.yaml"
    target = tmp_path / "out" / "demo.yaml"
    rendered = serve_app.render_config(source, target, http_port=4711, root=Path("/models"))
    assert yaml.safe_load(target.read_text()) == rendered
    assert rendered["http_options"]["port"] == 4711
    args = rendered["applications"][0]["args"]
    assert args["model"]["artifact"] == "/models/artifacts/mnist5k/deployed"
    assert args["parity"][0]["artifact"] == "/models/artifacts/mnist5k/concat_slot_k2"
    original = yaml.safe_load(source.read_text())
    original["http_options"]["port"] = 4711
    for pool, other in [(args["model"], 0), (args["parity"][0], 1)]:
        theirs = original["applications"][0]["args"]
        (theirs["model"], theirs["parity"][0])[other]["artifact"] = pool["artifact"]
    assert rendered == original


def test_pids_are_those_of_running_replicas_of_the_deployment() -> None:
    def replica(pid: int | None, state: str = "RUNNING") -> dict:
        return {"pid": pid, "state": state}

    details = {
        "app": {
            "deployments": {
                "DeployedModel": {
                    "replicas": [replica(9), replica(4), replica(5, "STARTING"), replica(None)]
                },
                "ParityModel": {"replicas": [replica(1)]},
            }
        }
    }
    assert serve_app.replica_pids(details, "DeployedModel") == [4, 9]
    assert serve_app.replica_pids(details, "Other") == []
    assert serve_app.replica_pids({}, "DeployedModel") == []


def test_demo_plans_spend_what_they_say() -> None:
    plans = {plan.name: plan for plan in load_plans(CONFIGS, list(TITLES))}
    assert {name: (plan.m, plan.replicas) for name, plan in plans.items()} == {
        "none": (4, 4),
        "equal_resources": (4, 6),
        "sum_subtract": (4, 6),
        "concat_slot": (4, 6),
    }
    assert {plan.model for plan in plans.values()} == {"mnist5k"}
    # The same emulated hardware everywhere, or the comparison is unfair.
    hardware = {
        (p.emulate.service_ms, p.emulate.slowness.share, p.emulate.slowness.factor, p.slots_per_replica)
        for plan in plans.values()
        for p in (plan.settings.model, *plan.settings.parity)
    }
    assert len(hardware) == 1
    assert len({(plan.settings.deadline_ms, plan.settings.queue) for plan in plans.values()}) == 1


def test_missing_artefacts_are_named(tmp_path: Path) -> None:
    plans = load_plans(CONFIGS, ["none", "sum_subtract"])
    wanted = [tmp_path / "artifacts" / "mnist5k" / name for name in ("deployed", "sum_subtract_k2")]
    assert missing_artifacts(plans, tmp_path) == [path / "manifest.json" for path in wanted]
    wanted[0].mkdir(parents=True)
    (wanted[0] / "manifest.json").write_text("{}")
    assert missing_artifacts(plans, tmp_path) == [wanted[1] / "manifest.json"]


def test_the_cluster_is_not_pointed_at_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RAY_ADDRESS", "10.0.0.1:6379")
    env = _environment()
    assert "RAY_ADDRESS" not in env
    assert env["RAY_AUTH_MODE"] == "disabled"
    assert env["RAY_USAGE_STATS_ENABLED"] == "0"


def test_a_cluster_does_not_print_the_environment(tmp_path: Path) -> None:
    assert "hunter2" not in repr(Cluster(1, "http://x", 2, 3, tmp_path, {"SECRET": "hunter2"}))


def test_settled_means_that_no_replica_starts_or_stops() -> None:
    def details(*states: str) -> dict[str, object]:
        return {"a": {"deployments": {"D": {"replicas": [{"state": state} for state in states]}}}}

    assert serve_app.settled(details("RUNNING", "RUNNING"))
    assert not serve_app.settled(details("RUNNING", "STOPPING"))
    assert not serve_app.settled(details("STARTING"))
