"""What the control plane knows of the fleet, with the age of everything: fresh, stale, or never heard."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from parm_ray.routing.fleet import Demand, Engine, Fleet
from parm_ray.routing.planes.signals import Report, Seen

# So that a demand without traffic has a row of weights for its first request.
LEAST_RATE = 1e-3


@dataclass(frozen=True)
class Ages:
    """From which age on an input is what.

    stale_s: it says nothing of now: latencies do not count, and neither does the rate of a front end's
    replica beside replicas that were heard since; the rates of one of which nothing was heard are kept.
    lost_s: its declared default stands for it again.
    """

    stale_s: float = 5.0
    lost_s: float = 180.0

    def __post_init__(self) -> None:
        if not 0 < self.stale_s <= self.lost_s:
            raise ValueError(
                f"stale_s, lost_s: expected 0 < stale_s <= lost_s, got {self.stale_s}, {self.lost_s}"
            )


@dataclass
class _Heard:
    """What one replica of a front end said last, its smoothed rates, what it saw since the last decision.

    seconds: for how long it saw that.
    """

    front_end: str
    at: float
    rates: dict[str, float]
    seen: dict[str, Seen]
    seconds: float


class Inputs:
    """The fleet as it was declared, and what has been heard since.

    fleet: its rates are the defaults of demands that nobody reports. smoothing_s: the time
    within which a reported rate counts for most of what is planned with; 0 = the newest interval alone.
    """

    def __init__(self, fleet: Fleet, ages: Ages, smoothing_s: float = 5.0) -> None:
        if not (math.isfinite(smoothing_s) and smoothing_s >= 0):
            raise ValueError(f"smoothing_s: expected seconds >= 0, got {smoothing_s}")
        self._fleet, self._ages, self._smoothing_s = fleet, ages, smoothing_s
        self._heard: dict[tuple[str, str], _Heard] = {}
        self._ready: dict[str, tuple[float, float]] = {}
        self._network: dict[tuple[str, str], tuple[float, float]] = {}
        # Rates by demand that another control plane expected, and when; none until `recall`.
        self._recalled: tuple[dict[str, float], float] = {}, -math.inf

    def report(self, report: Report, now: float) -> None:
        """Take one interval of one front end's replica. Raises ValueError as `check` does."""
        self.check(report)
        before = self._heard.get((report.front_end, report.replica))
        rates = {name: count / report.seconds for name, count in report.arrivals.items()}
        if before is not None and now - before.at <= self._ages.lost_s:
            # By time, not by report: rates are as noisy as the time is short that they were counted in.
            weight = self._weight(report.seconds)
            for name in {*rates, *before.rates}:
                was = before.rates.get(name, 0.0)
                rates[name] = was + weight * (rates.get(name, 0.0) - was)
        seen = dict(report.engines)
        for engine, one in before.seen.items() if before is not None else ():
            seen[engine] = one.then(seen.get(engine, Seen()))
        seconds = report.seconds + (0.0 if before is None else before.seconds)
        self._heard[report.front_end, report.replica] = _Heard(report.front_end, now, rates, seen, seconds)

    def recall(self, rates: Mapping[str, float], now: float, age_s: float) -> None:
        """Go on from the rates, by demand, that another control plane expected so many seconds ago.

        Before the first `judged`: what was reported so far counts as if it had been reported to that one. Of
        a front end that says nothing they hold until they are lost.
        """
        self._recalled = dict(rates), now - age_s
        for demand in self._fleet.demands:
            mine = self._counted(demand.front_end, now)
            for heard in mine:
                was = rates.get(str(demand), 0.0) / len(mine)
                rate = heard.rates.get(demand.name, 0.0)
                heard.rates[demand.name] = was + self._weight(heard.seconds) * (rate - was)

    def check(self, report: Report) -> None:
        """Raise ValueError for a report of another fleet, and for numbers that cannot be."""
        if report.front_end not in {demand.front_end for demand in self._fleet.demands}:
            raise ValueError(f"front_end: {report.front_end} has no demand in this fleet")
        if not (math.isfinite(report.seconds) and report.seconds > 0):
            raise ValueError(f"seconds: expected > 0, got {report.seconds}")
        for name, count in report.arrivals.items():
            if not 0 <= count < math.inf:
                raise ValueError(f"arrivals: {name}: expected a count >= 0, got {count}")
        for name, one in report.engines.items():
            if not one.valid:
                raise ValueError(f"engines: {name}: expected finite numbers >= 0, got {one}")

    def ready(self, engine: str, share: float, now: float) -> None:
        """Of an engine's replicas that share is ready, 0..1. Raises ValueError for another number."""
        if not 0 <= share <= 1:
            raise ValueError(f"{engine}: ready share: expected 0..1, got {share}")
        self._ready[engine] = (share, now)

    def unknown(self, engine: str) -> None:
        """Whatever was said of its replicas holds no longer; what was declared does."""
        self._ready.pop(engine, None)

    def network(self, front_end: str, engine: str, seconds: float, now: float) -> None:
        """The round trip between the two was measured. Raises ValueError for one that cannot be."""
        if not (math.isfinite(seconds) and seconds >= 0):
            raise ValueError(f"{front_end} to {engine}: round trip: expected seconds >= 0, got {seconds}")
        self._network[front_end, engine] = (seconds, now)

    def fleet(self, now: float) -> Fleet:
        """Return the fleet as it is now, as far as known."""
        for key, heard in list(self._heard.items()):
            if now - heard.at > self._ages.lost_s:
                del self._heard[key]
        network = self._fleet.network_s.copy()
        for i, demand in enumerate(self._fleet.demands):
            for j, engine in enumerate(self._fleet.engines):
                seconds, at = self._network.get((demand.front_end, engine.name), (network[i, j], now))
                # Where no way was declared there is none for requests, whatever can be reached.
                if now - at <= self._ages.lost_s and math.isfinite(network[i, j]):
                    network[i, j] = seconds
        return replace(
            self._fleet,
            demands=tuple(replace(d, rate=self._rate(d, now)) for d in self._fleet.demands),
            engines=tuple(replace(e, health=self._health(e, now)) for e in self._fleet.engines),
            network_s=network,
        )

    def seen(self, engine: str, now: float) -> list[tuple[str, Seen]]:
        """Return what front ends saw of an engine since `judged`, by front end; not what is stale."""
        return [(heard.front_end, heard.seen[engine]) for heard in self._fresh(now) if engine in heard.seen]

    def answered(self, engine: str, now: float) -> float:
        """Return how many requests per second an engine has answered, of those that `seen` tells of."""
        return sum(
            heard.seen[engine].answers / heard.seconds
            for heard in self._fresh(now)
            if engine in heard.seen and heard.seconds > 0
        )

    def judged(self) -> None:
        """A decision was made of what was seen; the next one looks at what comes from now on."""
        for heard in self._heard.values():
            heard.seen, heard.seconds = {}, 0.0

    def replicas(self, now: float) -> dict[str, int]:
        """Return how many replicas each front end has, of those that were ever heard."""
        names = dict.fromkeys(demand.front_end for demand in self._fleet.demands)
        counts = {name: len(self._counted(name, now)) for name in names}
        return {name: count for name, count in counts.items() if count}

    def ages(self, now: float) -> dict[str, float | None]:
        """Return how old the newest of each input is, seconds; None = it never came, or is lost."""
        found: dict[str, float | None] = {}
        for front_end in dict.fromkeys(demand.front_end for demand in self._fleet.demands):
            heard = [now - h.at for (name, _), h in self._heard.items() if name == front_end]
            recalled = now - self._recalled[1]
            known = None if recalled > self._ages.lost_s else recalled
            found[f"demand of {front_end}"] = min(heard, default=known)
        for engine in self._fleet.engines:
            at = self._ready.get(engine.name)
            found[f"replicas of {engine.name}"] = None if at is None else now - at[1]
        return found

    def _weight(self, seconds: float) -> float:
        """Return what a rate that was counted for so long counts for beside the one before, 0..1."""
        return -math.expm1(-seconds / self._smoothing_s) if self._smoothing_s else 1.0

    def _fresh(self, now: float) -> Iterable[_Heard]:
        return (heard for heard in self._heard.values() if now - heard.at <= self._ages.stale_s)

    def _counted(self, front_end: str, now: float) -> list[_Heard]:
        """What its replicas say: those heard of late; if none was, all that are not lost.

        One that has been replaced must not count beside the one that took its place.
        """
        mine = [heard for heard in self._heard.values() if heard.front_end == front_end]
        fresh = [heard for heard in mine if now - heard.at <= self._ages.stale_s]
        return fresh or [heard for heard in mine if now - heard.at <= self._ages.lost_s]

    def _rate(self, demand: Demand, now: float) -> float:
        """The last that was heard, however old; the declared one if nothing was, or all is lost."""
        mine = self._counted(demand.front_end, now)
        if not mine:
            rates, at = self._recalled
            told = rates if now - at <= self._ages.lost_s else {}
            return max(LEAST_RATE, told.get(str(demand), demand.rate))
        return max(LEAST_RATE, sum(heard.rates.get(demand.name, 0.0) for heard in mine))

    def _health(self, engine: Engine, now: float) -> float:
        share, at = self._ready.get(engine.name, (engine.health, now))
        return share if now - at <= self._ages.lost_s else engine.health
