"""The README's examples run, and its tables name the codes that there are."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import parm_ray.codes as codes
from parm_ray.codes import list_codes, registry

TEXT = (Path(codes.__file__).parent / "README.md").read_text()
ENCODERS = TEXT.partition("| decoder |")[0]
BLOCKS = re.findall(r"^```python\n(.*?)^```", TEXT, re.M | re.S)


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_python_blocks_run(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_encoders", dict(registry._encoders))
    names: dict[str, Any] = {}
    exec(compile(block, "README.md", "exec"), names)


def test_there_are_blocks_and_one_row_per_encoder() -> None:
    assert len(BLOCKS) == 3
    for row in list_codes():
        [line] = re.findall(rf"^\| `{row['encoder']}` \|.*$", ENCODERS, re.M)
        assert f"| {row['k']} | {row['r']} |" in line
        assert f"`{row['decoder']}`" in line


def test_every_file_is_named() -> None:
    named = set(re.findall(r"`(\w+\.py)`", TEXT))
    assert {path.name for path in Path(codes.__file__).parent.glob("*.py")} - {"__init__.py"} <= named


def test_exported_names_are_there() -> None:
    assert all(hasattr(codes, name) for name in codes.__all__)
    assert sorted(codes.__all__) == list(codes.__all__)
