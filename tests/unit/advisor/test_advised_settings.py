"""An advised plan as settings: what the server makes of them is what was simulated."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from parm_ray.advisor import Candidate, ParityOffer, candidates
from parm_ray.advisor.objective import Objective
from parm_ray.advisor.workload import Limits, Workload
from parm_ray.config import Settings
from parm_ray.config.advised import advised_config, plan_settings
from parm_ray.config.loading import load_settings
from parm_ray.core import ConfigError
from parm_ray.stats.families import Bimodal, Empirical

CONFIGS = Path(__file__).parents[3] / "serve_configs"


def every_candidate() -> list[Candidate]:
    rng = np.random.default_rng(1)
    service = Empirical(Bimodal(0.05, 0.5, 0.03).sample(rng, 1000) * (1 + 0.1 * rng.random(1000)))
    offers = (
        ParityOffer(2, accuracy_loss=0.1),
        ParityOffer(3, encoder="sum", decoder="subtract", accuracy_loss=0.1),
    )
    workload = Workload(service, 30.0, 6, parities=offers)
    return candidates(workload, Limits(accuracy_loss=0.1), Objective(0.99))


@pytest.mark.parametrize("candidate", every_candidate(), ids=lambda candidate: candidate.name)
def test_the_settings_say_what_was_simulated(candidate: Candidate) -> None:
    """What the server makes of the settings is the plan that the adviser judged."""
    parity = [{"artifact": "p"}] if candidate.offer else []
    if candidate.parity:
        parity[0]["replicas"] = candidate.parity
    settings = Settings.model_validate(
        {
            "model": {"artifact": "d", "replicas": candidate.deployed},
            "plan": plan_settings(candidate).model_dump(exclude_defaults=True)
            | {"kind": candidate.plan.kind},
            "parity": parity,
            "deadline_ms": 1000.0,
        }
    )
    got, wanted = settings.redundancy_plan(), candidate.plan
    for name in ("kind", "k", "r", "copies", "keep", "copy_share", "eager_share", "idle_reserve"):
        assert getattr(got, name) == getattr(wanted, name), name
    assert got.fill_timeout_s == pytest.approx(wanted.fill_timeout_s, abs=1e-6) or not wanted.coded
    assert got.hold_off_s == pytest.approx(wanted.hold_off_s, abs=1e-6)
    if wanted.hedge is None:
        assert got.hedge is None
    else:
        assert got.hedge is not None
        assert got.hedge.rule == wanted.hedge.rule
        assert got.hedge.quantile == wanted.hedge.quantile
        assert got.hedge.budget_ratio == pytest.approx(wanted.hedge.budget_ratio, abs=1e-6)
        assert (got.hedge.delay_s or 0) == pytest.approx(wanted.hedge.delay_s or 0, abs=1e-6)


def test_a_coded_plan_needs_parity_models(tmp_path: Path) -> None:
    coded = next(one for one in every_candidate() if one.plan.coded and not one.shared and one.plan.k == 2)
    with pytest.raises(ConfigError, match="parity: expected parity models for concat/slot, k = 2"):
        advised_config(CONFIGS / "none.yaml", coded)
    for base, artifact, expected in (
        ("none.yaml", "my/parity", "my/parity"),
        ("coded_k2.yaml", None, "artifacts/mnist5k/concat_slot_k2"),
    ):
        path = tmp_path / base
        path.write_text(advised_config(CONFIGS / base, coded, artifact))
        (settings,) = load_settings(path).values()
        assert settings.parity[0].artifact == expected
        assert settings.parity[0].replicas == coded.parity
        assert settings.model.replicas == coded.deployed
        assert settings.deadline_ms == next(iter(load_settings(CONFIGS / base).values())).deadline_ms


def test_slots_are_not_replicas(tmp_path: Path) -> None:
    hedged = next(one for one in every_candidate() if one.plan.kind == "hedged")
    for slots, replicas in ((2, 3), (3, 2)):
        path = tmp_path / "base.yaml"
        text = (CONFIGS / "none.yaml").read_text()
        path.write_text(text.replace("num_cpus: 0.2", f"num_cpus: 0.2\n      slots_per_replica: {slots}", 1))
        assert next(iter(load_settings(path).values())).model.slots_per_replica == slots
        path.write_text(advised_config(path, hedged))
        assert next(iter(load_settings(path).values())).model.replicas == replicas
    path.write_text(text.replace("num_cpus: 0.2", "num_cpus: 0.2\n      slots_per_replica: 4", 1))
    with pytest.raises(ConfigError, match="slots_per_replica: 4 do not divide the 6 servers"):
        advised_config(path, hedged)


def test_a_shared_plan_goes_into_any_file(tmp_path: Path) -> None:
    shared = next(one for one in every_candidate() if one.shared and one.plan.k == 2)
    path = tmp_path / "x.yaml"
    path.write_text(advised_config(CONFIGS / "coded_k2.yaml", shared))
    (settings,) = load_settings(path).values()
    assert settings.plan.pool == "shared"
    assert settings.model.replicas == 6


def test_parity_models_of_another_code_are_not_taken() -> None:
    base = CONFIGS / "coded_k2_sum.yaml"
    coded = [one for one in every_candidate() if one.plan.coded and not one.shared and one.plan.k == 2]
    with pytest.raises(ConfigError, match="expected parity models for concat/slot, k = 2"):
        advised_config(base, coded[0])
