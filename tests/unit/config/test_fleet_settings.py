"""A fleet's file: its planes, its simulation, its applications; mistakes are named."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from parm_ray.config.fleet_file import FleetSettings, FrontEndArguments, load_fleet_run
from parm_ray.config.loading import load_settings
from parm_ray.core import ConfigError
from parm_ray.routing.fleet.feedback import Feedback
from parm_ray.routing.planes import AdmissionRule, ControlRule, FrontEndRule, PenaltyRule, RetryRule

FILES = Path(__file__).parents[3] / "serve_configs" / "routing"


def test_defaults_of_the_file_are_those_of_the_rules() -> None:
    settings = FleetSettings.model_validate(yaml.safe_load((FILES / "three_regions.yaml").read_text()))
    assert settings.control.rule() == ControlRule(feedback=Feedback(gain=0.1))
    assert settings.data_plane.rule() == FrontEndRule(AdmissionRule(), RetryRule())
    assert settings.control.penalty.rule() == PenaltyRule()


@pytest.mark.parametrize("file", sorted(FILES.glob("*.yaml")), ids=lambda file: file.name)
def test_files_are_valid(file: Path) -> None:
    document = yaml.safe_load(file.read_text())
    if "applications" in document:
        assert load_settings(file) == {}
    else:
        assert load_fleet_run(file).duration_s > 0


def test_mistakes_in_a_fleets_applications_are_named(tmp_path: Path) -> None:
    document = yaml.safe_load((FILES / "emulated_fleet.yaml").read_text())
    document["applications"][1]["args"]["fleet"]["control"]["intervall_ms"] = 5
    bad = tmp_path / "bad.yaml"
    bad.write_text(yaml.safe_dump(document))
    with pytest.raises(ConfigError, match=r"control\.intervall_ms"):
        load_settings(bad)


@pytest.mark.parametrize(
    ("where", "value", "said"),
    [
        ("control.feedback.floor", 2, "floor"),
        ("control.stale_s", 500, "stale_s"),
        ("data_plane.expired_s", 1, "stale_s"),
        ("data_plane.retry.full_below", 0.99, "full_below"),
        ("data_plane.retry.backoff_ms", 5000, "backoff_s"),
        ("simulation.changes", [{"at_s": 1, "kind": "odd"}], "kind"),
    ],
)
def test_bad_values_are_refused_by_name(tmp_path: Path, where: str, value: object, said: str) -> None:
    document = yaml.safe_load((FILES / "three_regions.yaml").read_text())
    *path, last = where.split(".")
    spot = document
    for key in path:
        spot = spot.setdefault(key, {})
    spot[last] = value
    bad = tmp_path / "bad.yaml"
    bad.write_text(yaml.safe_dump(document))
    with pytest.raises(ConfigError, match=said):
        load_fleet_run(bad)


def test_a_simulation_of_what_is_not_there_is_refused(tmp_path: Path) -> None:
    document = yaml.safe_load((FILES / "three_regions.yaml").read_text())
    document["simulation"] = {"changes": [{"at_s": 1, "kind": "dead", "name": "Z"}]}
    bad = tmp_path / "bad.yaml"
    bad.write_text(yaml.safe_dump(document))
    with pytest.raises(ConfigError, match="Z"):
        load_fleet_run(bad)


def test_a_front_end_that_the_fleet_has_not_is_refused() -> None:
    from parm_ray.serve.fleet.app import front_end

    fleet = yaml.safe_load((FILES / "three_regions.yaml").read_text())
    with pytest.raises(ConfigError, match="name: expected a front end of the fleet"):
        front_end(FrontEndArguments.model_validate({"fleet": fleet, "name": "Z"}))
