"""Service times from a running application's observations."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from typing import Any

import numpy as np
import pytest

from parm_ray.cli.service_times import read_application
from parm_ray.core import ConfigError
from tests.unit.advisor.test_observed_workloads import page


@pytest.fixture
def serve() -> Iterator[Any]:
    """A server of one page: give it the page, get its address."""
    body: list[bytes] = []

    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.end_headers()
            self.wfile.write(body[-1])

        def log_message(self, *args: Any) -> None:
            pass

    server = HTTPServer(("127.0.0.1", 0), Handler)
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield lambda what: body.append(json.dumps(what).encode()) or f"http://127.0.0.1:{server.server_port}/x"
    server.shutdown()
    thread.join()
    server.server_close()


def test_times_pairs_rate_and_replicas_are_those_of_the_page(serve) -> None:
    seen = page([1.0] * 10, pairs=[[1.0, 2.0]])
    seen["calls"]["deployed"]["running_s"] = [9.0]
    found = read_application(serve(seen))
    assert found.service.values.tolist() == [1.0, 9.0]
    np.testing.assert_array_equal(found.pairs, [[1, 2]])
    assert (found.rate, found.replicas) == (20.0, 6)
    assert found.notes == (
        "the rate is what this ingress replica saw: with several, give --rate",
        "1 calls were cut off or still run, and count as longer",
    )


@pytest.mark.parametrize(
    ("what", "words"),
    [
        ({"a": 1}, "expected observations"),
        ([1], "expected observations"),
        (page([]), r"calls\.deployed"),
        (page([1.0], pools={}), "pools"),
    ],
)
def test_other_pages_are_refused(serve, what, words) -> None:
    with pytest.raises(ConfigError, match=words):
        read_application(serve(what))
