"""Reads a request body without ever holding more of it than is allowed."""

from __future__ import annotations

from fastapi import Request
from starlette.requests import ClientDisconnect

from parm_ray.core.errors import InvalidInput, PayloadTooLarge

# A refusal sent while the client still writes is lost in a connection reset, so what follows is read
# and dropped, up to this many times the limit.
_DRAIN = 4


async def read_body(request: Request, limit: int) -> bytes:
    """Return the body. Raises PayloadTooLarge above `limit` bytes, announced or streamed.

    Raises InvalidInput when the client goes away before its end.
    """
    announced = request.headers.get("content-length")
    if announced is not None and not (announced.isascii() and announced.isdigit()):
        raise InvalidInput("content-length", "a number of bytes", repr(announced)[:60])
    chunks: list[bytes] = []
    size = 0
    try:
        async for chunk in request.stream():
            size += len(chunk)
            if size <= limit:
                if chunk:
                    chunks.append(chunk)
            else:
                chunks.clear()
                if size > _DRAIN * limit:
                    break
    except ClientDisconnect:
        raise InvalidInput("body", f"{announced or 'all'} bytes", f"{size} and no more") from None
    if size > limit:
        got = f"{announced[:20] if announced else 'more'} bytes"
        raise PayloadTooLarge("body", f"at most {limit} bytes", got)
    # A single chunk is not copied.
    return b"".join(chunks)
