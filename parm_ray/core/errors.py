"""Every error this package raises on purpose. Each message names the field and what is legal."""

from __future__ import annotations


class ParmError(Exception):
    """Base of all errors of this package."""


class InvalidInput(ParmError, ValueError):
    """A caller's value is not legal. `field` is a path such as `inputs[0].shape`."""

    def __init__(self, field: str, expected: str, got: object) -> None:
        self.field = field
        self.expected = expected
        self.got = got
        super().__init__(f"{field}: expected {expected}, got {got}")

    def __reduce__(self) -> tuple[type[InvalidInput], tuple[str, str, object]]:
        return type(self), (self.field, self.expected, self.got)


class PayloadTooLarge(InvalidInput):
    """A caller's value is legal in kind but above a size limit."""


class ConfigError(ParmError, ValueError):
    """A setting or an artefact is wrong; the message carries its key path."""


class UnknownModel(ParmError, LookupError):
    """The named model (or version) is not served here."""


class Overloaded(ParmError):
    """The bounded queue is full. `retry_after_s` is a hint in seconds."""

    def __init__(self, message: str, retry_after_s: float) -> None:
        self.retry_after_s = retry_after_s
        super().__init__(message)

    def __reduce__(self) -> tuple[type[Overloaded], tuple[str, float]]:
        return type(self), (str(self), self.retry_after_s)


class DeadlineExceeded(ParmError, TimeoutError):
    """No answer, no reconstruction and no default answer by the deadline."""


class ModelFailed(ParmError):
    """The model raised, or every replica that tried the query died."""


class NotRecoverable(ParmError):
    """A decoder was asked for slots that the answers at hand do not determine."""


class IllegalEvent(ParmError):
    """An event that the state does not allow. Raised before anything has changed."""
