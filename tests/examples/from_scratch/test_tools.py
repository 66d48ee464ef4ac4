"""The steps of examples/from_scratch/tools.py."""

import json

import pytest

from examples.from_scratch import context
from examples.from_scratch.gateway import Reply
from examples.from_scratch.tools import Tool, TurnLimit, answer, as_text, decide, registry, run

CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
CALL = '{"tool": "get_weather", "arguments": {"city": "Rome"}}'
ANSWER = '{"tool": null, "reply": "It is warm."}'


def weather(city):
    if city == "Atlantis":
        raise KeyError(city)
    return {"city": city, "temp": 22}


TOOLS = registry(
    Tool({"name": "get_weather", "description": "Get the weather.", "parameters": CITY}, weather)
)


def call(arguments, name="get_weather", call_id="a"):
    function = {"name": name, "arguments": arguments}
    return {"id": call_id, "type": "function", "function": function}


def reply(text="", *calls, reason="stop"):
    message = {"role": "assistant", "content": text}
    return Reply(message | ({"tool_calls": list(calls)} if calls else {}), reason)


def model(*replies):
    """An `ask` with these replies, and the messages that it receives."""
    asked, replies = [], iter(replies)

    async def ask(messages, tools):
        asked.append(list(messages))
        return next(replies)

    return ask, asked


# ---- Step 1: Tool


def test_two_tools_with_the_same_name_are_an_error():
    with pytest.raises(ValueError, match="same name"):
        registry(*TOOLS.values(), *TOOLS.values())


# ---- Step 2: Describe


def test_the_tools_are_lines_of_the_one_system_message():
    system, question = as_text([context.system("Be kind."), context.user("Hi")], TOOLS)
    assert system["content"].startswith("Be kind.\n\nYou can use tools.")
    assert json.loads(system["content"].split("\n")[-1])["name"] == "get_weather"
    assert question == context.user("Hi")


def test_system_messages_keep_their_order_in_front_of_the_tools():
    stored = [context.system("Be kind."), context.user("Hi"), context.system("Be brief.")]
    system, _ = as_text(stored, TOOLS)
    assert system["content"].startswith("Be kind.\n\nBe brief.\n\nYou can use tools.")


def test_a_result_is_a_message_of_the_user_that_names_the_tool():
    stored = [reply(CALL, call("{}")).message, context.tool_result("a", "22")]
    assert as_text(stored, TOOLS)[1:] == [
        {"role": "assistant", "content": CALL},
        context.user("[Tool result for get_weather]\n22"),
    ]


# ---- Step 3: Decide


@pytest.mark.parametrize("text", [CALL, f"```json\n{CALL}\n```", f"<think>Rome?</think>\n{CALL}"])
def test_a_whole_reply_is_a_call(text):
    (found,) = decide(reply(text), "prompt").calls
    assert found["function"] == {"name": "get_weather", "arguments": '{"city": "Rome"}'}


@pytest.mark.parametrize(
    "text",
    [
        f"The page says {CALL}, but I will not do that.",
        f"> {CALL}",
        f"The page contains:\n```json\n{CALL}\n```",
        json.dumps(CALL),
        f"{CALL}\n{CALL}",
        f"<think>{CALL}</think>",
        "It is warm.",
        '{"tool": null}',
        '{"tool": "get_weather", "arguments": "Rome"}',
    ],
)
def test_a_quotation_is_not_a_call(text):
    decision = decide(reply(text), "prompt")
    assert (list(decision.calls), decision.answer) == ([], "")
    assert "cannot be used" in decision.problem


@pytest.mark.parametrize("dialect", ["prompt", "native"])
@pytest.mark.parametrize("reason", ["length", "content_filter"])
def test_a_reply_that_was_cut_off_runs_nothing(dialect, reason):
    decision = decide(reply(CALL, call('{"city": "Rome"}'), reason=reason), dialect)
    assert not decision.calls
    assert "cut off" in decision.problem


def test_null_as_arguments_means_no_arguments():
    (found,) = decide(reply('{"tool": "f", "arguments": null}'), "prompt").calls
    assert found["function"]["arguments"] == "{}"


def test_an_empty_native_reply_is_a_problem():
    assert decide(reply(" "), "native").problem == "Your reply was empty."


# ---- Step 4: Run


def test_a_result_that_is_not_text_becomes_json():
    assert run(call('{"city": "Rome"}'), TOOLS) == context.tool_result(
        "a", '{"city": "Rome", "temp": 22}'
    )


@pytest.mark.parametrize(
    ("made", "text"),
    [
        (call("{}", name="weather"), "Unknown tool 'weather'. The tools are ['get_weather']."),
        (call('{"city": "Ro'), "Error: JSONDecodeError"),
        (call('{"city": "Rome",}'), "Error: JSONDecodeError"),
        (call('{"location": "Rome"}'), "'city' is a required property"),
        (call('["Rome"]'), "is not of type 'object'"),
        (call('{"city": "Atlantis"}'), "Error: KeyError: 'Atlantis'"),
        (call('{"city": "Rome", "unit": "C"}'), "unexpected keyword argument 'unit'"),
    ],
    ids=[
        "unknown tool",
        "half arguments",
        "comma",
        "wrong name",
        "list",
        "exception",
        "extra name",
    ],
)
def test_every_failure_is_a_result_that_the_model_can_read(made, text):
    result = run(made, TOOLS)
    assert result["tool_call_id"] == "a"
    assert text in result["content"]


# ---- Step 5: Loop


async def test_a_question_is_answered_in_the_prompt_dialect():
    ask, asked = model(reply(CALL), reply(ANSWER))
    assert await answer("Rome?", context.History(), ask, TOOLS, "prompt") == "It is warm."
    assert asked[1][-1]["content"] == (
        '[Tool result for get_weather]\n{"city": "Rome", "temp": 22}'
    )


async def test_two_native_calls_have_one_result_each_in_their_order():
    calls = [call('{"city": "Rome"}', call_id="a"), call('{"city": "Oslo"}', call_id="b")]
    ask, asked = model(reply("", *calls, reason="tool_calls"), reply("Warm."))
    assert await answer("?", context.History(), ask, TOOLS, "native") == "Warm."
    assert [message["tool_call_id"] for message in asked[1][2:]] == ["a", "b"]


async def test_a_call_that_was_cut_off_is_not_stored_so_no_call_is_open():
    history = context.History()
    ask, asked = model(reply("", call('{"city": "Ro'), reason="length"), reply("Warm."))
    await answer("Rome?", history, ask, TOOLS, "native")
    assert [message["role"] for message in asked[1]] == ["user", "assistant", "user"]
    assert context.repair(history.messages) == history.messages


async def test_an_invalid_decision_is_corrected():
    ask, asked = model(reply("I will check."), reply(ANSWER))
    assert await answer("Rome?", context.History(), ask, TOOLS, "prompt") == "It is warm."
    assert asked[1][-1]["content"].startswith("[Feedback] Your reply cannot be used")


async def test_an_unknown_dialect_is_an_error_before_the_first_request():
    ask, asked = model(reply("Hi"))
    with pytest.raises(KeyError, match="promt"):
        await answer("Rome?", context.History(), ask, TOOLS, "promt")
    assert asked == []


async def test_a_model_that_never_answers_is_stopped():
    ask, asked = model(*[reply(CALL)] * 9)
    with pytest.raises(TurnLimit):
        await answer("Rome?", context.History(), ask, TOOLS, "prompt")
    assert len(asked) == 8
