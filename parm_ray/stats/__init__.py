"""Statistics of recorded latencies. numpy only."""

from parm_ray.stats.ccdf import ccdf, thin
from parm_ray.stats.summary import Interval, LatencySummary, bootstrap_interval, percentile, summarise

__all__ = ["Interval", "LatencySummary", "bootstrap_interval", "ccdf", "percentile", "summarise", "thin"]
