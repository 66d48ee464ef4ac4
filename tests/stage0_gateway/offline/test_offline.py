import logging

import httpx
import pytest

from stage0_gateway.messages import Message
from stage0_gateway.offline import NOTICE, OfflineModel
from stage0_gateway.offline.endpoint import answer_http, estimate_usage
from stage0_gateway.request import ChatRequest
from stage0_gateway.usage import Usage


async def test_the_notice_is_logged_once_for_each_model(caplog: pytest.LogCaptureFixture) -> None:
    for model in (OfflineModel(), OfflineModel()):
        async with httpx.AsyncClient(transport=model) as client:
            await client.get("http://offline/v1/models")
            await client.get("http://offline/v1/models")
    assert caplog.record_tuples == [("stage0_gateway", logging.WARNING, NOTICE)] * 2
    assert "\n" not in NOTICE


def test_what_is_not_offered_is_a_404_that_says_what_is() -> None:
    status, body = answer_http("GET", "/v1/files", b"")
    assert status == 404
    assert b"There is no GET /v1/files. There are POST /v1/chat/completions and GET /v1/models." in body


def test_usage_is_estimated_from_lengths_and_never_zero() -> None:
    request = ChatRequest("teacher", (Message.user("x" * 40), Message.user("y" * 4)))
    assert estimate_usage(request, Message.assistant("")) == Usage(11, 1)
