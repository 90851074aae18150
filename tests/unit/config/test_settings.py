"""Settings refuse what they do not know, and say where."""

import pytest
import yaml

from parm_ray.config.loading import load_settings, parse_settings
from parm_ray.core import ConfigError

MODEL = {"artifact": "a"}


def test_the_smallest_settings_are_a_plain_server():
    plan = parse_settings({"model": MODEL}).redundancy_plan()
    assert (plan.kind, plan.k, plan.r, plan.coded) == ("none", 1, 0, False)
    assert plan.deadline_s == 5.0


def test_a_coded_plan_is_turned_into_seconds():
    settings = parse_settings(
        {
            "model": MODEL,
            "plan": {"kind": "coded", "k": 4, "fill_timeout_ms": 40, "hold_off_ms": 5},
            "parity": [{"artifact": "p"}],
        }
    )
    plan = settings.redundancy_plan()
    assert (plan.k, plan.r, plan.fill_timeout_s, plan.hold_off_s) == (4, 1, 0.04, 0.005)


@pytest.mark.parametrize(
    ("args", "words"),
    [
        ({}, "args.model: Field required"),
        ({"model": MODEL, "planet": {}}, "args.planet"),
        ({"model": {**MODEL, "replica": 4}}, "args.model.replica"),
        ({"model": {**MODEL, "replicas": 0}}, "args.model.replicas"),
        ({"model": MODEL, "plan": {"kind": "coded", "kk": 2}}, "args.plan.kk"),
        ({"model": MODEL, "plan": {"kind": "coded"}}, "parity: expected 1 pool"),
        ({"model": MODEL, "parity": [MODEL]}, "parity: expected no pool"),
        ({"model": MODEL, "plan": {"kind": "default"}}, "default_answer"),
        ({"model": MODEL, "plan": {"kind": "backup"}}, "backup: expected a pool"),
        ({"model": MODEL, "backup": MODEL}, "backup: expected a pool"),
        ({"model": MODEL, "plan": {"kind": "hedged", "hedge": {"rule": "fixed"}}}, "delay_ms"),
        ({"model": MODEL, "plan": {"hedge": {}}}, "hedge: only for plan.kind hedged or coded"),
        ({"model": MODEL, "plan": {"kind": "hedged", "pool": "shared"}}, "pool: only for plan.kind coded"),
        (
            {
                "model": MODEL,
                "plan": {"kind": "coded", "pool": "shared"},
                "parity": [{"artifact": "p", "replicas": 2}],
            },
            "parity[0].replicas: not with plan.pool shared",
        ),
        (
            {
                "model": {**MODEL, "emulate": {"lose": "one_per_group"}},
                "plan": {"kind": "coded", "hedge": {}},
                "parity": [{"artifact": "p"}],
            },
            "model.emulate.lose",
        ),
        (
            {
                "model": {**MODEL, "emulate": {"lose": "one_per_group"}},
                "plan": {"kind": "coded", "copy_share": 0.5},
                "parity": [{"artifact": "p"}],
            },
            "with plan.copy_share",
        ),
        (
            {"model": MODEL, "plan": {"kind": "coded", "idle_reserve": 0.5}, "parity": [{"artifact": "p"}]},
            "idle_reserve: expected with pool shared",
        ),
        (
            {"model": {**MODEL, "emulate": {"service_ms": 5, "service": {"kind": "exponential"}}}},
            "service: not together with service_ms",
        ),
        ({"model": {**MODEL, "emulate": {"service": {"kind": "magic"}}}}, "kind: expected one of"),
        ({"model": MODEL, "deadline_ms": 0}, "args.deadline_ms"),
        ({"model": MODEL, "queue": {"discipline": "lifo"}}, "args.queue.discipline"),
        ("model", "args"),
    ],
)
def test_mistakes_are_named_with_their_path(args, words):
    with pytest.raises(ConfigError) as refused:
        parse_settings(args)
    assert words in str(refused.value)


def test_a_serve_file_with_a_typo_is_refused(tmp_path):
    app = {"name": "x", "import_path": "parm_ray.serve.app:build", "args": {"model": MODEL}}
    file = tmp_path / "app.yaml"
    file.write_text(yaml.safe_dump({"applications": [{**app, "route_prefx": "/"}]}))
    with pytest.raises(ConfigError, match=r"applications\[0\].route_prefx: unknown key"):
        load_settings(file)
    file.write_text(yaml.safe_dump({"applications": [{**app, "import_path": "other:app"}]}))
    with pytest.raises(ConfigError, match="no application"):
        load_settings(file)
    file.write_text("applications: [")
    with pytest.raises(ConfigError, match="not YAML"):
        load_settings(file)
    with pytest.raises(ConfigError, match="cannot be read"):
        load_settings(tmp_path / "nothing.yaml")
