"""The weighted request router's settings, and what it makes of how calls end; on Serve: tests/ray."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from ray.exceptions import RayActorError, TaskCancelledError

from parm_ray.core import ConfigError
from parm_ray.serve.weighted_router import outcome_of, settings_of


@pytest.mark.parametrize(
    ("kwargs", "why"),
    [
        ({"by": "rack"}, "by: expected one of replica, node, zone, metadata:KEY, label:KEY, resource:KEY"),
        ({"by": "label:"}, "by: expected one of"),
        (
            {"weights": {"a": -1}},
            r"request_router_kwargs.weights.a: Input should be greater than or eq",
        ),
        ({"weights": {"a": 0}, "default": 0}, "weights: expected one above 0, or a default"),
        ({"control": "control"}, "control, demand: expected both or neither"),
        ({"demand": "x/y"}, "control, demand: expected both or neither"),
        ({"control": "c", "demand": "xy"}, "request_router_kwargs.demand"),
        ({"by": "resource:fast", "weights": {"a": 1}}, "by: resource: expected no weights and no control"),
        ({"expired_s": 0}, "request_router_kwargs.expired_s"),
        ({"pull_ms": 1}, "request_router_kwargs.pull_ms"),
        ({"wieghts": {"a": 1}}, "request_router_kwargs.wieghts: Extra inputs are not permitted"),
    ],
)
def test_bad_settings_are_refused_with_the_key(kwargs: dict[str, Any], why: str) -> None:
    with pytest.raises(ConfigError, match=why):
        settings_of(kwargs)


def test_good_settings_are_a_rule() -> None:
    rule = settings_of({"by": "label:zone", "weights": {"a": 2}, "control": "c", "demand": "x/y"}).rule()
    assert (rule.weights, rule.default, rule.demand) == ({"a": 2.0}, 1.0, "x/y")


class Called:
    """As a gRPC call is when it has ended."""

    def __init__(self, cancelled: bool) -> None:
        self._cancelled = cancelled

    def cancelled(self) -> bool:
        return self._cancelled


@pytest.mark.parametrize(
    ("said", "outcome"),
    [
        ("an answer", True),
        (None, True),
        (Called(False), True),
        (Called(True), None),
        (TaskCancelledError(), None),
        (asyncio.CancelledError(), None),
        (RayActorError(), False),
        (ValueError("no"), False),
    ],
)
def test_how_a_call_has_ended(said: Any, outcome: bool | None) -> None:
    assert outcome_of(said) is outcome
