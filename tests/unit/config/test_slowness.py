"""One description of slowness for emulated accelerators and the simulator."""

import pytest
from pydantic import ValidationError

from parm_ray.config.emulation import EmulateSettings
from parm_ray.config.slowness import EpisodeSettings, SlownessSettings


def test_each_kind_becomes_its_script() -> None:
    assert SlownessSettings().script(1) is None
    two = SlownessSettings(share=0.02, factor=10)
    assert two.mean_factor == pytest.approx(1.18)
    heavy = SlownessSettings(share=0.5, shape=1.0, at_most=100)
    drawn = heavy.script(1)
    assert drawn is not None
    factors = {drawn.factor("deployed/0", call, 0.0) for call in range(400)}
    assert 1.0 in factors
    assert len(factors) > 100
    assert max(factors) == pytest.approx(100)
    episodes = SlownessSettings(episodes=EpisodeSettings(factor=3, mean_s=1, mean_between_s=3))
    assert episodes.mean_factor == pytest.approx(1.5)
    script = episodes.script(2)
    assert script is not None
    slow = [script.factor("deployed/0", 0, t / 10) for t in range(2000)]
    assert set(slow) == {1.0, 3.0}
    both = SlownessSettings(
        share=1.0, factor=2, episodes=EpisodeSettings(factor=3, mean_s=1, mean_between_s=3)
    )
    multiplied = both.script(2)
    assert multiplied is not None
    assert [multiplied.factor("deployed/0", 0, t / 10) for t in range(2000)] == [2 * one for one in slow]


def test_an_emulated_accelerator_without_a_service_time_can_be_neither_slow_nor_shared() -> None:
    with pytest.raises(ValidationError, match="slowness: does nothing without"):
        EmulateSettings(slowness=SlownessSettings(share=0.1))
    with pytest.raises(ValidationError, match="accelerator: does nothing without"):
        EmulateSettings(accelerator="node")
    for vain in ({"factor": 5}, {"shape": 1.2}, {"share": 0.1, "at_most": 50}):
        with pytest.raises(ValidationError, match="does nothing without"):
            SlownessSettings.model_validate(vain)
    with pytest.raises(ValidationError, match="not together with shape"):
        SlownessSettings(share=0.1, factor=5, shape=1.2)
    whole = SlownessSettings(share=0.1).model_dump()
    assert SlownessSettings.model_validate(whole) == SlownessSettings(share=0.1)
    with pytest.raises(ValidationError, match="mean_between_s"):
        SlownessSettings.model_validate({"episodes": {"mean_s": 1}})
