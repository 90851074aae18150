from __future__ import annotations

from collections.abc import AsyncIterator

import pytest
from aiohttp import web
from contract_server import ContractServer


@pytest.fixture
async def server() -> AsyncIterator[ContractServer]:
    contract = ContractServer()
    runner = web.AppRunner(contract.app(), shutdown_timeout=0.1)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    contract.base_url = "http://127.0.0.1:{}".format(*runner.addresses[0][1:2])
    yield contract
    await runner.cleanup()
