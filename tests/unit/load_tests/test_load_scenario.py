"""From a scenario to Serve documents, and from counters to cells; real runs are tried in tests/ray."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from load_tests.phase import Phase
from load_tests.records import ClientRecord
from load_tests.run import main
from load_tests.scenario_apps import document_of, parity_artifact
from load_tests.scenario_cells import cell_of
from load_tests.scenario_places import deployment
from parm_ray.config.loading import parse_settings
from parm_ray.config.scenario import Scenario
from parm_ray.core import ConfigError, Outcome
from parm_ray.serve import app

PLANS: list[dict[str, Any]] = [
    {"name": "none", "deployed": 4},
    {"name": "hedged", "deployed": 6, "plan": {"kind": "hedged"}},
    {"name": "backup", "deployed": 4, "backup": 2, "plan": {"kind": "backup"}},
    {"name": "coded", "deployed": 4, "parity": 2, "plan": {"kind": "coded", "k": 2}},
    {"name": "shared", "deployed": 6, "plan": {"kind": "coded", "k": 2, "pool": "shared", "hedge": {}}},
    {"name": "default", "deployed": 4, "plan": {"kind": "default"}},
]


def scenario(**changed: Any) -> Scenario:
    given = {
        "name": "brief",
        "m": 4,
        "loads": [0.5],
        "queries": 100,
        "service": {"kind": "deterministic", "service_s": 0.05},
        "backup_service": {"kind": "deterministic", "service_s": 0.02},
        "slowness": {"share": 0.02, "factor": 10},
        "artifacts": "models",
        "plans": PLANS,
    }
    return Scenario.model_validate(given | changed)


def test_a_plan_may_have_a_deadline_of_its_own(root: Path) -> None:
    plans = [PLANS[0], {**PLANS[5], "deadline_ms": 200}]
    two = scenario(plans=plans, deadline_ms=900)
    deadlines = [two.settings_of(plan).redundancy_plan().deadline_s for plan in two.plans]
    assert deadlines == [0.9, 0.2]
    apps = [document_of(two, plan, root)["applications"][0] for plan in two.plans]
    assert [app["args"]["deadline_ms"] for app in apps] == [900, 200]


@pytest.fixture
def root(tmp_path: Path) -> Path:
    for name in ("deployed", "backup", "concat_slot_k2"):
        (tmp_path / "models" / name).mkdir(parents=True)
        (tmp_path / "models" / name / "manifest.json").write_text("{}")
    return tmp_path


@pytest.mark.parametrize("plan", scenario().plans, ids=lambda plan: plan.name)
def test_every_plan_becomes_a_legal_document_with_its_replicas_and_times(plan: Any, root: Path) -> None:
    (app,) = document_of(scenario(), plan, root)["applications"]
    settings = parse_settings(app["args"], "args")
    redundancy = settings.redundancy_plan()
    assert redundancy.kind == plan.plan.kind
    pools = [settings.model, *settings.parity, *([settings.backup] if settings.backup else [])]
    replicas = settings.model.replicas + (settings.backup.replicas if settings.backup else 0)
    if plan.plan.pool == "dedicated":
        replicas += sum(pool.replicas for pool in settings.parity)
    assert replicas == plan.replicas
    for pool in pools:
        assert Path(pool.artifact).is_absolute()
        assert pool.emulate.slowness is not None
        assert pool.emulate.slowness.share == 0.02
        assert pool.emulate.script() is not None
    if settings.backup is not None:
        assert settings.backup.emulate.service == {"kind": "deterministic", "service_s": 0.02}


def test_a_missing_artefact_is_named(root: Path) -> None:
    (root / "models" / "backup" / "manifest.json").unlink()
    with pytest.raises(ConfigError, match="backup"):
        document_of(scenario(), scenario().plans[2], root)
    with pytest.raises(ConfigError, match="artifacts"):
        document_of(scenario(artifacts=None), scenario().plans[0], root)


def test_parity_artefacts_are_named_as_training_names_them() -> None:
    plan = {"kind": "coded", "encoder": "weighted", "decoder": "subtract", "k": 4, "r": 2}
    coded = scenario(plans=[{"name": "x", "deployed": 1, "parity": 1, "plan": plan}]).plans[0]
    assert parity_artifact(coded, 1) == "weighted_subtract_k4_r2_row1"


def test_pools_are_the_deployments_that_the_application_makes() -> None:
    names = [deployment(pool) for pool in ("deployed", "parity0", "parity1", "backup")]
    assert names == [app.DEPLOYED, app.PARITY, f"{app.PARITY}2", app.BACKUP]


def page(seconds: float, calls: int, copies: int, busy: float) -> dict[str, Any]:
    """Counters: `calls` first calls and `copies` more at the deployed pool, 50 ms each; s of parity."""
    deployed = (calls + copies) * 0.05
    return {
        "time_s": seconds,
        "pools": {
            "deployed": {
                "replicas": 4,
                "slots": 1,
                "busy_s": deployed,
                "busy_s_by_lane": {"deployed": deployed},
                "calls_by_lane": {"deployed": calls + copies},
                "first": {"pushed": calls, "calls": calls, "busy_s": calls * 0.05},
                "by_replica": {"r1": {"node": "n" * 20, "calls": calls, "busy_s": deployed}},
            },
            "parity0": {
                "replicas": 2,
                "slots": 1,
                "busy_s": busy,
                "busy_s_by_lane": {"parity0": busy},
                "calls_by_lane": {"parity0": 1},
                "by_replica": {},
            },
        },
    }


def test_a_cell_counts_busy_time_over_replicas_and_what_exceeds_one_call_a_query() -> None:
    """100 queries, 10 copies, 2.5 s of parity, 20 s long: originals 5 s, all 8 s, six replicas."""
    records = [ClientRecord(i, i / 5, i / 5, i / 5 + 0.06, 200, Outcome.ORIGINAL) for i in range(100)]
    phase = Phase(records, page(100.0, 0, 0, 0.0), page(120.0, 100, 10, 2.5), 0.5, [])
    cell = cell_of(scenario(), scenario().plans[3], point=0, repetition=2, phase=phase)
    assert cell.id == "coded-p0-r2"
    assert (cell.m, cell.n, cell.k, cell.pool) == (4, 6, 2, "dedicated")
    assert cell.utilization == pytest.approx(5.5 / 80, abs=1e-4)
    assert cell.utilization_all == pytest.approx(8 / 120, abs=1e-4)
    assert cell.extra_work == pytest.approx(8 / 5 - 1, abs=1e-4)
    assert [replica.name for replica in cell.replicas] == ["deployed/0"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--plans", "none_such"], "none_such"),
        (["--queries", "5"], "queries"),
        (["--on", "lab"], "lab"),
    ],
)
def test_the_command_refuses_what_it_cannot_run(
    options: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    path = Path(__file__).parents[3] / "load_tests" / "scenarios" / "stragglers.yaml"
    assert main([str(path), *options]) == 2
    assert words in capsys.readouterr().err
