"""One row a model: what was trained, how good it is, how long it took."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from parm_ray.models.manifest import Manifest
from train.evaluate import LATE_SHARES, Degraded, overall


@dataclass(frozen=True)
class Row:
    """A line of the table. Accuracies are shares in 0..1; None where the deployed model has none."""

    model: str
    encoder: str | None
    decoder: str | None
    k: int | None
    r: int | None
    row: int | None
    a_a: float
    a_d: float | None
    a_d_by_slot: list[float] | None
    a_d_short: float | None
    a_d_r_lost: float | None
    agreement: float | None
    a_o_1: float | None
    a_o_5: float | None
    a_o_10: float | None
    seconds: float
    cached: bool
    path: str

    def as_json(self) -> dict[str, object]:
        """Return the row as JSON types."""
        return asdict(self)


def parity_metrics(a_a: float, degraded: Degraded, seconds: float) -> dict[str, float]:
    """Return what a parity model's manifest keeps: flat names, shares in 0..1, training seconds."""
    return {
        "a_a": a_a,
        "a_d": degraded.a_d,
        **{f"a_d_slot_{slot}": value for slot, value in enumerate(degraded.a_d_by_slot)},
        "a_d_short": degraded.a_d_short,
        "a_d_r_lost": degraded.a_d_r_lost,
        "agreement": degraded.agreement,
        **{f"a_o_{share * 100:.0f}": overall(a_a, degraded.a_d, share) for share in LATE_SHARES},
        "seconds": seconds,
    }


def row_of(manifest: Manifest, path: Path, cached: bool) -> Row:
    """Return the row that a measured artefact's manifest spells out."""
    code, metrics = manifest.code, manifest.metrics
    return Row(
        model=path.name,
        encoder=code.encoder if code else None,
        decoder=code.decoder if code else None,
        k=code.k if code else None,
        r=code.r if code else None,
        row=code.row if code else None,
        a_a=metrics["a_a"],
        a_d=metrics.get("a_d"),
        a_d_by_slot=[metrics[f"a_d_slot_{slot}"] for slot in range(code.k)] if code else None,
        a_d_short=metrics.get("a_d_short"),
        a_d_r_lost=metrics.get("a_d_r_lost"),
        agreement=metrics.get("agreement"),
        a_o_1=metrics.get("a_o_1"),
        a_o_5=metrics.get("a_o_5"),
        a_o_10=metrics.get("a_o_10"),
        seconds=metrics["seconds"],
        cached=cached,
        path=str(path),
    )


def table_of(rows: list[Row]) -> Table:
    """Return the rows as a table in percent."""
    table = Table(
        "model", "A_a", "A_d", "by slot", "short", "r lost", "agree", "A_o 1 %", "5 %", "10 %", "seconds"
    )
    for row in rows:
        slots = " ".join(map(_percent, row.a_d_by_slot or []))
        shares = (row.a_d_short, row.a_d_r_lost, row.agreement, row.a_o_1, row.a_o_5, row.a_o_10)
        seconds = "cached" if row.cached else f"{row.seconds:.1f}"
        table.add_row(row.model, _percent(row.a_a), _percent(row.a_d), slots, *map(_percent, shares), seconds)
    return table


def _percent(share: float | None) -> str:
    return "" if share is None else f"{100 * share:.1f}"
