"""The boxes of the page."""

from __future__ import annotations

from collections.abc import Sequence
from html import escape


def section(title: str, words: str, *parts: str) -> str:
    """A box with a title, an explanation, and parts that are HTML already; nothing if no part is."""
    if not any(parts):
        return ""
    lead = f"<p>{escape(words)}</p>" if words else ""
    return f"<section><h2>{escape(title)}</h2>{lead}{''.join(parts)}</section>"


def sentences(kind: str, title: str, lines: Sequence[str]) -> str:
    """A box of sentences, of a CSS class of its own; nothing if there are none."""
    if not lines:
        return ""
    body = "".join(f"<p>{escape(line)}</p>" for line in lines)
    return f'<section class="{kind}"><h2>{escape(title)}</h2>{body}</section>'
