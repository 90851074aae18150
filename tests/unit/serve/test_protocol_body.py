"""Reading a body: whole, within the limit, and without holding what is above it."""

import pytest
from fastapi import Request

from parm_ray.core.errors import InvalidInput, PayloadTooLarge
from parm_ray.serve.body import read_body

LIMIT = 10


class Client:
    """Sends chunks one by one, and then leaves, when `leaves`, or has sent all."""

    def __init__(self, *chunks, length=None, leaves=False):
        self.sent = 0
        self._messages = [
            {"type": "http.request", "body": chunk, "more_body": leaves or i + 1 < len(chunks)}
            for i, chunk in enumerate(chunks)
        ]
        if leaves:
            self._messages.append({"type": "http.disconnect"})
        headers = [] if length is None else [(b"content-length", length.encode("latin-1"))]
        self.request = Request({"type": "http", "method": "POST", "headers": headers}, self._receive)

    async def _receive(self):
        message = self._messages[self.sent]
        self.sent += 1
        return message


async def test_a_body_of_one_chunk_is_that_chunk():
    chunk = b"0123456789"
    assert await read_body(Client(chunk, length="10").request, LIMIT) is chunk
    assert await read_body(Client(chunk, b"").request, LIMIT) is chunk


@pytest.mark.parametrize("chunks", [[b"a", b"bc", b"", b"defg"], [b"abcdefg"], [b""] * 5 + [b"abcdefg"]])
async def test_chunks_are_put_together(chunks):
    assert await read_body(Client(*chunks).request, LIMIT) == b"abcdefg"


async def test_no_body_is_an_empty_one():
    assert await read_body(Client(b"").request, LIMIT) == b""


@pytest.mark.parametrize("length", [None, "11", "5"])
@pytest.mark.parametrize("chunks", [[b"0" * 11], [b"0" * 10, b"0"], [b"0"] * 11])
async def test_a_body_above_the_limit_is_refused_after_it_was_read(chunks, length):
    client = Client(*chunks, length=length)
    with pytest.raises(PayloadTooLarge, match="body: expected at most 10 bytes"):
        await read_body(client.request, LIMIT)
    assert client.sent == len(chunks)


async def test_an_endless_body_is_not_read_to_its_end():
    client = Client(*[b"0" * 5] * 1000)
    with pytest.raises(PayloadTooLarge):
        await read_body(client.request, LIMIT)
    assert client.sent == 9


@pytest.mark.parametrize("length", ["", "-1", "x", "1.5", "+1", "²", "1, 1", "1" + "x" * 999])
async def test_a_length_that_is_none_is_refused(length):
    with pytest.raises(InvalidInput, match="content-length: expected a number of bytes") as refused:
        await read_body(Client(b"", length=length).request, LIMIT)
    assert len(str(refused.value)) < 200


@pytest.mark.parametrize(("length", "expected"), [("9", "9 bytes"), (None, "all bytes")])
async def test_a_client_that_leaves_early_is_refused_and_is_no_server_error(length, expected):
    with pytest.raises(InvalidInput, match="3 and no more") as refused:
        await read_body(Client(b"abc", length=length, leaves=True).request, LIMIT)
    assert (refused.value.field, refused.value.expected) == ("body", expected)
