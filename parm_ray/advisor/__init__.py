"""Which redundancy pays: latency and cost of copies, hedges and parities, in closed form.

A strategy is a function of a `stats.families.Family` (a law of service times, or a sample) that returns a
`Prediction`, which says of itself whether it is exact, an approximation or a bound. Unstable settings have
a latency of inf. How far a prediction made from a sample may be off, `prediction_intervals` says.
"""

from parm_ray.advisor.fork_join import (
    ForkJoinCost,
    coded_pieces,
    copied_pieces,
    fork_join_cost,
    fork_join_latency,
)
from parm_ray.advisor.forking import early_cancel, full_fork, groups, random_fork
from parm_ray.advisor.hedging import hedge, hedge_rate, hedge_survival
from parm_ray.advisor.parity import coded_group, parity_survival, unanswered_share
from parm_ray.advisor.prediction import FREE, Bounds, Losers, Prediction, Standing
from parm_ray.advisor.uncertainty import PredictionIntervals, prediction_intervals

__all__ = [
    "FREE",
    "Bounds",
    "ForkJoinCost",
    "Losers",
    "Prediction",
    "PredictionIntervals",
    "Standing",
    "coded_group",
    "coded_pieces",
    "copied_pieces",
    "early_cancel",
    "fork_join_cost",
    "fork_join_latency",
    "full_fork",
    "groups",
    "hedge",
    "hedge_rate",
    "hedge_survival",
    "parity_survival",
    "prediction_intervals",
    "random_fork",
    "unanswered_share",
]
