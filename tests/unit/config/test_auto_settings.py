"""Settings of a server that changes its plan: what goes together, and what is refused by name."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from parm_ray.config import AutoSettings, Settings

CODED = {"plan": {"kind": "coded"}, "parity": [{"artifact": "p"}]}


def settings(**more: Any) -> Settings:
    return Settings.model_validate({"model": {"artifact": "a"}, "auto": {}, **more})


def test_it_is_off_unless_asked_for() -> None:
    assert Settings.model_validate({"model": {"artifact": "a"}}).auto is None
    assert Settings.model_validate({"model": {"artifact": "a"}}).shadow is None


@pytest.mark.parametrize("more", [{}, CODED, {"plan": {"kind": "hedged"}}])
def test_every_plan_that_can_be_advised_can_be_begun_with(more: dict[str, Any]) -> None:
    assert settings(**more).auto == AutoSettings()


@pytest.mark.parametrize("objective", ["mean", "p50", "p99", "p99.9", "p99.95"])
def test_objectives_that_the_adviser_knows(objective: str) -> None:
    from parm_ray.advisor.objective import Objective

    assert str(Objective.parse(AutoSettings(objective=objective).objective)) == objective


@pytest.mark.parametrize(
    ("more", "words"),
    [
        ({"plan": {"kind": "backup"}, "backup": {"artifact": "b"}}, "auto: .*backup"),
        ({**CODED, "auto": {"kinds": ["hedged"]}}, r"auto\.kinds: expected plan\.kind coded"),
        ({"plan": {"kind": "coded", "encoder": "learned"}, "parity": [{"artifact": "p"}]}, "auto: .*learned"),
        ({"plan": {"kind": "coded", "r": 2}, "parity": [{"artifact": "p"}] * 2}, r"auto: expected plan\.r 1"),
        ({**CODED, "model": {"artifact": "a", "emulate": {"lose": "one_per_group"}}}, "emulate.lose"),
        ({"auto": {"objective": "fast"}}, "objective"),
        ({"auto": {"objective": "p100"}}, "objective"),
        ({"auto": {"objective": "p0"}}, "objective"),
        ({"auto": {"gain": 1.0}}, "gain"),
        ({"auto": {"interval_s": 0}}, "interval_s"),
        ({"auto": {"kinds": ["backup"]}}, "kinds"),
        ({"shadow": {"share": 0.06}}, r"shadow\.share"),
    ],
)
def test_what_cannot_be_is_refused(more: dict[str, Any], words: str) -> None:
    with pytest.raises(ValidationError, match=words):
        settings(**more)


def test_reports_are_more_frequent_than_advices() -> None:
    assert AutoSettings(interval_s=30).exchange_s == 7.5
    assert AutoSettings(interval_s=600).exchange_s == 10.0
