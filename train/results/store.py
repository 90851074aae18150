"""The files of results, one a recipe: how rows get in, and out again."""

from __future__ import annotations

import fcntl
import json
import os
import subprocess
from collections.abc import Sequence
from datetime import datetime, timezone
from functools import cache
from pathlib import Path

from pydantic import ValidationError

from parm_ray.core.errors import ConfigError
from train.results.rows import Row, _Strict, over_seeds

COMMITTED = Path(__file__).parent
"""Where the results that README tables are made of lie."""

_DIGITS = 5


class Hardware(_Strict):
    """What measured. cpu: the model's name; cores: those the process sees; threads: those torch used."""

    cpu: str
    cores: int
    gpu: str | None
    torch: str
    threads: int


class Results(_Strict):
    """One file. command, commit, hardware, date: of the run that wrote it last.

    rows: one a kind of loss, means over seeds. by_seed: the rows they are means of, where any is of
    more than one seed.
    """

    command: str
    commit: str
    hardware: Hardware
    date: str
    rows: tuple[Row, ...]
    by_seed: tuple[Row, ...] = ()

    @property
    def single(self) -> tuple[Row, ...]:
        """Rows of one seed each."""
        return self.by_seed or self.rows


def load(path: Path) -> Results:
    """Read one file. Raises ConfigError naming it and the key that is wrong."""
    try:
        return Results.model_validate_json(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot read results ({error.strerror})") from None
    except ValidationError as error:
        lines = "; ".join(f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors())
        raise ConfigError(f"{path}: {lines}") from None


def load_all(folder: Path = COMMITTED) -> dict[str, Results]:
    """Read every file of a folder, by its stem, in the order of names. Raises as `load`."""
    return {path.stem: load(path) for path in sorted(folder.glob("*.json"))}


def update(path: Path, rows: Sequence[Row], *, command: str, hardware: Hardware) -> Results:
    """Put rows of one seed each into the file at `path`, made if missing; return what it holds now.

    New rows push out those of the same code and seed, and of the same code and another recipe; rows
    of other codes and seeds stay. Processes that write the same file wait for each other. Raises as
    `load` if the file that is there is not legal.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        # The lock goes with the descriptor, also where the process dies.
        fcntl.flock(folder, fcntl.LOCK_EX)
        return _update(path, rows, command, hardware)
    finally:
        os.close(folder)


def _update(path: Path, rows: Sequence[Row], command: str, hardware: Hardware) -> Results:
    old = load(path).single if path.is_file() else ()
    fresh = {(row.code, row.seeds) for row in rows}
    hashes = {row.code: row.recipe_hash for row in rows}
    stay = [
        row
        for row in old
        if (row.code, row.seeds) not in fresh and hashes.get(row.code, row.recipe_hash) == row.recipe_hash
    ]
    # A code keeps its place in the file, so that a change of it is a small one to read.
    places = {code: at for at, code in enumerate(dict.fromkeys(row.code for row in (*old, *rows)))}
    single = sorted([*stay, *rows], key=lambda row: (places[row.code], row.seeds))
    merged = over_seeds(single)
    results = Results(
        command=command,
        commit=commit(),
        hardware=hardware,
        date=datetime.now(timezone.utc).date().isoformat(),
        rows=tuple(merged),
        by_seed=tuple(single) if len(merged) < len(single) else (),
    )
    new = path.with_suffix(".new")
    new.write_text(dumps(results), encoding="utf-8")
    os.replace(new, path)
    return results


def dumps(results: Results) -> str:
    """Return the file's text: a line a row, shares to five digits."""
    document = _rounded(results.model_dump(mode="json"))
    assert isinstance(document, dict)
    parts = []
    for name, value in document.items():
        if name in ("rows", "by_seed") and value:
            lines = ",\n".join(f"    {json.dumps(row)}" for row in value)
            parts.append(f'  "{name}": [\n{lines}\n  ]')
        else:
            parts.append(f'  "{name}": {json.dumps(value)}')
    return "{\n" + ",\n".join(parts) + "\n}\n"


@cache
def commit() -> str:
    """Return the checkout's commit, with "-dirty" if anything but results and pages differs from it.

    "unknown" outside a checkout. Asked once a process, at its start: later the tree may be another than
    the code that runs.
    """
    root = Path(__file__).parents[2]
    try:
        head = _git(root, "rev-parse", "--short=12", "HEAD")
        changed = _git(root, "status", "--porcelain", "--", ".", ":!train/results/*.json", ":!*.md")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"
    return f"{head}-dirty" if changed else head


def cpu_model() -> str:
    """Return the processor's name, as the kernel tells it, or the architecture's."""
    import platform

    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else platform.processor() or platform.machine()


def _git(root: Path, *arguments: str) -> str:
    done = subprocess.run(["git", *arguments], cwd=root, capture_output=True, text=True, check=True)
    return done.stdout.strip()


def _rounded(value: object) -> object:
    if isinstance(value, float):
        return round(value, _DIGITS)
    if isinstance(value, list):
        return [_rounded(item) for item in value]
    if isinstance(value, dict):
        return {name: _rounded(item) for name, item in value.items()}
    return value
