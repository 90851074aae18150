import pytest

from parm_ray.redundancy import Budget


def sent(budget: Budget, rate: float, seconds: float, start: float = 0.0) -> int:
    """Ask once for every query of a steady stream; how many were granted."""
    granted = 0
    for i in range(int(rate * seconds)):
        now = start + i / rate
        budget.deposit(now)
        granted += budget.take(now)
    return granted


def test_sends_are_a_share_of_the_queries_in_the_long_run() -> None:
    """At 100 queries a second and a ratio of 0.2, 100 s give 2,000 sends and no floor."""
    assert sent(Budget(0.2), 100, 100) == pytest.approx(2000, abs=1)


def test_the_floor_adds_sends_per_second_whatever_the_load() -> None:
    """Finagle's hand check: 20 % + 10 a second is 30 a second at 100 queries a second."""
    budget = Budget(0.2, 10.0)
    sent(budget, 100, 60)  # uses up what there was at the start
    assert sent(budget, 100, 60, start=60) == pytest.approx(30 * 60, rel=0.01)


def test_a_floor_alone_lets_a_quiet_service_hedge() -> None:
    budget = Budget(0.0, 1.0)
    sent(budget, 5, 30)
    assert sent(budget, 5, 60, start=30) == pytest.approx(60, abs=1)


def test_a_quiet_hour_saves_up_no_more_than_a_window() -> None:
    budget = Budget(0.1, 1.0, window_s=10.0)
    assert budget.tokens == 10
    budget.deposit(3600.0)
    granted = sum(budget.take(3600.0) for _ in range(1000))
    assert granted <= 11


def test_running_out_takes_nothing() -> None:
    budget = Budget(0.5)
    budget.deposit(0.0)
    assert not budget.take(0.0)
    budget.deposit(0.0)
    assert budget.take(0.0)
    assert budget.tokens == pytest.approx(0.0)


def test_a_clock_that_steps_back_gives_nothing() -> None:
    budget = Budget(0.0, 1.0)
    while budget.take(100.0):
        pass
    assert not budget.take(50.0)
    assert not budget.take(50.5)


@pytest.mark.parametrize(
    ("arguments", "name"),
    [((-0.1,), "ratio"), ((1.1,), "ratio"), ((0.1, -1.0), "floor"), ((0.1, 1.0, 0.0), "window")],
)
def test_arguments_out_of_range_are_refused_by_name(arguments: tuple[float, ...], name: str) -> None:
    with pytest.raises(ValueError, match=name):
        Budget(*arguments)
