"""Reads a request body without ever holding more of it than is allowed."""

from __future__ import annotations

from fastapi import Request

from parm_ray.core.errors import InvalidInput, PayloadTooLarge


async def read_body(request: Request, limit: int) -> bytes:
    """Return the body. Raises PayloadTooLarge above `limit` bytes, announced or streamed."""
    announced = request.headers.get("content-length")
    if announced is not None:
        if not announced.isdecimal():
            raise InvalidInput("content-length", "a number of bytes", repr(announced))
        if int(announced) > limit:
            raise PayloadTooLarge("body", f"at most {limit} bytes", f"{announced} bytes")
    chunks: list[bytes] = []
    size = 0
    async for chunk in request.stream():
        size += len(chunk)
        if size > limit:
            raise PayloadTooLarge("body", f"at most {limit} bytes", "more")
        chunks.append(chunk)
    return chunks[0] if len(chunks) == 1 else b"".join(chunks)
