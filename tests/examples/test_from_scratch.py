"""The texts of the course's finished files, which a model or a developer reads.

The conformance suite verifies what these files do; a case does not prescribe the words.
"""

import json

import httpx
import pytest

from examples.from_scratch import context, gateway, output, tools
from tests.tables import for_each

QUESTION = [context.user("Hello?")]
PERSON = {"properties": {"name": {"type": "string"}, "age": {"type": "integer"}}}
PERSON["required"] = ["name", "age"]
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
SPEC = {"name": "get_weather", "description": "Get the weather.", "parameters": CITY}


def weather(city):
    raise KeyError(city)


TOOLS = tools.registry(tools.Tool(SPEC, weather))


def reply(text, reason="stop"):
    return gateway.Reply({"role": "assistant", "content": text}, reason)


def model(*replies):
    """Return an `ask` with these replies, and the messages that it receives."""
    asked, left = [], iter(replies)

    async def ask(messages, specs=()):
        asked.append([*messages])
        return next(left)

    return ask, asked


# ---- gateway.py


def gateway_of(*responses):
    """Return a gateway whose server answers with these responses."""
    left = iter(responses)
    transport = httpx.MockTransport(lambda request: next(left))
    client = httpx.AsyncClient(transport=transport, base_url="http://any/v1")
    return gateway.Gateway(client, "any", wait=0)


@for_each(
    "status, body, text",
    [
        (401, "invalid key", "HTTP 401: invalid key"),
        (200, "[]", "The answer is not a chat completion: []"),
        (503, "busy", "HTTP 503: busy"),
    ],
)
async def test_a_failed_request_names_its_reason(status, body, text):
    server = gateway_of(*[httpx.Response(status, text=body)] * 3)
    with pytest.raises(gateway.ModelError) as caught:
        await server.chat(QUESTION)
    assert str(caught.value) == text


@for_each(
    "status, body, text",
    [
        (400, "no", "HTTP 400: no"),
        (200, "data: [DONE]\n\n", "The stream ended before the reply was complete."),
        (200, 'data: {"error": "busy"}\n\n', 'The stream contains an error: {"error": "busy"}'),
    ],
)
async def test_a_failed_stream_names_its_reason(status, body, text):
    server = gateway_of(httpx.Response(status, text=body))
    with pytest.raises(gateway.ModelError) as caught:
        assert [piece async for piece in server.stream(QUESTION)]
    assert str(caught.value) == text


def test_a_call_without_an_id_gets_one():
    call = {"function": {"name": "f", "arguments": "{}"}}
    body = {"choices": [{"message": {"tool_calls": [call]}, "finish_reason": "tool_calls"}]}
    (found,) = gateway.decode(body).message["tool_calls"]
    assert found == {"id": "call_0", "type": "function", **call}


# ---- context.py


def test_a_result_and_feedback_that_are_added_have_their_texts():
    calls = [{"id": "a", "function": {"name": "f", "arguments": "{}"}}]
    asked = {"role": "assistant", "content": "", "tool_calls": calls}
    text = "Error: the call was interrupted. It is unknown whether it took effect."
    assert context.repair([asked]) == [asked, context.tool_result("a", text)]
    assert context.feedback("Not JSON.") == context.user("[Feedback] Not JSON.")


def test_a_window_that_is_too_small_names_the_missing_tokens():
    message = context.user("a" * 400)
    missing = context.count_tokens(message) - 50
    with pytest.raises(context.WindowTooSmall) as caught:
        context.window([message], 50)
    assert str(caught.value) == f"The newest question needs {missing} tokens more."


# ---- output.py


@for_each(
    "text, issues",
    [
        ('Here: {"name": "Ada', ["The reply contains no valid JSON."]),
        (
            '{"age": "36"}',
            ["$.age: '36' is not of type 'integer'", "$: 'name' is a required property"],
        ),
    ],
)
def test_the_issues_of_a_reply_name_their_locations(text, issues):
    assert output.read(text, PERSON).issues == issues


