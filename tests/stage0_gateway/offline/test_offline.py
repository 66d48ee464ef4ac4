import logging

import httpx
import pytest

from stage0_gateway.offline import NOTICE, OfflineModel


async def test_the_notice_is_logged_once_for_each_model(caplog: pytest.LogCaptureFixture) -> None:
    for model in (OfflineModel(), OfflineModel()):
        async with httpx.AsyncClient(transport=model) as client:
            await client.get("http://offline/v1/models")
            await client.get("http://offline/v1/models")
    assert caplog.record_tuples == [("stage0_gateway", logging.WARNING, NOTICE)] * 2
    assert "\n" not in NOTICE
