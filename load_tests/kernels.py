"""Times the kernels of the codes: encoding, decoding, and from request bytes to parity bytes.

    python -m load_tests.kernels [--repeats N] [--json]

Images of 224 x 224 x 3 bytes, one per query; outputs of 1000 classes in float32. Everything goes through
`Code.encode` and `Code.decode`, as in serving, and beside it runs what one would write without them. All
rows take turns in one run, so that a machine whose speed drifts drifts for all of them; in each turn a
kernel runs a few times unmeasured and then a few times measured, and the figure is the median over all
turns. Results are compared before anything is timed.

Numpy "from the bytes" is slow where its float32 arrays come fresh from the operating system each time:
that is glibc's doing, and goes away with MALLOC_TRIM_THRESHOLD_ and MALLOC_MMAP_THRESHOLD_ at 100000000.
`Code.encode` makes no array but the parity.

"paper" is what Kosaian, Rashmi, Venkataraman, "Parity Models" (SOSP 2019) report for the kernel on their
machine. OpenCV keeps its own number of threads: it splits no work as small as these images, and setting
one thread changes no row.
"""

from __future__ import annotations

import json
import pickle
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any

import cv2
import numpy as np
import typer
from numpy.typing import NDArray
from rich import box
from rich.console import Console
from rich.table import Table

from parm_ray.codes import cells, make_code

Array = NDArray[Any]

IMAGE = (224, 224, 3)
CLASSES = 1000
PAPER_ENCODE_US = {2: 93.0, 3: 153.0, 4: 193.0}
PAPER_DECODE_US = {2: 8.0, 3: 14.0, 4: 19.0}
SUM_TARGET_US = {2: 40.0, 3: 60.0, 4: 80.0}
CONCAT_TARGET_US = 150.0
DECODE_TARGET_US = 3.0
UNMEASURED, MEASURED = 2, 3


@dataclass
class Kernel:
    """One row: what runs, how often per measurement, and what its time should be."""

    title: str
    k: int
    run: Callable[[], Any]
    target_us: float | None = None
    paper_us: float | None = None
    calls: int = 1
    samples_us: list[float] = field(default_factory=list)

    def turn(self) -> None:
        """Run `MEASURED` measurements after some unmeasured runs that bring code and data near."""
        for _ in range(UNMEASURED):
            self.run()
        for _ in range(MEASURED):
            began = time.perf_counter_ns()
            for _ in range(self.calls):
                self.run()
            self.samples_us.append((time.perf_counter_ns() - began) / 1e3 / self.calls)

    def row(self) -> dict[str, Any]:
        """The figures so far, in microseconds."""
        p10, median, p90 = np.percentile(self.samples_us, [10, 50, 90])
        return {
            "kernel": self.title,
            "k": self.k,
            "median_us": round(float(median), 2),
            "p10_us": round(float(p10), 2),
            "p90_us": round(float(p90), 2),
            "target_us": self.target_us,
            "paper_us": self.paper_us,
            "within_target": None if self.target_us is None else bool(median <= self.target_us),
        }


def sum_kernels(queries: Sequence[Array]) -> list[Kernel]:
    """Encoding a sum, and float32 numpy with and without making the float32 arrays."""
    k = len(queries)
    code = make_code("sum", "subtract", k)
    floats = [query.astype(np.float32) for query in queries]

    def adds() -> Array:
        total = floats[0] + floats[1]
        for query in floats[2:]:
            total += query
        return total

    def casts_and_adds() -> Array:
        total = queries[0].astype(np.float32)
        for query in queries[1:]:
            total += query.astype(np.float32)
        return total

    def widens_and_adds() -> Array:
        total = queries[0].astype(np.uint16)
        for query in queries[1:]:
            total += query
        return total

    parity = code.encode(queries)[0]
    assert np.array_equal(parity, adds())
    assert np.array_equal(parity, widens_and_adds())
    assert np.array_equal(parity, code.encode(floats)[0])
    assert np.array_equal(parity, casts_and_adds())
    return [
        Kernel("encode sum", k, lambda: code.encode(queries), SUM_TARGET_US[k], PAPER_ENCODE_US[k]),
        Kernel("  the same call on float32 queries", k, lambda: code.encode(floats)),
        Kernel("  numpy, uint8 ready: uint16, adds", k, widens_and_adds),
        Kernel("  numpy, float32 arrays ready: adds", k, adds),
        Kernel("  numpy, from the bytes: float32, adds", k, casts_and_adds),
    ]


