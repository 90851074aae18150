"""Another Serve application that asks the model by handle, as a user's own service would."""

import numpy as np
from ray import serve
from ray.serve import Application
from starlette.requests import Request

from parm_ray.core import InvalidInput, ParmError


@serve.deployment(ray_actor_options={"num_cpus": 0.1})
class Caller:
    """POST raw pixels; answers with what the handle's typed prediction says."""

    def __init__(self, app: str) -> None:
        self._model = serve.get_app_handle(app)

    async def __call__(self, request: Request) -> dict:
        options = dict(request.query_params)
        pixels = np.frombuffer(await request.body(), np.uint8)
        side = int(options.get("side", 8))
        try:
            prediction = await self._model.infer.remote(
                pixels.reshape(side, side, -1), redundancy=options.get("redundancy") != "off"
            )
        except ParmError as error:
            return {"error": str(error), "invalid_input": isinstance(error, InvalidInput)}
        return {
            "output": prediction.output.tolist(),
            "outcome": prediction.outcome.value,
            "reconstructed": prediction.reconstructed,
            "group": prediction.group,
            "slot": prediction.slot,
        }


def build(args: dict) -> Application:
    """`args: {app: name of the model's application}`."""
    return Caller.bind(args["app"])
