import json
from dataclasses import replace

import pytest

from stage0_gateway.messages import Message
from stage0_gateway.offline import broken_reply as replies
from stage0_gateway.offline import broken_text as texts
from stage0_gateway.parts import ToolCall
from stage0_gateway.request import ChatRequest, ToolSpec
from stage0_gateway.response import ChatResponse
from stage0_gateway.usage import Usage

WEATHER = ToolSpec(
    "get_weather",
    "Weather of a city.",
    {
        "type": "object",
        "properties": {"unit": {"type": "string"}, "city": {"type": "string"}},
        "required": ["city"],
    },
)
ASKED = ChatRequest("m", (Message.user("Weather in Lima?"),), (WEATHER,))
ARGUMENTS = '{"unit": "C", "city": "Lima"}'
CALL = ToolCall("call_1", "get_weather", ARGUMENTS)
NATIVE = ChatResponse(Message.assistant("", [CALL]), usage=Usage(40, 5))
DECISION = ChatResponse(Message.assistant(f'{{"tool": "get_weather", "arguments": {ARGUMENTS}}}'))
ANSWER = ChatResponse(Message.assistant('{"tool": null, "reply": "Sunny."}'))
WORDS = ChatResponse(Message.assistant("Sunny."), usage=Usage(40, 5))
FAULTS = [
    replies.in_json(texts.fenced),
    replies.around_json(texts.prose_around, str),
    replies.in_arguments(texts.without),
    replies.unknown_tool,
    replies.two_calls,
]


def native(*calls: ToolCall, text: str = "") -> Message:
    return Message.assistant(text, calls)


@pytest.mark.parametrize("fault", FAULTS)
def test_words_have_no_json_to_spoil(fault):
    assert fault(ASKED, WORDS) == WORDS


@pytest.mark.parametrize("fault", FAULTS[2:])
def test_a_decision_to_answer_has_no_call_to_spoil(fault):
    assert fault(ASKED, ANSWER) == ANSWER


def test_json_is_spoiled_in_each_call_or_in_the_text():
    fault = replies.in_json(str.upper)
    two = replace(NATIVE, message=native(CALL, replace(CALL, id="call_2")))
    loud = ToolCall("call_1", "get_weather", ARGUMENTS.upper())
    assert fault(ASKED, two) == replace(two, message=native(loud, replace(loud, id="call_2")))
    assert fault(ASKED, DECISION).content == DECISION.content.upper()


def test_what_stands_around_json_stands_beside_a_native_call():
    fault = replies.around_json(texts.prose_around, lambda arguments: f"Let me see {arguments}.")
    assert fault(ASKED, NATIVE).message == native(CALL, text=f"Let me see {ARGUMENTS}.")
    assert fault(ASKED, ANSWER).content == texts.prose_around(ANSWER.content)


@pytest.mark.parametrize("request_", [ASKED, replace(ASKED, tools=())], ids=["a tool in sight", "no tool"])
def test_the_first_required_argument_is_spoiled_else_the_first(request_):
    spoiled = replies.in_arguments(texts.without)(request_, NATIVE).tool_calls[0]
    assert spoiled == replace(CALL, arguments='{"unit": "C"}' if request_.tools else '{"city": "Lima"}')


def test_a_call_without_arguments_stays_as_it_was():
    bare = replace(NATIVE, message=native(replace(CALL, arguments="{}")))
    assert replies.in_arguments(texts.renamed)(ASKED, bare) == bare


FORM = replace(ASKED, tools=(), response_schema=WEATHER.parameters)
FILLED = ChatResponse(Message.assistant(ARGUMENTS))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (texts.renamed, '{"unit": "C", "city_name": "Lima"}'),
        (texts.retyped, '{"unit": "C", "city": ["Lima"]}'),
        (texts.without, '{"unit": "C"}'),
    ],
)
def test_in_a_reply_by_schema_the_first_required_field_is_spoiled(change, text):
    assert replies.in_arguments(change)(FORM, FILLED).content == text


