"""`KEY=VALUE` from a command line, on top of a YAML file's content."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any

import yaml

from parm_ray.core.errors import ConfigError


def overridden(document: Any, overrides: Sequence[str]) -> Any:
    """Return the document with values set: `shuffles.concurrent=5`, `rates=[10, 20]`.

    KEY: names joined by dots; what is not there yet is made. VALUE: YAML. Members of lists cannot be
    named, a list is replaced as a whole. Raises ConfigError naming the override.
    """
    if not overrides:
        return document
    changed = {} if document is None else copy.deepcopy(document)
    for override in overrides:
        key, equals, text = override.partition("=")
        names = key.strip().split(".")
        if not equals or not all(names):
            raise ConfigError(f"{override!r}: expected KEY=VALUE, such as shuffles.concurrent=5")
        try:
            value = yaml.safe_load(text)
        except yaml.YAMLError as error:
            raise ConfigError(f"{override!r}: not YAML ({error})") from None
        place = changed
        for depth, name in enumerate(names[:-1]):
            if isinstance(place, dict) and place.get(name) is None:
                place[name] = {}
            place = place[name] if isinstance(place, dict) else None
            if not isinstance(place, dict):
                raise ConfigError(f"{override!r}: {'.'.join(names[: depth + 1])} has no keys to set")
        place[names[-1]] = value
    return changed