@for_each(
    "text, problem",
    [
        ('{"a": 1, "a": 2}', "a name appears twice in one object"),
        ('{"a": NaN}', "NaN is not JSON"),
        ("[" * 100_000, "too deeply nested"),
    ],
)
def test_a_text_that_is_not_json_has_a_reason(text, problem):
    with pytest.raises(ValueError, match=f"^{problem}$"):
        output.parse(text)


def test_repairs_have_their_names():
    repairs = ["single quotes replaced", "trailing comma removed"]
    assert output.parse("{'a': [1,]}") == ({"a": [1]}, repairs)


def test_feedback_lists_all_issues():
    assert output.describe(["one", "two"]) == (
        "Your reply cannot be used:\n- one\n- two\nAnswer with the corrected JSON only."
    )


async def test_invalid_replies_are_answered_until_the_attempts_are_used():
    ask, asked = model(reply("{}", "length"), reply("no"), reply("no"))
    with pytest.raises(output.InvalidOutput) as caught:
        await output.request(ask, [], PERSON)
    issue = "The reply contains no valid JSON."
    assert str(caught.value) == f"3 attempts were invalid: {[issue]}"
    feedback = [
        context.feedback(output.describe([each]))
        for each in ("The reply was cut off. Write a shorter one.", issue)
    ]
    assert [messages[-1] for messages in asked[1:]] == feedback


# ---- tools.py


def test_the_system_message_of_the_prompt_dialect_ends_with_the_tools():
    stored = [context.system("Be kind."), context.user("Hi"), context.system("Be brief.")]
    system, question = tools.as_text(stored, TOOLS)
    lines = [tools.INSTRUCTIONS, json.dumps(SPEC)]
    assert system["content"] == "\n\n".join(["Be kind.", "Be brief.", "\n".join(lines)])
    assert question == context.user("Hi")


@for_each(
    "dialect, text, reason, problem",
    [
        (
            "prompt",
            "It is warm.",
            "stop",
            output.describe(["It must be one JSON object and nothing else."]),
        ),
        ("native", " ", "stop", "Your reply was empty."),
        (
            "native",
            "It is",
            "length",
            "Your reply was cut off, so nothing was used. Write a shorter one.",
        ),
    ],
)
def test_the_problem_of_a_reply_is_stated(dialect, text, reason, problem):
    assert tools.decide(reply(text, reason), dialect).problem == problem


@for_each(
    "name, arguments, text",
    [
        ("weather", "{}", "LookupError: Unknown tool 'weather'. The tools are ['get_weather']."),
        (
            "get_weather",
            '{"location": "Rome"}',
            "ValueError: Invalid arguments: $: 'city' is a required property",
        ),
        ("get_weather", '{"city": "Atlantis"}', "KeyError: 'Atlantis'"),
    ],
)
def test_a_failed_call_has_a_result_that_the_model_can_read(name, arguments, text):
    call = {"id": "a", "function": {"name": name, "arguments": arguments}}
    assert tools.run(call, TOOLS) == context.tool_result("a", f"Error: {text}")


def test_two_tools_with_the_same_name_are_an_error():
    with pytest.raises(ValueError, match=r"^Two tools have the same name\.$"):
        tools.registry(*TOOLS.values(), *TOOLS.values())


async def test_a_model_that_never_answers_is_stopped():
    ask, asked = model(*[reply('{"tool": "get_weather"}')] * 9)
    with pytest.raises(tools.TurnLimit, match=r"^No answer after 8 requests\.$"):
        await tools.answer("Rome?", context.History(), ask, TOOLS, "prompt")
    assert len(asked) == 8


async def test_an_unknown_dialect_is_an_error_before_the_first_request():
    ask, asked = model()
    with pytest.raises(KeyError, match="promt"):
        await tools.answer("Rome?", context.History(), ask, TOOLS, "promt")
    assert asked == []
