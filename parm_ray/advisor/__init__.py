"""Which redundancy pays: latency and cost of copies, hedges and parities, in closed form.

A strategy is a function of a `stats.families.Family` (a law of service times, or a sample) that returns a
`Prediction`, which says of itself whether it is exact, an approximation or a bound. Unstable settings have
a latency of inf. How far a prediction made from a sample may be off, `prediction_intervals` says.

`advise` takes a workload, an objective and limits, simulates the plans that the server could run, and returns
them in order of preference, with reasons.
"""

from parm_ray.advisor.advice import Advice, AtLoad, Ranked, Unsimulated
from parm_ray.advisor.candidates import Candidate, candidates
from parm_ray.advisor.evidence import Evidence, evidence
from parm_ray.advisor.fork_join import (
    ForkJoinCost,
    coded_pieces,
    copied_pieces,
    fork_join_cost,
    fork_join_latency,
)
from parm_ray.advisor.forking import early_cancel, full_fork, groups, random_fork
from parm_ray.advisor.hedging import hedge, hedge_rate, hedge_survival
from parm_ray.advisor.laws import LAWS, parse_law
from parm_ray.advisor.objective import Objective
from parm_ray.advisor.parity import coded_group, parity_survival, unanswered_share
from parm_ray.advisor.prediction import FREE, Bounds, Losers, Prediction, Standing
from parm_ray.advisor.race import EFFORTS, NORMAL, QUICK, THOROUGH, Effort, Round
from parm_ray.advisor.report import report
from parm_ray.advisor.search import advise
from parm_ray.advisor.uncertainty import PredictionIntervals, prediction_intervals
from parm_ray.advisor.workload import Limits, ParityOffer, Workload

__all__ = [
    "EFFORTS",
    "FREE",
    "LAWS",
    "NORMAL",
    "QUICK",
    "THOROUGH",
    "Advice",
    "AtLoad",
    "Bounds",
    "Candidate",
    "Effort",
    "Evidence",
    "ForkJoinCost",
    "Limits",
    "Losers",
    "Objective",
    "ParityOffer",
    "Prediction",
    "PredictionIntervals",
    "Ranked",
    "Round",
    "Standing",
    "Unsimulated",
    "Workload",
    "advise",
    "candidates",
    "coded_group",
    "coded_pieces",
    "copied_pieces",
    "early_cancel",
    "evidence",
    "fork_join_cost",
    "fork_join_latency",
    "full_fork",
    "groups",
    "hedge",
    "hedge_rate",
    "hedge_survival",
    "parity_survival",
    "parse_law",
    "prediction_intervals",
    "random_fork",
    "report",
    "unanswered_share",
]
