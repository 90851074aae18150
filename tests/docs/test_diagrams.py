"""The diagrams in groups/README.md are printed from the transition tables."""

import re
from pathlib import Path

import pytest

from parm_ray.groups import CALLS, PHASES, mermaid

README = Path(__file__).parents[2] / "parm_ray" / "groups" / "README.md"


def block(name: str, table: object) -> str:
    return f"<!-- {name} -->\n```mermaid\n{mermaid(table)}\n```\n<!-- /{name} -->"


@pytest.mark.parametrize(("name", "table"), [("phases", PHASES), ("calls", CALLS)])
def test_the_diagram_is_what_the_table_says(name, table):
    found = re.search(rf"<!-- {name} -->.*<!-- /{name} -->", README.read_text(), re.S)
    assert found is not None
    assert found.group() == block(name, table), f"paste into {README.name}:\n{block(name, table)}"
