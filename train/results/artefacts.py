"""A line an artefact: what train.run has trained, how good it is, how long it took."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from pathlib import Path

from rich.table import Table

from parm_ray.models.manifest import Manifest


@dataclass(frozen=True)
class Artefact:
    """A line of the command's table. Accuracies are shares in 0..1; None: the deployed model has none."""

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
        """Return the line as JSON types."""
        return asdict(self)


def artefact_of(manifest: Manifest, path: Path, cached: bool) -> Artefact:
    """Return the line that a measured artefact's manifest spells out."""
    code, metrics = manifest.code, manifest.metrics
    return Artefact(
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
        seconds=metrics.get("seconds", 0.0),
        cached=cached,
        path=str(path),
    )


def table_of(rows: list[Artefact]) -> Table:
    """Return the lines as a table in percent."""
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
