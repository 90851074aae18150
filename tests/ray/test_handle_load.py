"""Open-loop load by handle, from a driver process connected to a real Serve application.

The driver is this file run as a program: connecting the tests' own process to the cluster would bind
everything else in it to that cluster as well.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

import numpy as np

from load_tests.records import ClientRecord, read_csv
from parm_ray.core import Outcome
from tests.support.driver_process import run_driver

QUERIES = 40


def drive(server, tmp_path: Path, *words: str) -> list[ClientRecord]:
    """Run the driver on QUERIES of the server's images and return its records."""
    np.savez(tmp_path / "queries.npz", images=server.images[:QUERIES], labels=server.labels[:QUERIES])
    run_driver(server, __file__, tmp_path, *words)
    return read_csv(tmp_path / "records.csv")


def test_records_by_handle_have_the_groups_and_answers_of_the_application(server, tmp_path):
    before = server.stats()
    records = drive(server, tmp_path)
    assert [r.query for r in records] == list(range(QUERIES))
    assert all(r.answered for r in records), {r.error for r in records}
    assert {r.status for r in records} == {200}
    assert sum(bool(r.correct) for r in records) >= 0.92 * QUERIES
    # Groups of two: every group at most twice, each time in another slot.
    assert {r.slot for r in records} == {0, 1}
    assert len({(r.group, r.slot) for r in records}) == QUERIES
    assert all(0 <= r.planned <= r.sent <= r.done for r in records)
    assert all((r.lateness_ms == 0) == (r.outcome is Outcome.ORIGINAL) for r in records)
    after = server.stats()
    answered = sum(after["outcomes"].values()) - sum(before["outcomes"].values())
    assert answered == QUERIES + 8
    seen = {outcome: sum(r.outcome == outcome for r in records) for outcome in after["outcomes"]}
    for outcome, n in seen.items():
        assert after["outcomes"][outcome] - before["outcomes"][outcome] >= n


def test_what_the_application_refuses_is_a_failed_record_with_its_words(server, tmp_path):
    records = drive(server, tmp_path, "refused")
    assert {r.outcome for r in records} == {Outcome.FAILED}
    assert {r.status for r in records} == {0}
    assert all(r.error.startswith("InvalidInput: ") and "deadline_ms" in r.error for r in records)


async def _load(folder: Path, refused: bool) -> list[ClientRecord]:
    from ray import serve

    from load_tests.client import open_loop
    from load_tests.handle_target import HandleTarget, to_records
    from load_tests.phase import LabelledImages
    from parm_ray.core import monotonic
    from parm_ray.workload import poisson

    queries = LabelledImages.load(folder / "queries.npz")
    arguments = {"deadline_ms": "soon"} if refused else {}
    target = HandleTarget(serve.get_app_handle("parm"), lambda i: queries.images[i], 30, **arguments)
    await target.warm_up(0 if refused else 8)
    planned = poisson(40, np.random.default_rng(0), n=len(queries.images)).tolist()
    return to_records(await open_loop(planned, target, start=monotonic() + 0.2), queries.labels.tolist())


def main(address: str, folder: Path, refused: bool) -> None:
    import ray

    from load_tests.records import write_csv

    ray.init(address, log_to_driver=False)
    try:
        write_csv(folder / "records.csv", asyncio.run(_load(folder, refused)))
    finally:
        ray.shutdown()


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), "refused" in sys.argv[3:])
