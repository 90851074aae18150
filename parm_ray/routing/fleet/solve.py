"""The optimizer: the split of all traffic with the least expected latency, and the proof that it is.

    min  sum_ij d_ij x_ij + sum_j f_j(y_j) + sum_i P_i s_i + g sum_ij |x_ij - x_ij before|,   y_j = sum_i x_ij
    s.t. sum_j x_ij + s_i = rate_i,   y_j <= u c_j,   x, s >= 0

Every f_j is replaced by chords between breakpoints, which makes it a linear program (HiGHS); the breakpoints
are then moved closer around the loads that came out, until the proof holds: for any prices p_j of load at
the engines, convex duality bounds the optimum from below (see `_bound`), and the plan costs no more than
TOLERANCE above that bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linprog
from scipy.sparse import coo_array

from parm_ray.core import ParmError
from parm_ray.routing.fleet.latency import Free
from parm_ray.routing.fleet.problem import Engine, Fleet
from parm_ray.routing.fleet.routing import Routing

Array = NDArray[np.float64]

# How far above its bound a plan may cost, as a share; what is accepted after ROUNDS; the residual up to which
# the optimality conditions hold, as a share of the dearest price of a request.
TOLERANCE, ACCEPTED, KKT_CLOSE = 1e-6, 1e-4, 1e-3

ROUNDS = 20

# Of an engine's usable load; closer towards its limit, where f bends.
_FIRST = (0.0, 0.3, 0.5, 0.65, 0.76, 0.84, 0.9, 0.94, 0.97, 1.0)
_PIECES = 6


class Infeasible(ParmError):
    """The solver found no plan, which shedding should make impossible; the message says what it said."""


@dataclass(frozen=True)
class Solution:
    """A plan and its proof.

    objective_s: seconds per second of everything that counts, shed requests and switching included;
    bound_s: no plan has less. prices: `[engines]`, what one more request per second costs at each, seconds,
    where it is full what others would pay for its room. row_prices: `[demands]`, the least that one more
    request costs. kkt_s: by how much a used route, or a shed request, is dearer than the cheapest way, at
    most, seconds. rounds: linear programs solved.
    """

    routing: Routing
    objective_s: float
    bound_s: float
    prices: Array
    row_prices: Array
    kkt_s: float
    rounds: int

    @property
    def gap(self) -> float:
        """How far above its bound the plan costs, as a share."""
        return (self.objective_s - self.bound_s) / max(abs(self.objective_s), 1e-12)

    @property
    def optimal(self) -> bool:
        """Whether the optimality conditions hold, to KKT_CLOSE."""
        return bool(self.kkt_s <= KKT_CLOSE * float(self.row_prices.max(initial=0.0)))

    @property
    def binding(self) -> list[str]:
        """The constraints that hold the objective up: full engines, demands that are shed."""
        fleet, routing = self.routing.fleet, self.routing
        found = [
            f"{engine.name}: at {100 * load / engine.limit:g} % of {engine.limit:g}/s"
            if engine.at_most > engine.limit * fleet.max_utilization
            else f"{engine.name}: held at {load:g}/s"
            for engine, load, most in zip(fleet.engines, routing.loads, fleet.most, strict=True)
            if most > 0 and load >= most * (1 - 1e-7)
        ]
        shed = zip(fleet.demands, routing.shed, strict=True)
        return found + [f"{demand}: {lost:.4g}/s shed" for demand, lost in shed if lost > 1e-7 * demand.rate]


def solve(fleet: Fleet, before: Array | None = None) -> Solution:
    """Return the best plan.

    before: `[demands, engines]`, the flows that run now, for the switching cost; None = there are none.
    Raises Infeasible if the solver fails or the proof does not close within ROUNDS.
    """
    eligible, most = fleet.eligible, fleet.most
    rows, columns = np.nonzero(eligible & (most > 0))
    program = _Program(fleet, rows, columns, before if fleet.switching_s > 0 else None)
    breaks = [_first(engine, top) for engine, top in zip(fleet.engines, most, strict=True)]
    best: Solution | None = None
    for number in range(1, ROUNDS + 1):
        routing, duals = program.solved(breaks)
        found = _proved(program, routing, duals, number)
        if best is None or found.gap < best.gap:
            best = found
        if best.gap <= TOLERANCE:
            return best
        breaks = [
            _closer(engine, old, load, top)
            for engine, old, load, top in zip(fleet.engines, breaks, routing.loads, most, strict=True)
        ]
    assert best is not None
    if best.gap <= ACCEPTED:
        return best
    raise Infeasible(f"no proof within {ROUNDS} rounds: {best.objective_s:g} s against {best.bound_s:g} s")


def network_only(fleet: Fleet) -> Routing:
    """Return the plan with the least time on the network, as if engines took none: what to compare with."""
    free = tuple(replace(engine, latency=Free(engine.latency.limit)) for engine in fleet.engines)
    found = solve(replace(fleet, engines=free, switching_s=0.0)).routing
    return Routing(fleet, found.flows, found.shed)


class _Program:
    """The linear program: routes, what is shed, and pieces of load at every engine."""

    def __init__(
        self, fleet: Fleet, rows: NDArray[np.intp], columns: NDArray[np.intp], before: Array | None
    ) -> None:
        self.fleet, self.rows, self.columns = fleet, rows, columns
        self.costs = fleet.network_s[rows, columns]
        self.shed_prices = np.array([demand.shed_price_s for demand in fleet.demands])
        self.before = np.zeros(len(rows)) if before is None else before[rows, columns]
        self.switching_s = 0.0 if before is None else fleet.switching_s
        # What runs on engines that may get nothing any more has to be moved: the same in every plan.
        gone = 0.0 if before is None else float(before.sum() - self.before.sum())
        self.sunk_s = self.switching_s * gone

    def solved(self, breaks: list[Array]) -> tuple[Routing, Array]:
        """Return the plan with f_j as chords between `breaks`, and the prices of load, `[engines]`."""
        fleet, n, m = self.fleet, len(self.fleet.demands), len(self.fleet.engines)
        pieces = [
            (j, *piece) for j, points in enumerate(breaks) for piece in _pieces(fleet.engines[j], points)
        ]
        owners = np.array([piece[0] for piece in pieces], dtype=np.intp)
        widths = np.array([piece[1] for piece in pieces])
        slopes = np.array([piece[2] for piece in pieces])
        # With a switching cost a route has two parts: up to what it carries now, and beyond.
        kept = np.flatnonzero(self.before > 0)
        routes = len(self.rows)
        r = np.concatenate([self.rows, self.rows[kept]])
        c = np.concatenate([self.columns, self.columns[kept]])
        costs = np.concatenate([self.costs + self.switching_s, self.costs[kept] - self.switching_s])
        bounds = np.concatenate([np.full(routes, np.inf), self.before[kept], np.full(n, np.inf), widths])
        x, s, p = len(r), n, len(pieces)
        i = np.concatenate([r, np.arange(n), n + c, n + owners])
        k = np.concatenate([np.arange(x), x + np.arange(s), np.arange(x), x + s + np.arange(p)])
        v = np.concatenate([np.ones(x + s + x), -np.ones(p)])
        found = linprog(
            np.concatenate([costs, self.shed_prices, slopes]),
            A_eq=coo_array((v, (i, k)), shape=(n + m, x + s + p)).tocsc(),
            b_eq=np.concatenate([fleet.rates, np.zeros(m)]),
            bounds=np.column_stack([np.zeros(x + s + p), bounds]),
            method="highs",
        )
        if found.status != 0:
            raise Infeasible(f"HiGHS: {found.message}")
        flows = np.zeros(fleet.network_s.shape)
        np.add.at(flows, (r, c), np.maximum(found.x[:x], 0.0))
        # The marginal of "what comes in less what is served = 0" is what more room would save, negative.
        return Routing(fleet, flows, np.maximum(found.x[x : x + n], 0.0)), -found.eqlin.marginals[n:]

    def objective(self, routing: Routing) -> float:
        """Return what a plan costs, with the true f."""
        moved = np.abs(routing.flows[self.rows, self.columns] - self.before).sum()
        return (
            routing.network_total_s
            + routing.engine_total_s
            + float(self.shed_prices @ routing.shed)
            + self.switching_s * float(moved)
            + self.sunk_s
        )


def _proved(program: _Program, routing: Routing, duals: Array, rounds: int) -> Solution:
    fleet = program.fleet
    found = zip(fleet.engines, routing.loads, fleet.most, duals, strict=True)
    # Any prices prove something: the slopes at these loads, or what the program says of its pieces.
    own = np.array([_price(*one) for one in found])
    said = np.where(fleet.most > 0, np.maximum(duals, 0.0), np.inf)
    (row_prices, bound), prices = max(
        ((_bound(program, prices), prices) for prices in (own, said)), key=lambda proof: proof[0][1]
    )
    return Solution(
        routing,
        program.objective(routing),
        bound,
        prices,
        row_prices,
        _kkt(program, routing, prices, row_prices),
        rounds,
    )


def _price(engine: Engine, load: float, top: float, dual: float) -> float:
    """Return what one more request per second costs at an engine."""
    if top <= 0:
        return math.inf
    if _breaks(engine) is not None:
        # At a break anything between the two slopes may be it; the program is exact, so is what it says.
        return dual
    return max(engine.slope(load), dual) if load >= top * (1 - 1e-9) else engine.slope(load)


def _bound(program: _Program, prices: Array) -> tuple[Array, float]:
    """Return the price of each demand, and a lower bound of the objective.

    Lagrange: with any prices p_j for "the load of engine j is what is sent to it", the objective is at least

        sum_i rate_i lambda_i + sum_j min over 0 <= y <= u c_j of (f_j(y) - p_j y) + what is kept

    for any lambda_i that is at most P_i and the least of d_ij + p_j + g over demand i's routes: it is the
    price of one more of its requests. A route that carries b_ij now may keep up to that much for
    d_ij + p_j - g, and leaving it costs g: g b_ij + min(0, d_ij + p_j - g - lambda_i) b_ij. The best
    lambda_i is that limit, or where what is kept for less covers the demand.
    """
    fleet, g = program.fleet, program.switching_s
    ways = program.costs + prices[program.columns]
    row_prices = program.shed_prices.copy()
    np.minimum.at(row_prices, program.rows, ways + g)
    for i in np.unique(program.rows[program.before > 0]):
        here = (program.rows == i) & (program.before > 0)
        kept = np.argsort(ways[here])
        covered = np.cumsum(program.before[here][kept])
        enough = int(np.searchsorted(covered, fleet.rates[i]))
        if enough < len(kept):
            row_prices[i] = min(row_prices[i], ways[here][kept[enough]] - g)
    least = math.fsum(
        engine.total(load) - price * load
        for engine, top, price in zip(fleet.engines, fleet.most, prices, strict=True)
        if top > 0
        for load in [min(engine.load_at(price), top)]
    )
    keeping = np.minimum(0.0, ways - g - row_prices[program.rows]) * program.before
    leaving = g * program.before.sum() + program.sunk_s
    return row_prices, float(row_prices @ fleet.rates + least + keeping.sum() + leaving)


def _kkt(program: _Program, routing: Routing, prices: Array, row_prices: Array) -> float:
    """Return how far the optimality conditions are from holding, seconds (switching left out).

    That is by how much the dearest way in use is above the cheapest, and by how much the price of an engine
    that is neither idle nor full differs from the slope of its delay.
    """
    rates = program.fleet.rates
    flows = routing.flows[program.rows, program.columns]
    used = flows > 1e-6 * np.maximum(rates[program.rows], 1e-12)
    over = program.costs + prices[program.columns] - row_prices[program.rows]
    dearest = float(over[used].max(initial=0.0))
    apart = [
        abs(price - engine.slope(load))
        for engine, load, top, price in zip(
            program.fleet.engines, routing.loads, program.fleet.most, prices, strict=True
        )
        if engine.latency.breaks is None and 1e-6 * top < load < (1 - 1e-6) * top
    ]
    dearest = max(dearest, *apart, 0.0)
    shed = routing.shed > 1e-6 * np.maximum(rates, 1e-12)
    return max(dearest, float((program.shed_prices - row_prices)[shed].max(initial=0.0)))


def _breaks(engine: Engine) -> tuple[float, ...] | None:
    """The loads between which f is linear, for an engine with a profile."""
    breaks = engine.latency.breaks
    return None if breaks is None else tuple(load * engine.health for load in breaks)


def _first(engine: Engine, top: float) -> Array:
    own = _breaks(engine)
    return top * np.array(_FIRST) if own is None else np.array([*(b for b in own if b < top), top])


def _closer(engine: Engine, old: Array, load: float, top: float) -> Array:
    """Return breakpoints that are closer around `load`; the others stay for when it moves far."""
    if top <= 0 or _breaks(engine) is not None:
        return old
    i = int(np.clip(np.searchsorted(old, load), 1, len(old) - 1))
    low, high = old[max(i - 2, 0)], old[min(i + 1, len(old) - 1)]
    new = np.unique(np.concatenate([top * np.array(_FIRST), np.linspace(low, high, _PIECES * 2), [load]]))
    # Pieces of no width are nothing but rounding.
    return new[np.concatenate([[True], np.diff(new) > 1e-12 * top])]


def _pieces(engine: Engine, points: Array) -> Iterator[tuple[float, float]]:
    """Yield (width, slope of the chord) of every piece."""
    if points[-1] <= 0:
        return
    totals = [engine.total(point) for point in points]
    for a, b, f, g in zip(points, points[1:], totals, totals[1:], strict=False):
        yield b - a, (g - f) / (b - a)
