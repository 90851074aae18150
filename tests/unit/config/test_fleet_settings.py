"""A fleet's file: its planes, its simulation, its applications; mistakes are named."""

from __future__ import annotations

from copy import deepcopy
from pathlib import Path

import pytest
import yaml
from pydantic import ValidationError

from parm_ray.config.fleet_file import FleetSettings, FrontEndArguments, load_fleet_run
from parm_ray.config.loading import load_applications, load_settings
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
        ("control.interval_ms", 3000, r"control.stale_s: expected at least 6"),
        ("data_plane.pull_ms", 6000, r"control.stale_s: expected at least 12"),
        ("network_ms", {"A": {"A": 1}}, r"network_ms\.A\.B"),
        ("max_utilization", 1, "max_utilization"),
        ("data_plane.retry.hedge_after_ms", 10, "hedge_after_ms"),
        ("simulation", {"duration_s": 5, "changes": [{"at_s": 6, "kind": "control"}]}, "at_s"),
        ("engines.A.health", 0.5, "health"),
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
    fleet = yaml.safe_load((FILES / "three_regions.yaml").read_text())
    with pytest.raises(ValidationError, match="name: expected a front end of the fleet"):
        FrontEndArguments.model_validate({"fleet": fleet, "name": "Z"})


def test_check_looks_whether_a_fleet_fits_together(tmp_path: Path) -> None:
    document = yaml.safe_load((FILES / "emulated_fleet.yaml").read_text())
    bad = tmp_path / "bad.yaml"
    for spot, value, said in (
        (
            (0, "args", "network_ms"),
            {"east": {"east": 1, "west": 2}, "west": {"west": 1}},
            r"applications\[0\]\.args: .*network_ms\.east\.south",
        ),
        ((1, "args", "name"), "north", r"applications\[1\]\.args: .*name: expected a front end"),
        ((0, "import_path"), "some.module:app", None),
    ):
        changed = deepcopy(document)
        *path, last = spot
        place = changed["applications"]
        for key in path:
            place = place[key]
        place[last] = value
        bad.write_text(yaml.safe_dump(changed))
        if said is None:
            assert "control" not in load_applications(bad)
        else:
            with pytest.raises(ConfigError, match=said):
                load_applications(bad)
    bad.write_text("applications: [{import_path: some.module:app}]")
    with pytest.raises(ConfigError, match=r"no application has an import_path of .*front_end"):
        load_applications(bad)
    bad.write_bytes(b"\xff\xfe")
    with pytest.raises(ConfigError, match="not UTF-8"):
        load_applications(bad)


def test_applications_of_one_fleet_that_do_not_fit_together_are_refused(tmp_path: Path) -> None:
    document = yaml.safe_load((FILES / "emulated_fleet.yaml").read_text())
    file = tmp_path / "fleet.yaml"

    def refused(said: str, **changes: object) -> None:
        changed = deepcopy(document)
        for app in changed["applications"]:
            if app["name"] in changes:
                app.update(changes[app["name"]])  # type: ignore[call-overload]
        file.write_text(yaml.safe_dump(changed))
        with pytest.raises(ConfigError, match=said):
            load_applications(file)

    plain = yaml.safe_load((FILES.parent / "tiny.yaml").read_text())["applications"][0]
    refused(
        r"engine-east: args\.ingress\.engine: expected true",
        **{"engine-east": {"import_path": plain["import_path"], "args": plain["args"]}},
    )
    args = {app["name"]: app["args"] for app in document["applications"]}
    refused(
        r"west: args\.control: .* got engine-west", west={"args": {**args["west"], "control": "engine-west"}}
    )
    other = deepcopy(args["west"]["fleet"])
    other["max_utilization"] = 0.5
    refused(r"west: args\.fleet: expected that of control", west={"args": {**args["west"], "fleet": other}})
    wrong = deepcopy(args["control"])
    wrong["engines"]["east"]["app"] = "west"
    refused(r"control: engines\.east\.app: .* got west", control={"args": wrong})
