"""Reads a YAML file that one pydantic model describes; mistakes are ConfigErrors that name file and key."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

import yaml
from pydantic import BaseModel, ValidationError

from parm_ray.config.overrides import overridden
from parm_ray.core.errors import ConfigError

Model = TypeVar("Model", bound=BaseModel)


def read_model(path: Path, model: type[Model], overrides: Sequence[str] = ()) -> Model:
    """Return the file's content as that model; an empty file means the defaults.

    overrides: as `overridden` takes them. Raises ConfigError with `file: key path: what is wrong`, a line
    a mistake.
    """
    try:
        document = yaml.safe_load(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from None
    except UnicodeDecodeError as error:
        raise ConfigError(f"{path}: not UTF-8 ({error.reason})") from None
    except yaml.YAMLError as error:
        raise ConfigError(f"{path}: not YAML ({error})") from None
    document = overridden(document, overrides)
    try:
        return model.model_validate({} if document is None else document)
    except ValidationError as error:
        found = [(str(path), ".".join(map(str, e["loc"])), e["msg"]) for e in error.errors()]
        raise ConfigError("\n".join(": ".join(filter(None, words)) for words in found)) from None
