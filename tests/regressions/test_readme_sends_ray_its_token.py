"""`ray start` of Ray 2.60 makes a cluster that wants a token, and `serve deploy` sends none by default: the
README's commands, typed as they stood, ended in AuthenticationError."""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
PAGES = [p for p in (ROOT / "README.md", *(ROOT / "serve_configs").glob("*")) if p.is_file()]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_a_page_that_starts_ray_says_how_it_authenticates(page: Path) -> None:
    text = page.read_text(encoding="utf-8")
    starts = text.find("ray start --head")
    assert starts < 0 or 0 <= text.find("export RAY_AUTH_MODE=") < starts
