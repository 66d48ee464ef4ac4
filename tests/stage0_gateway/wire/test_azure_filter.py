"""Azure's content filter: a blocked reply is a refusal with its token counts."""

import pytest

from stage0_gateway import Gateway, MalformedResponse, Usage
from tests.stage0_gateway.replies import DONE, event
from tests.stage0_gateway.requests import ask, each_method
from tests.stage0_gateway.servers import Answers
from tests.tables import for_each

USAGE = {"prompt_tokens": 3, "completion_tokens": 4}
BLOCKED = {
    "hate": {"filtered": False, "severity": "safe"},
    "violence": {"filtered": True, "severity": "high"},
}
PASSED = {"hate": {"filtered": False, "severity": "safe"}}
FAILED = {"error": {"code": "content_filter_error", "message": "The contents are not filtered"}}


async def reply(*choices, method="chat"):
    """Return the reply to one choice in a whole body, or to the choices of a stream."""
    whole = {"choices": [*choices], "usage": USAGE}
    chunks = [{"choices": [{"index": 0, **choice}]} for choice in choices]
    stream = [*map(event, [*chunks, {"choices": [], "usage": USAGE}]), DONE]
    server = Answers(whole if method == "chat" else stream)
    return await ask(Gateway("openai:m", transport=server), method)


@each_method
@for_each(
    "choice, reason",
    [
        ({"finish_reason": "content_filter", "content_filter_results": BLOCKED}, "violence"),
        ({"finish_reason": None, "content_filter_results": BLOCKED}, "violence"),
        ({"finish_reason": "stop", "content_filter_result": BLOCKED}, "violence"),
    ],
)
async def test_a_blocked_choice_without_a_message_is_a_refusal_with_its_usage(
    choice, reason, method
):
    response = await reply(choice, method=method)
    assert (response.finish_reason, response.block_reason, response.content) == (
        "refusal",
        reason,
        "",
    )
    assert (response.raw_finish_reason, response.usage) == (choice["finish_reason"], Usage(3, 4))


@for_each(
    "choice",
    [
        {"finish_reason": "content_filter"},
        {"finish_reason": "content_filter", "message": None},
        {"finish_reason": "content_filter", "content_filter_result": FAILED},
        {"finish_reason": "stop", "content_filter_results": PASSED},
    ],
)
async def test_a_choice_without_a_message_but_with_a_filter_result_is_a_refusal(choice):
    response = await reply(choice)
    assert (response.finish_reason, response.block_reason) == ("refusal", "content_filter")


@each_method
async def test_a_reply_that_passed_the_filter_is_decoded_normally(method):
    content = {"content": "yes"}
    choice = {
        "message": content,
        "delta": content,
        "finish_reason": "stop",
        "content_filter_results": PASSED,
    }
    response = await reply(choice, method=method)
    assert (response.finish_reason, response.block_reason, response.content) == (
        "stop",
        None,
        "yes",
    )


async def test_a_blocked_stream_keeps_the_text_before_the_block():
    blocked = {"delta": {}, "finish_reason": "content_filter", "content_filter_results": BLOCKED}
    response = await reply({"delta": {"content": "ye"}}, blocked, method="stream")
    assert (response.finish_reason, response.block_reason, response.content) == (
        "refusal",
        "violence",
        "ye",
    )


async def test_a_choice_without_a_message_and_without_a_filter_is_malformed():
    with pytest.raises(MalformedResponse, match="not a reply in the openai format"):
        await reply({"finish_reason": "stop"})
