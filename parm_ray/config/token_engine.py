"""Settings of the emulated language-model engine."""

from __future__ import annotations

from typing import Annotated

from pydantic import Field

from parm_ray.config.strict import Count, Millis, Strict


class TokenEngineSettings(Strict):
    """`args:` of an application built by `parm_ray.serve.fleet.app:token_engine`.

    slots: sequences that a replica writes at a time. prefill_ms: to read any prompt; prompt_ms: more for each
    word of it; token_ms: between two tokens when alone; batch_slope: how much longer that is for each other
    sequence, as a share.
    """

    replicas: Count = 1
    num_cpus: Annotated[float, Field(ge=0)] = 0.1
    slots: Count = 8
    prefill_ms: Millis = 20.0
    prompt_ms: Millis = 0.5
    token_ms: Millis = 10.0
    batch_slope: Annotated[float, Field(ge=0, le=10)] = 0.05
