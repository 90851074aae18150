from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from parm_ray.config.arrivals import ArrivalSettings
from parm_ray.core import ConfigError


def rng() -> np.random.Generator:
    return np.random.default_rng(3)


def test_every_kind_gives_so_many_at_the_rate_it_is_asked_for(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("\n".join(f"{t:.6f}" for t in np.cumsum(rng().exponential(2.0, 500))) + "\n")
    for settings in (
        ArrivalSettings(),
        ArrivalSettings(kind="constant"),
        ArrivalSettings(kind="bursts", burst=5, spacing_ms=1),
        ArrivalSettings(kind="trace", trace=trace),
    ):
        times = settings.planned(20.0, rng(), 400)
        assert len(times) == 400, settings
        assert (np.diff(times) >= 0).all()
        assert 400 / times[-1] == pytest.approx(20, rel=0.25), settings


def test_counts_give_about_so_many(tmp_path: Path) -> None:
    trace = tmp_path / "trace.csv"
    trace.write_text("\n".join(["10", "30"] * 50) + "\n")
    times = ArrivalSettings(kind="trace", trace=trace, holds="counts").planned(20.0, rng(), 1000)
    assert 850 < len(times) < 1150
    assert times[-1] <= 50


def test_a_trace_that_is_missing_short_or_wrong_is_named(tmp_path: Path) -> None:
    short = tmp_path / "short.csv"
    short.write_text("0.1\n0.2\n")
    for path, words in ((tmp_path / "none.csv", "cannot be read"), (short, "short.csv")):
        with pytest.raises(ConfigError, match=words):
            ArrivalSettings(kind="trace", trace=path).planned(20.0, rng(), 400)
    for given in ({"kind": "trace"}, {"trace": "x.csv"}, {"kind": "magic"}, {"burst": 0}):
        with pytest.raises(
            ValidationError, match=next(iter(given)) if "trace" not in given.values() else "trace"
        ):
            ArrivalSettings.model_validate(given)
