"""One budget for work that is sent twice: a share of the queries, plus a floor.

Without one, hedges feed on themselves: they slow the pool down, which makes more calls slow, which
sends more hedges. Running out of budget is not a failure; the first call goes on.
"""

from __future__ import annotations

import math

WINDOW_S = 10.0


class Budget:
    """A token bucket: `ratio` tokens a query and `floor_per_s` tokens a second, one token a send.

    ratio: 0..1; at a ratio of 0.1 sends are at most 10 % of the queries in the long run. floor_per_s:
    keeps hedges possible at low rates. Tokens are kept for `window_s` seconds' worth at most: after a quiet
    hour there is no hour's worth of hedges to burst. (Finagle's retry budget, as a bucket.) Raises
    ValueError for arguments out of range.
    """

    def __init__(self, ratio: float, floor_per_s: float = 0.0, window_s: float = WINDOW_S) -> None:
        if not 0 <= ratio <= 1:
            raise ValueError(f"ratio: expected 0..1, got {ratio}")
        if not (math.isfinite(floor_per_s) and floor_per_s >= 0):
            raise ValueError(f"floor_per_s: expected >= 0 a second, got {floor_per_s}")
        if not (math.isfinite(window_s) and window_s > 0):
            raise ValueError(f"window_s: expected seconds > 0, got {window_s}")
        self.ratio = ratio
        self.floor_per_s = floor_per_s
        self._window_s = window_s
        self._tokens = floor_per_s * window_s
        self._rate = 0.0
        self._last: float | None = None

    def deposit(self, now: float) -> None:
        """A query came: it earns `ratio` tokens."""
        self._pass(now)
        # The cap follows the rate of queries, averaged over the window.
        self._rate += 1 / self._window_s
        self._tokens = min(self._tokens + self.ratio, self._cap)

    def take(self, now: float) -> bool:
        """Take one token; False, and nothing is taken, if there is none."""
        self._pass(now)
        if self._tokens < 1:
            return False
        self._tokens -= 1
        return True

    def give_back(self) -> None:
        """What was taken last was not used."""
        self._tokens = min(self._tokens + 1, self._cap)

    def retune(self, ratio: float, floor_per_s: float | None = None) -> None:
        """Earn that much from now on; what was saved is cut to what the new rates could have saved.

        floor_per_s: None = as before. Raises ValueError, changing nothing, for arguments out of range.
        """
        if not 0 <= ratio <= 1:
            raise ValueError(f"ratio: expected 0..1, got {ratio}")
        if floor_per_s is not None:
            if not (math.isfinite(floor_per_s) and floor_per_s >= 0):
                raise ValueError(f"floor_per_s: expected >= 0 a second, got {floor_per_s}")
            self.floor_per_s = floor_per_s
        self.ratio = ratio
        self._tokens = min(self._tokens, self._cap)

    @property
    def tokens(self) -> float:
        """Sends that could be had now, of which the whole ones count."""
        return self._tokens

    @property
    def _cap(self) -> float:
        return max(1.0, (self.ratio * self._rate + self.floor_per_s) * self._window_s)

    def _pass(self, now: float) -> None:
        passed = 0.0 if self._last is None else max(0.0, now - self._last)
        self._last = now
        self._rate *= math.exp(-passed / self._window_s)
        self._tokens = min(self._tokens + self.floor_per_s * passed, self._cap)
