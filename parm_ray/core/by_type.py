"""Methods chosen by the exact type of their argument.

`functools.singledispatchmethod` does the same and builds a wrapper at every call, which takes longer than
most of the methods it would choose between here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

F = TypeVar("F", bound=Callable[..., Any])


class ByType:
    """Filled in by decorating methods in a class body; looked up by that class's one public method."""

    def __init__(self) -> None:
        self._methods: dict[type, Callable[..., Any]] = {}

    def __call__(self, *kinds: type) -> Callable[[F], F]:
        """Register the decorated method for arguments of these types."""

        def register(method: F) -> F:
            self._methods.update(dict.fromkeys(kinds, method))
            return method

        return register

    def find(self, argument: object) -> Callable[..., Any] | None:
        """Return the (unbound) method for that argument, None if there is none."""
        return self._methods.get(type(argument))
