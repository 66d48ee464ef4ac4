"""Fixtures that several tests of the gateway use."""

import pytest

from stage0_gateway.http.pool import Pool


@pytest.fixture(params=["httpx", "aiohttp"])
def network(request):
    """The class of each network transport."""
    if request.param == "httpx":
        return Pool
    pytest.importorskip("httpx_aiohttp", reason="the extra [fast] (httpx-aiohttp) is not installed")
    from stage0_gateway.http.fast import FastTransport

    return FastTransport
