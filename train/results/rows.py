"""What a row of results says, typed; rows of several seeds become one."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Annotated, Literal

import numpy as np
from pydantic import BaseModel, ConfigDict, Field

Share = Annotated[float, Field(ge=0, le=1)]
CURVE_POINTS = 40
CONFIDENCE = 0.95


class _Strict(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Row(_Strict):
    """One kind of loss of one code, or the deployed model alone (encoder None, lost 0).

    Shares are in 0..1, "accuracy" is the mean of `metric`. model: short name of the deployed net;
    parity_model: of the parity net. answered: the parity rows that had come. control: "symmetric" for
    two parities of one plain sum, which cannot work. a_d: see `train.evaluate`; a_d_short: in groups
    with empty slots. interval: 95 % of a_d (deployed: of a_a) over seeds, None for one seed. top5: of
    the reconstruction (deployed: of its answer). ece and gate: see `train.calibration`; deployed_ece:
    the deployed model's own. train_minutes: of all r parity models, on `trained_on`; train_ratio:
    beside the deployed model's minutes. recipe_hash: of the recipe whatever the seed. commit: of the
    code that measured. curve: (minutes, validation share) while the first row's model was trained.
    a_d_worst: with the worst straggler, where all answers are coded (`train.plain_berrut`).
    encode_ratio, decode_ratio, stand_in_ratio: times over the deployed model's pass, `train.latency`.
    """

    dataset: str
    model: str
    recipe: str
    variant: str = ""
    encoder: str | None = None
    decoder: str | None = None
    parity_model: str | None = None
    k: Annotated[int, Field(ge=2)] | None = None
    r: Annotated[int, Field(ge=1)] | None = None
    lost: Annotated[int, Field(ge=0)] = 0
    answered: tuple[int, ...] = ()
    control: Literal["symmetric"] | None = None
    metric: str = "accuracy"
    a_a: Share
    a_d: Share | None = None
    a_d_by_slot: tuple[Share, ...] | None = None
    a_d_short: Share | None = None
    interval: tuple[float, float] | None = None
    agreement: Share | None = None
    top5: Share | None = None
    a_o_1: Share | None = None
    a_o_5: Share | None = None
    a_o_10: Share | None = None
    ece: Share | None = None
    deployed_ece: Share | None = None
    gate: tuple[tuple[Share, Share, Share | None], ...] | None = None
    seeds: Annotated[tuple[int, ...], Field(min_length=1)]
    train_minutes: Annotated[float, Field(ge=0)] | None = None
    train_ratio: Annotated[float, Field(ge=0)] | None = None
    trained_on: str | None = None
    recipe_hash: str
    commit: str
    curve: Annotated[tuple[tuple[float, float], ...], Field(max_length=CURVE_POINTS)] = ()
    a_d_worst: Share | None = None
    encode_ratio: Annotated[float, Field(ge=0)] | None = None
    decode_ratio: Annotated[float, Field(ge=0)] | None = None
    stand_in_ratio: Annotated[float, Field(ge=0)] | None = None

    @property
    def code(self) -> tuple[object, ...]:
        """What names the artefacts that the row is about: all of () for the deployed model."""
        return (self.encoder, self.decoder, self.k, self.r, self.variant)

    @property
    def key(self) -> tuple[object, ...]:
        """What two rows of one file have in common only if they differ by seed."""
        return (*self.code, self.lost, self.answered, self.control)


_MEANS = (
    "a_a",
    "a_d",
    "a_d_short",
    "agreement",
    "top5",
    "a_o_1",
    "a_o_5",
    "a_o_10",
    "ece",
    "deployed_ece",
    "train_minutes",
    "train_ratio",
    "a_d_worst",
    "encode_ratio",
    "decode_ratio",
    "stand_in_ratio",
)


def over_seeds(rows: Sequence[Row]) -> list[Row]:
    """Return one row a key, in the order of first sight: means over seeds, and the interval."""
    by_key: dict[tuple[object, ...], list[Row]] = {}
    for row in rows:
        by_key.setdefault(row.key, []).append(row)
    return [_merged(sorted(group, key=lambda row: row.seeds)) for group in by_key.values()]


def half_width(values: Sequence[float]) -> float:
    """Return half the 95 % interval of the mean of n >= 2 values: t(0.975, n - 1) s / sqrt(n) (Student)."""
    from scipy.stats import t

    n = len(values)
    return float(t.ppf((1 + CONFIDENCE) / 2, n - 1) * np.std(values, ddof=1) / np.sqrt(n))


def thinned(points: Sequence[tuple[float, float]]) -> tuple[tuple[float, float], ...]:
    """Return at most CURVE_POINTS of the points, evenly, the first and the last among them."""
    if len(points) <= CURVE_POINTS:
        return tuple(points)
    return tuple(points[at] for at in np.linspace(0, len(points) - 1, CURVE_POINTS).round().astype(int))


def _merged(rows: Sequence[Row]) -> Row:
    first = rows[0]
    if len(rows) == 1:
        return first
    changed: dict[str, object] = {name: _mean(getattr(row, name) for row in rows) for name in _MEANS}
    if first.a_d_by_slot is not None:
        slots = zip(*(row.a_d_by_slot or () for row in rows), strict=True)
        changed["a_d_by_slot"] = tuple(_mean(values) for values in slots)
    if first.gate is not None:
        points = zip(*(row.gate or () for row in rows), strict=True)
        changed["gate"] = tuple(tuple(map(_mean, zip(*point, strict=True))) for point in points)
    values = [row.a_a if row.a_d is None else row.a_d for row in rows]
    centre, half = float(np.mean(values)), half_width(values)
    changed["interval"] = (centre - half, centre + half)
    changed["seeds"] = tuple(seed for row in rows for seed in row.seeds)
    changed["commit"] = " ".join(dict.fromkeys(row.commit for row in rows))
    return first.model_copy(update=changed)


def _mean(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(np.mean(known)) if known else None