def concat_kernels(queries: Sequence[Array]) -> list[Kernel]:
    """Encoding a concatenation, and OpenCV making the same cells."""
    k = len(queries)
    code = make_code("concat", "slot", k)

    def resize() -> Array:
        parity = np.empty(IMAGE, np.uint8)
        for query, cell in zip(queries, cells(k, *IMAGE[:2]), strict=True):
            size = (cell.right - cell.left, cell.bottom - cell.top)
            tile = parity[cell.top : cell.bottom, cell.left : cell.right]
            cv2.resize(query[0], size, tile, interpolation=cv2.INTER_AREA)
        return parity

    assert np.array_equal(code.encode(queries)[0][0], resize())
    return [
        Kernel("encode concat", k, lambda: code.encode(queries), CONCAT_TARGET_US),
        Kernel("  cv2.resize INTER_AREA, same cells", k, resize),
    ]


def decode_kernels(outputs: Sequence[Array]) -> list[Kernel]:
    """Decoding the one missing output of a sum, and the bare subtractions."""
    k = len(outputs)
    code = make_code("sum", "subtract", k)
    parity = code.target(0, outputs)
    arrived, parities, lengths, wanted = [None, *outputs[1:]], [parity], [1] * k, (0,)

    def subtract() -> Array:
        result = parity - outputs[1]
        for output in outputs[2:]:
            result -= output
        return result

    def decode() -> Any:
        return code.decode(arrived, parities, lengths, wanted)

    assert np.array_equal(decode()[0], subtract())
    return [
        Kernel("decode sum", k, decode, DECODE_TARGET_US, PAPER_DECODE_US[k], calls=20),
        Kernel("  numpy, subtractions", k, subtract, calls=20),
    ]


def wire_kernels(bodies: Sequence[bytes]) -> list[Kernel]:
    """From k request bodies to the bytes that a parity replica is sent, all copies included.

    Bodies are read where they lie, encoding writes the parity, and pickling it in-band copies it once.
    """

    def queries() -> list[Array]:
        return [np.frombuffer(body, np.uint8).reshape(1, *IMAGE) for body in bodies]

    def kernel(encoder: str, decoder: str) -> Kernel:
        code = make_code(encoder, decoder, len(bodies))

        def wire() -> bytes:
            return pickle.dumps(code.encode(queries()), protocol=5)

        assert np.array_equal(pickle.loads(wire()), code.encode(queries()))
        return Kernel(f"request to parity bytes, {encoder}", len(bodies), wire)

    return [kernel("sum", "subtract"), kernel("concat", "slot")]


def measure(repeats: int) -> list[dict[str, Any]]:
    """Return a row per kernel; `repeats` turns of each."""
    random = np.random.default_rng(0)
    queries = [random.integers(0, 256, (1, *IMAGE), dtype=np.uint8) for _ in range(4)]
    # Whole numbers, so that taking a sum apart gives every digit back.
    outputs = [random.integers(-99, 100, (1, CLASSES)).astype(np.float32) for _ in range(4)]
    kernels = [
        *(kernel for k in (2, 3, 4) for kernel in sum_kernels(queries[:k])),
        *(kernel for k in (2, 4) for kernel in concat_kernels(queries[:k])),
        *(kernel for k in (2, 3, 4) for kernel in decode_kernels(outputs[:k])),
        *(kernel for k in (2, 3, 4) for kernel in wire_kernels([query.tobytes() for query in queries[:k]])),
    ]
    for _ in range(repeats):
        for kernel in kernels:
            kernel.turn()
    return [kernel.row() for kernel in kernels]


def table(rows: Sequence[dict[str, Any]]) -> Table:
    """The rows for a terminal."""
    result = Table(box=box.SIMPLE_HEAD, title="Kernels of the codes, microseconds", title_justify="left")
    result.add_column("kernel", no_wrap=True)
    for title in ("k", "median", "p10..p90", "target", "paper"):
        result.add_column(title, justify="right", no_wrap=True)
    result.add_column("")
    for row in rows:
        verdict = {True: "[green]PASS[/]", False: "[red]over[/]", None: ""}[row["within_target"]]
        result.add_row(
            row["kernel"],
            str(row["k"]),
            f"{row['median_us']:.1f}",
            f"{row['p10_us']:.1f}..{row['p90_us']:.1f}",
            *("" if row[key] is None else f"{row[key]:g}" for key in ("target_us", "paper_us")),
            verdict,
        )
    return result


def main(
    repeats: Annotated[int, typer.Option(min=1, help="turns of each kernel")] = 300,
    as_json: Annotated[bool, typer.Option("--json", help="print JSON")] = False,
) -> None:
    """Time the kernels of the codes against their targets and the paper's figures."""
    rows = measure(repeats)
    command = " ".join(["python -m load_tests.kernels", *sys.argv[1:]])
    if as_json:
        print(json.dumps({"command": command, "rows": rows}, indent=2))
        return
    console = Console()
    console = console if console.is_terminal else Console(width=110)
    console.print(table(rows))
    print(command)


if __name__ == "__main__":
    typer.run(main)
