"""Tables of results in the pages are made from the committed files: `python -m train.results --write`."""

import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
if str(ROOT) not in sys.path:  # `train` is not installed
    sys.path.insert(0, str(ROOT))

from train.results.store import COMMITTED, load, load_all  # noqa: E402
from train.results.tables import rewritten  # noqa: E402

PAGES = [ROOT / "train" / "README.md", ROOT / "train" / "results" / "README.md", ROOT / "README.md"]


@pytest.mark.parametrize("page", PAGES, ids=["train", "results", "root"])
def test_the_tables_are_what_the_files_say(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    assert rewritten(text, load_all()) == text, "stale; run: python -m train.results --write"


def test_every_file_has_its_table() -> None:
    page = PAGES[1].read_text(encoding="utf-8")
    assert "<!-- results:begin summary -->" in PAGES[0].read_text(encoding="utf-8")
    assert [name for name in load_all() if f"<!-- results:begin {name} -->" not in page] == []


@pytest.mark.parametrize("path", sorted(COMMITTED.glob("*.json")), ids=lambda path: path.stem)
def test_every_committed_file_is_legal(path: Path) -> None:
    results = load(path)
    assert results.rows
    assert {row.recipe for row in results.rows} == {path.stem.removesuffix("_rivals")}
