"""A page from a template beside the code that fills it, in the style that all pages have in common."""

from __future__ import annotations

from pathlib import Path
from string import Template


def filled(template: Path, **parts: object) -> str:
    """Return the template with `$name` replaced by each part, HTML, and `$style` by the style sheet.

    Raises KeyError for a name without a part.
    """
    style = (Path(__file__).parent / "style.css").read_text(encoding="utf-8")
    return Template(template.read_text(encoding="utf-8")).substitute(style=style, **parts)
