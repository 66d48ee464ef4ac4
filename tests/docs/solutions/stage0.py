"""Solutions of the exercises of stage 0."""

import asyncio as _asyncio

import httpx as _httpx

from stage0_gateway import GatewayError as _GatewayError
from stage0_gateway import Usage as _Usage


def token_meter():
    total = _Usage()

    def listener(event):
        nonlocal total
        if event.name == "response" and event.usage is not None:
            total += event.usage

    return listener, lambda: total


class _BusyFirst(_httpx.AsyncBaseTransport):
    def __init__(self, times, inner):
        self.left, self.inner = times, inner

    async def handle_async_request(self, request):
        if self.left > 0:
            self.left -= 1
            return _httpx.Response(
                429, headers={"Retry-After": "0"}, json={"error": {"message": "Busy."}}
            )
        return await self.inner.handle_async_request(request)

    async def aclose(self):
        await self.inner.aclose()


def busy_first(times, inner):
    return _BusyFirst(times, inner)


async def ask_several(gateway, messages, models):
    messages = list(messages)  # an iterator could be read only once

    async def ask(model):
        try:
            return (await gateway.chat(messages, model=model)).content
        except _GatewayError as error:
            return error

    return await _asyncio.gather(*(ask(model) for model in models))
