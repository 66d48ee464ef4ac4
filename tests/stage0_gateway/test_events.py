from base64 import b64encode

import httpx

from stage0_gateway import Gateway, RateLimited, RequestEvent, ResponseEvent, RetryEvent, ScriptedModel, Usage

URL = "https://api.openai.com/v1/chat/completions"


async def test_a_request_that_is_repeated_is_told_in_order():
    events = []
    async with Gateway("openai:m", transport=ScriptedModel([429, "yes"]), on_event=events.append) as gateway:
        await gateway.chat([{"role": "user", "content": "hi"}])
    first, retry, second, response = events
    assert first == RequestEvent("m", URL, messages=1, tools=0, attempt=1)
    assert (type(retry), type(retry.error), retry.attempt, retry.wait) == (RetryEvent, RateLimited, 1, None)
    assert second == RequestEvent("m", URL, messages=1, tools=0, attempt=2)
    assert response == ResponseEvent("scripted", "stop", Usage(10, 5), response.duration)
    assert [event.name for event in events] == ["request", "retry", "request", "response"]


async def test_no_event_holds_a_key_or_a_query():
    def refuse(request: httpx.Request) -> httpx.Response:
        return httpx.Response(500, json={"error": {"message": f"I saw {request.headers['authorization']}"}})

    events = []
    gateway = Gateway(
        "openai:m",
        api_key="sk-secret",
        base_url="https://user:sk-secret@host.test/v1?key=sk-secret",
        transport=httpx.MockTransport(refuse),
        on_event=events.append,
    )
    async with gateway:
        try:
            await gateway.chat([{"role": "user", "content": "hi"}])
        except Exception as error:
            told = [repr(events), repr(error), str(error), repr(gateway)]
    basic = b64encode(b"user:sk-secret").decode()  # how a password in the URL is sent
    assert [text for text in told if "sk-secret" in text or basic in text] == []
    assert "[hidden]" in told[1]
