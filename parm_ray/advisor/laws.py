"""Laws of service times by name, as people write them: `bimodal(fast=0.05, slow=0.5, slow_share=0.02)`."""

from __future__ import annotations

import inspect
import re

from parm_ray.stats.families import (
    Bimodal,
    Deterministic,
    Exponential,
    Family,
    Gamma,
    Hyperexponential,
    LogNormal,
    Pareto,
    ShiftedExponential,
    Uniform,
    Weibull,
)

LAWS: dict[str, type[Family]] = {
    "bimodal": Bimodal,
    "deterministic": Deterministic,
    "exponential": Exponential,
    "gamma": Gamma,
    "hyperexponential": Hyperexponential,
    "log_normal": LogNormal,
    "pareto": Pareto,
    "shifted_exponential": ShiftedExponential,
    "uniform": Uniform,
    "weibull": Weibull,
}

_CALL = re.compile(r"\s*([a-z_]+)\s*\((.*)\)\s*")


def parse_law(words: str) -> Family:
    """Return the law; parameters in seconds, rates per second, by name; a pair is written as `1/0.1`.

    Raises ValueError that names the law or the parameter.
    """
    known = ", ".join(f"{name}({', '.join(_parameters(law))})" for name, law in LAWS.items())
    found = _CALL.fullmatch(words)
    if found is None or found[1] not in LAWS:
        raise ValueError(f"law: expected one of {known}, got {words!r}")
    law = LAWS[found[1]]
    given: dict[str, float | tuple[float, ...]] = {}
    for part in filter(None, (part.strip() for part in found[2].split(","))):
        name, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or name not in _parameters(law):
            raise ValueError(f"law: {found[1]}: expected {', '.join(_parameters(law))}, got {part!r}")
        try:
            numbers = tuple(float(piece) for piece in value.split("/"))
        except ValueError:
            raise ValueError(f"law: {found[1]}: {name}: expected a number, got {value!r}") from None
        given[name] = numbers if len(numbers) > 1 else numbers[0]
    missing = [name for name in _parameters(law) if name not in given]
    if missing:
        raise ValueError(f"law: {found[1]}: {missing[0]}: expected a number, got none")
    try:
        return law(**given)
    except (TypeError, ValueError, OverflowError) as error:
        raise ValueError(f"law: {found[1]}: {error}") from None


def _parameters(law: type[Family]) -> list[str]:
    return [name for name in inspect.signature(law).parameters if name != "self"]
