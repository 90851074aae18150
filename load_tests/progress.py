"""What a person sees while a load test runs: bars on a terminal, lines in a log. Always on stderr."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from load_tests.client import Reply, SendFailed
from load_tests.phase import OnDone
from parm_ray.core import Clock, monotonic


class Reporter:
    """Announces steps. Redraws rarely: drawing costs CPU, and this process is also the load generator."""

    def __init__(self, console: Console, clock: Clock = monotonic) -> None:
        self.console = console
        self._clock = clock

    @contextmanager
    def step(self, words: str) -> Iterator[None]:
        """A step without a known length; says how long it took."""
        began = self._clock()
        with self.console.status(f"{words} ...", refresh_per_second=4):
            yield
        self._say(f"[green]done[/] {words} [dim]({self._clock() - began:.1f} s)[/]")

    @contextmanager
    def load(self, words: str, queries: int) -> Iterator[OnDone]:
        """A bar that counts queries as they end (in a log, lines). Yields what to call for each."""
        terminal, ended = self.console.is_terminal, 0
        counts = {"reconstructed": 0, "failed": 0}
        columns = (
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("[dim]{task.fields[note]}"),
        )

        with Progress(
            *columns, console=self.console, refresh_per_second=2, transient=True, disable=not terminal
        ) as bar:
            task = bar.add_task(words, total=queries, note="")

            def on_done(result: Reply | SendFailed) -> None:
                nonlocal ended
                ended += 1
                if isinstance(result, SendFailed) or result.status != 200:
                    counts["failed"] += 1
                elif result.headers.get("x-parm-outcome") == "reconstructed":
                    counts["reconstructed"] += 1
                note = ", ".join(f"{n} {kind}" for kind, n in counts.items() if n)
                bar.update(task, advance=1, note=note)
                if not terminal and ended % max(1, queries // 4) == 0 and ended < queries:
                    self._say(f"     {words}: {ended} of {queries}")

            yield on_done
        note = ", ".join(f"{n} {kind}" for kind, n in counts.items())
        self._say(f"[green]done[/] {words}: {queries} queries, {note}")

    def _say(self, words: str) -> None:
        self.console.print(words, soft_wrap=True, highlight=False)
