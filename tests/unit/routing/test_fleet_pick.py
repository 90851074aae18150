"""Which engine a request gets: shares, keys that stay, and who is never chosen."""

from __future__ import annotations

import random
import subprocess
import sys

import numpy as np
import pytest

from parm_ray.routing.fleet.pick import BOUND, NoEngine, Picker

KEYS = 400_000


def picker(weights: list[float], eligible: list[bool] | None = None) -> Picker:
    found = Picker([f"engine-{i}" for i in range(len(weights))], random.Random(1))
    found.reweigh(np.array(weights), np.array(eligible or [True] * len(weights)))
    return found


def choices(of: Picker, keys: int = KEYS) -> np.ndarray:
    return np.array([of.keyed(f"user-{i}") for i in range(keys)])


def test_keys_are_shared_by_weight_and_few_move_when_weights_do() -> None:
    before, after = [0.1, 0.2, 0.3, 0.4], [0.15, 0.2, 0.3, 0.35]
    first, second = choices(picker(before), KEYS // 4), choices(picker(after), KEYS // 4)
    for weights, found in ((before, first), (after, second)):
        shares = np.bincount(found, minlength=4) / len(found)
        assert shares == pytest.approx(weights, abs=0.01)
    moved, variation = (first != second).mean(), 0.05
    assert variation * 0.8 < moved <= 1.5 * variation + 0.01


def test_the_same_key_gets_the_same_engine_in_every_process() -> None:
    script = (
        "import numpy as np; from parm_ray.routing.fleet.pick import Picker\n"
        "p = Picker(['a', 'b', 'c']); p.reweigh(np.array([1.0, 2.0, 3.0]), np.ones(3, bool))\n"
        "print([p.keyed(f'k{i}') for i in range(200)])"
    )
    runs = {
        subprocess.run(
            [sys.executable, "-c", script], capture_output=True, text=True, check=True,
            env={"PYTHONHASHSEED": seed},
        ).stdout
        for seed in ("1", "2")
    }  # fmt: skip
    assert len(runs) == 1


def test_removing_an_engine_moves_its_keys_alone() -> None:
    whole, less = picker([1, 1, 1, 1]), picker([1, 1, 1, 1], [True, False, True, True])
    before, after = choices(whole, 20_000), choices(less, 20_000)
    assert not (after == 1).any()
    assert (before == after)[before != 1].all()


def test_an_engine_that_is_not_eligible_is_never_chosen_by_whatever_way() -> None:
    rng = np.random.default_rng(0)
    for _ in range(300):
        n = int(rng.integers(1, 12))
        found = Picker([f"e{i}" for i in range(n)], random.Random(int(rng.integers(1 << 30))))
        eligible = rng.random(n) < 0.5
        weights = np.where(rng.random(n) < 0.3, 0.0, rng.random(n))
        found.reweigh(weights, eligible)
        found.in_flight[:] = rng.integers(0, 50, n)
        able = eligible & (weights > 0)
        for i in range(20):
            if not able.any():
                with pytest.raises(NoEngine):
                    found.unkeyed()
                continue
            chosen = found.keyed(str(i)) if i % 2 else found.unkeyed()
            assert able[chosen]
            found.begin(chosen)


def test_one_popular_key_spills_over_once_its_engine_is_beyond_its_part() -> None:
    found = picker([1, 1, 1, 1])
    for _ in range(400):
        found.begin(found.keyed("popular"))
    assert found.in_flight.sum() == 400
    assert found.in_flight.max() <= BOUND * 100 + 1
    quiet = picker([1, 1, 1, 1])
    home = quiet.keyed("popular")
    for _ in range(50):
        chosen = quiet.keyed("popular")
        assert chosen == home
        quiet.begin(chosen)
        quiet.end(chosen)


def test_without_a_key_requests_follow_the_weights_and_avoid_who_is_loaded() -> None:
    found = picker([1, 3])
    counts = np.zeros(2)
    for _ in range(4000):
        chosen = found.unkeyed()
        counts[chosen] += 1
        found.begin(chosen)
    assert counts / counts.sum() == pytest.approx([0.25, 0.75], abs=0.02)
    stuck = picker([1, 1, 1])
    stuck.in_flight[:] = [100, 0, 0]
    counts = np.bincount([stuck.unkeyed() for _ in range(3000)], minlength=3) / 3000
    assert counts[0] < 0.15


@pytest.mark.parametrize("weight", [-1.0, float("nan"), float("inf")])
def test_weights_that_are_none_are_refused(weight: float) -> None:
    with pytest.raises(ValueError, match="weights"):
        picker([1.0, weight])