def test_a_reply_by_schema_without_fields_stays_as_it_was():
    for text in ("{}", "[1]", "Sunny."):
        reply = ChatResponse(Message.assistant(text))
        assert replies.in_arguments(texts.without)(FORM, reply) == reply


def test_a_call_on_the_way_to_a_reply_by_schema_is_spoiled_as_a_call():
    request = replace(ASKED, response_schema={"type": "object"})
    reply = replace(NATIVE, message=native(CALL, text=ARGUMENTS))
    spoiled = replies.in_arguments(texts.without)(request, reply)
    assert spoiled.message == native(replace(CALL, arguments='{"unit": "C"}'), text=ARGUMENTS)


def test_an_unknown_tool_is_like_a_known_one():
    assert replies.unknown_tool(ASKED, NATIVE).message == native(replace(CALL, name="get_weather_v2"))
    assert json.loads(replies.unknown_tool(ASKED, DECISION).content)["tool"] == "get_weather_v2"


@pytest.mark.parametrize(("first", "second"), [("call_1", "call_2"), ("a", "a_again")])
def test_a_second_call_has_an_id_of_its_own(first, second):
    one = replace(CALL, id=first)
    twice = replies.two_calls(ASKED, replace(NATIVE, message=native(one)))
    assert twice.tool_calls == (one, replace(one, id=second))


def test_half_of_a_reply_ends_for_length():
    cut = replies.cut_in_the_middle(ASKED, replace(NATIVE, raw_finish_reason="tool_calls"))
    half = native(replace(CALL, arguments=ARGUMENTS[: len(ARGUMENTS) // 2]))
    assert cut == replace(NATIVE, message=half, finish_reason="length")
    assert replies.cut_in_the_middle(ASKED, WORDS).content == "Sun"


# ---- a call every time ----------------------------------------------------------------------------------

OTHER = replace(CALL, arguments='{"city": "Cali"}')
MADE = (
    *ASKED.messages,
    *(native(OTHER), Message.tool("rain", "call_1")),
    *(native(replace(CALL, id="call_2")), Message.tool("sunny", "call_2")),
)


def test_the_last_call_is_made_again_under_a_new_id():
    again = replies.call_again(replace(ASKED, messages=MADE), WORDS)
    assert again.message == native(replace(CALL, id="call_3"))


def test_it_is_made_again_when_the_tools_were_taken_away():
    again = replies.call_again(ChatRequest("m", MADE), WORDS)
    assert again.message == native(replace(CALL, id="call_3"))


def test_the_prompt_dialect_gets_it_as_text():
    system = Message.system('Answer with {"tool": null, "reply": "..."}.')
    said = Message.user("[Tool result for get_weather]\nsunny")
    request = ChatRequest("m", (system, *ASKED.messages, DECISION.message, said))
    assert replies.call_again(request, ANSWER).message == DECISION.message


def test_before_any_call_the_first_tool_is_called_with_what_it_requires():
    hello = replace(ASKED, messages=(Message.user("Hello"),))
    (call,) = replies.call_again(hello, WORDS).tool_calls
    assert (call.id, call.name, list(json.loads(call.arguments))) == ("call_1", "get_weather", ["city"])


def test_a_call_stays_and_without_tools_and_calls_there_is_none():
    assert replies.call_again(ASKED, NATIVE) == NATIVE
    assert replies.call_again(ASKED, DECISION) == DECISION
    assert replies.call_again(replace(ASKED, tools=()), WORDS) == WORDS


# ---- counts ---------------------------------------------------------------------------------------------


def test_counts_are_left_out_or_far_too_low():
    assert replies.without_usage(ASKED, WORDS) == replace(WORDS, usage=None)
    assert replies.read_too_little(ASKED, WORDS) == replace(WORDS, usage=Usage(4, 5))
    assert replies.read_too_little(ASKED, replace(WORDS, usage=None)).usage == Usage(1)
