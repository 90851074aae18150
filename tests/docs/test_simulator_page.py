"""The example on the simulator's page runs as it stands."""

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]


def test_the_example_prints_a_tail_a_utilisation_and_the_extra_work() -> None:
    (code,) = re.findall(r"```python\n(.*?)```", (ROOT / "parm_ray" / "sim" / "README.md").read_text(), re.S)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, cwd=ROOT)
    p99, utilisation, extra = map(float, done.stdout.split())
    # 50 ms a call, 2 % ten times as long, 20 queries a second on four servers: 20 x 0.059 / 4.
    assert 0.05 < p99 < 0.3
    assert 0.25 < utilisation < 0.4
    assert 0 < extra < 0.2
