"""The rule-based model chooses tools by shared words, fills their arguments, and describes the
results."""

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway import ChatRequest, ImagePart, Message, ToolCall, ToolSpec
from stage0_gateway.offline.teacher import MAX_CALLS, answer
from stage0_gateway.server.format import ANY_OBJECT
from tests.stage0_gateway.offline.questions import MODELS, WEATHER, offline
from tests.stage0_gateway.requests import METHODS, ask
from tests.tables import for_each


def parameters(*required: str, **optional: Any) -> dict[str, Any]:
    properties = {name: {"type": "string"} for name in required}
    return {"type": "object", "properties": {**properties, **optional}, "required": list(required)}


TIME = ToolSpec("get_time", "Tell the current time.", parameters(timezone={"type": "string"}))
CAPITAL = ToolSpec("get_capital", "Find the capital of a country.", parameters("country"))
EMAIL = ToolSpec("send_email", "Send an email to a person.", parameters("to", "body"))
TOOLS = (WEATHER, TIME, CAPITAL, EMAIL)
RESULTS = {
    "get_weather": '{"temp": 22, "unit": "celsius"}',
    "get_time": "9:00",
    "get_capital": "Paris",
}
PROMPT = "\n".join(
    [
        "You can use these tools:",
        *(
            json.dumps(
                {"name": each.name, "description": each.description, "parameters": each.parameters}
            )
            for each in TOOLS
        ),
        'Answer with {"tool": "<name>", "arguments": {...}} or {"tool": null, "reply": "..."}.',
    ]
)


def native(question: str, *, error: str | None = None) -> list[str]:
    """Return the calls for a question and then the reply. Each call gets its result, or the error."""
    messages, seen = [Message.user(question)], []
    while calls := (reply := answer(ChatRequest("teacher", tuple(messages), TOOLS))).tool_calls:
        (call,) = calls
        seen.append(f"{call.name} {call.arguments}")
        result = error or RESULTS.get(call.name, "done")
        messages += [reply, Message.tool(result, call.id, is_error=error is not None)]
    return [*seen, reply.text]


def plain(text: str, *earlier: Message) -> str:
    """Return the reply to a question without tools."""
    return answer(ChatRequest("teacher", (*earlier, Message.user(text)))).text


# ---- calls and replies

QUESTIONS = {
    "What is the weather in Shanghai?": [
        ("get_weather", {"city": "Shanghai"}),
        "get_weather says for Shanghai: temp 22, unit celsius.",
    ],
    "What time is it and what is the weather in Paris?": [
        ("get_time", {}),
        ("get_weather", {"city": "Paris"}),
        "get_time says: 9:00. get_weather says for Paris: temp 22, unit celsius.",
    ],
    "What is the capital of France, and what is the weather there?": [
        ("get_capital", {"country": "France"}),
        ("get_weather", {"city": "Paris"}),
        "get_capital says for France: Paris. get_weather says for Paris: temp 22, unit celsius.",
    ],
}


@for_each("question", QUESTIONS)
@for_each("method", METHODS)
@for_each("model", MODELS)
async def test_a_question_is_answered_with_native_calls_in_every_format(
    model: str, method: str, question: str
) -> None:
    messages, seen = [Message.user(question)], []
    async with offline(model) as gateway:
        while (reply := await ask(gateway, method, messages, tools=TOOLS)).tool_calls:
            (call,) = reply.tool_calls
            assert (reply.content, reply.finish_reason) == ("", "tool_calls")
            seen.append((call.name, json.loads(call.arguments)))
            messages += [reply.message, Message.tool(RESULTS[call.name], call.id, name=call.name)]
    assert [*seen, reply.content] == QUESTIONS[question]
    assert (reply.finish_reason, reply.model) == ("stop", "teacher")


@for_each("question", QUESTIONS)
@for_each("method", METHODS)
@for_each("model", MODELS)
async def test_a_question_is_answered_with_decisions_in_every_format(
    model: str, method: str, question: str
) -> None:
    messages, seen = [Message.system(PROMPT), Message.user(question)], []
    async with offline(model) as gateway:
        while True:
            reply = await ask(gateway, method, messages)
            decision = json.loads(reply.content)
            if decision["tool"] is None:
                break
            seen.append((decision["tool"], decision["arguments"]))
            result = f"[Tool result for {decision['tool']}]\n{RESULTS[decision['tool']]}"
            messages += [reply.message, Message.user(result)]
    assert [*seen, decision["reply"]] == QUESTIONS[question]


@for_each(
    "question, calls",
    [
        ("Weather in Oslo, Rome and New York", ["Oslo", "Rome", "New York"]),
        ("weather in shanghai today", ["shanghai"]),
        ("I am in Oslo. How is the weather?", ["Oslo"]),
        ("上海的天气怎么样？", ["上海"]),
        ("Weather in Oslo, then again the weather in Oslo", ["Oslo"]),
    ],
)
def test_one_call_is_made_for_each_name_in_a_question(question: str, calls: list[str]) -> None:
    expected = [f"get_weather {json.dumps({'city': city}, ensure_ascii=False)}" for city in calls]
    assert native(question)[:-1] == expected


def test_a_result_is_passed_to_a_tool_that_accepts_any_text() -> None:
    seen = native("What is the weather in Oslo? Then send an email with it to Ada.")
    assert seen[1] == 'send_email {"to": "Ada", "body": "temp 22, unit celsius"}'


def test_a_result_is_used_only_by_a_clause_that_refers_to_it() -> None:
    seen = native("I am in Oslo. What is the capital of France? And how is the weather?")
    assert seen[:-1] == ['get_capital {"country": "France"}', 'get_weather {"city": "Oslo"}']


def test_an_error_is_not_used_as_a_value() -> None:
    question = "What is the capital of Atlantis, and what is the weather there?"
    assert native(question, error="No Such Country")[1] == 'get_weather {"city": "Atlantis"}'


def test_words_with_other_endings_select_a_tool() -> None:
    calculator = ToolSpec("calculator", "Evaluate.", parameters("expression"))
    request = ChatRequest("teacher", (Message.user("Calculate 12 * 7"),), (TIME, calculator))
    (call,) = answer(request).tool_calls
    assert (call.name, call.arguments) == ("calculator", '{"expression": "12 * 7"}')


def test_quoted_text_is_passed_as_it_is() -> None:
    seen = native('Send an email to Bob saying "hi, and bye"')
    assert seen[0] == 'send_email {"to": "Bob", "body": "hi, and bye"}'


@for_each("question", ["Tell me a joke.", "What is your favourite colour?"])
def test_the_reply_names_the_tools_if_none_fits(question: str) -> None:
    tools = "get_weather, get_time, get_capital, send_email"
    reply = (
        f"I am a set of rules, not a language model, and none of my tools ({tools}) fits this "
        "question."
    )
    assert native(question) == [reply]


def test_a_missing_argument_is_asked_for() -> None:
    assert native("How is the weather?") == [
        "Which city do you mean? I need it to call get_weather."
    ]


def test_a_failed_call_is_not_repeated_and_its_error_is_reported() -> None:
    assert native("What is the weather in Oslo?", error="no such city") == [
        'get_weather {"city": "Oslo"}',
        "get_weather failed for Oslo: no such city.",
    ]


def test_a_refused_decision_is_not_repeated_and_the_feedback_is_reported() -> None:
    messages = (
        Message.system(PROMPT),
        Message.user("Weather in Oslo?"),
        Message.assistant('{"tool": "get_weather", "arguments": {"city": "Oslo"}}'),
        Message.user("[Feedback]\nOslo is not allowed."),
    )
    assert json.loads(answer(ChatRequest("teacher", messages)).text) == {
        "tool": None,
        "reply": "I gave up on get_weather for Oslo: Oslo is not allowed.",
    }


@for_each("model", MODELS)
async def test_an_image_in_a_result_is_not_taken_for_the_question(model: str) -> None:
    call = ToolCall("call_1", "get_weather", '{"city": "Rome"}')
    messages = [
        Message.user("What is the weather in Rome?"),
        Message.assistant("", [call]),
        Message.tool((ImagePart("QQ=="),), "call_1", name="get_weather"),
    ]
    async with offline(model) as gateway:
        reply = await gateway.chat(messages, tools=[WEATHER])
    assert reply.tool_calls == ()
    assert reply.content.startswith("get_weather")


def test_a_question_ends_after_eight_calls() -> None:
    cities = "Oslo, Rome, Bern, Bonn, Kyiv, Lima, Cali, Baku, Bari and Pisa"
    assert len(native(f"What is the weather in {cities}?")) == MAX_CALLS + 1


def test_a_call_gets_an_id_that_no_other_call_has() -> None:
    earlier = Message.assistant("", [ToolCall("call_7", "get_time")])
    messages = (
        Message.user("Time?"),
        earlier,
        Message.tool("9:00", "call_7"),
        Message.user("Weather in Oslo?"),
    )
    reply = answer(ChatRequest("teacher", messages, TOOLS))
    assert reply == Message.assistant("", [ToolCall("call_8", "get_weather", '{"city": "Oslo"}')])


@for_each(
    "choice, called",
    [
        ("none", []),
        ("get_time", ["get_time"]),
        ("required", ["get_weather"]),
        (None, ["get_weather"]),
    ],
)
def test_the_tool_choice_of_the_request_counts(choice: str | None, called: list[str]) -> None:
    request = ChatRequest("teacher", (Message.user("Weather in Oslo?"),), TOOLS, tool_choice=choice)
    assert [call.name for call in answer(request).tool_calls] == called


def test_a_required_call_is_made_even_if_no_word_is_shared() -> None:
    request = ChatRequest("teacher", (Message.user("Hello"),), (TIME,), tool_choice="required")
    assert [call.name for call in answer(request).tool_calls] == ["get_time"]


def test_results_are_described_after_the_tools_were_removed() -> None:
    messages = (
        Message.user("Weather in Oslo?"),
        Message.assistant("", [ToolCall("call_1", "get_weather", '{"city": "Oslo"}')]),
        Message.tool("sunny", "call_1"),
    )
    assert answer(ChatRequest("teacher", messages)).text == "get_weather says for Oslo: sunny."


@for_each("written", ["{}", "```json\n{}\n```"])
def test_results_belong_to_decisions_in_their_order(written: str) -> None:
    decisions = [{"tool": "get_weather", "arguments": {"city": city}} for city in ("Oslo", "Rome")]
    messages = (
        Message.system(PROMPT),
        Message.user("Hello"),
        Message.assistant(written.replace("{}", json.dumps(decisions))),
        Message.user("[Tool result for get_weather]\nsunny\n\n[Tool result for get_weather]\nrain"),
    )
    reply = json.loads(answer(ChatRequest("teacher", messages)).text)["reply"]
    assert reply == "get_weather says for Oslo: sunny. get_weather says for Rome: rain."


# ---- arguments


@for_each(
    "question, properties, required, arguments",
    [
        ("Plan 3 days", {"days": {"type": "integer"}}, ["days"], {"days": 3}),
        ("Plan 3 days", {"days": {"type": "integer"}}, [], {}),
        ("Plan 3.5, 4 days", {"days": {"type": "integer"}}, ["days"], {"days": 4}),
        ("Plan with price: 3.5", {"price": {"type": "number"}}, ["price"], {"price": 3.5}),
        (
            "Plan 5 hours and 2 days",
            {"hours": {"type": "integer"}, "days": {"type": "integer"}},
            ["hours", "days"],
            {"days": 2, "hours": 5},
        ),
        (
            "Plan 3 and -4",
            {"a": {"type": "number"}, "b": {"type": "number"}},
            ["a", "b"],
            {"a": 3, "b": -4},
        ),
        ("Plan in kelvin", {"unit": {"enum": ["celsius", "kelvin"]}}, [], {"unit": "kelvin"}),
        ("Plan size 2", {"size": {"enum": [1, 2]}}, [], {"size": 2}),
        ("Plan it", {"unit": {"enum": ["celsius", "kelvin"]}}, [], {}),
        ("Plan it public", {"public": {"type": "boolean"}}, ["public"], {"public": True}),
        ("Plan it", {"public": {"type": "boolean"}}, [], {}),
        ("Plan it", {"public": {"type": "boolean"}}, ["public"], {"public": False}),
        ("Plan for Oslo", {"note": {"type": "string"}}, [], {}),
        ("Plan for Oslo", {"note": {"type": ["string", "null"]}}, ["note"], {"note": "Oslo"}),
        ("Plan for Oslo", {"note": {"anyOf": [{"type": "string"}]}}, ["note"], {"note": "Oslo"}),
        (
            "Plan from Oslo to Rome on Monday",
            {name: {"type": "string"} for name in ("origin", "destination", "date")},
            ["origin", "destination", "date"],
            {"origin": "Oslo", "destination": "Rome", "date": "Monday"},
        ),
        (
            "Plan for Oslo",
            {"note": {"type": "string"}, "city": {"type": "string"}},
            ["city"],
            {"city": "Oslo"},
        ),
        ("Plan", {"where": {"type": "object"}, "tags": {"type": "array"}, "any": {}}, [], {}),
        (
            "Plan the page (https://a.org/X?b=1), then mail Ada",
            {"to": {"type": "string"}, "url": {"type": "string"}},
            ["to", "url"],
            {"to": "Ada", "url": "https://a.org/X?b=1"},
        ),
        (
            "Plan a visit of www.a.org.",
            {"page": {"type": "string", "format": "uri"}},
            ["page"],
            {"page": "www.a.org"},
        ),
    ],
)
def test_arguments_are_filled_with_words_of_the_question(
    question: str, properties: dict[str, Any], required: list[str], arguments: dict[str, Any]
) -> None:
    schema = {"type": "object", "properties": properties, "required": required}
    tool = ToolSpec("plan", "Make a plan.", schema)
    (call,) = answer(ChatRequest("teacher", (Message.user(question),), (tool,))).tool_calls
    assert json.loads(call.arguments) == arguments


def test_a_url_is_never_filled_with_other_words() -> None:
    tool = ToolSpec("read_page", "Read a page.", parameters("page_url"))
    reply = answer(ChatRequest("teacher", (Message.user("Read the page of Ada"),), (tool,)))
    assert reply.text == "Which page url do you mean? I need it to call read_page."


@for_each(
    "schema",
    [
        {"properties": [], "required": 5},
        {
            "properties": {"a": 1, "b": {"type": {}, "enum": 3, "anyOf": [None]}},
            "required": [["a"], None],
        },
        {
            "properties": {"(": {"enum": [[], {}, None, "["]}, "": {"type": "number"}},
            "type": "object",
        },
    ],
)
def test_a_malformed_schema_does_not_prevent_an_answer(schema: dict[str, Any]) -> None:
    tool = ToolSpec("plan", "Make a plan.", schema)
    reply = answer(
        ChatRequest("teacher", (Message.user("Plan 3"),), (tool,), response_schema=schema)
    )
    assert reply.role == "assistant"


def test_a_structured_reply_is_filled_from_the_question_and_has_every_required_field() -> None:
    schema = parameters("name", "city", "age", age={"type": "integer"})
    messages = (Message.user("Ada is of age 36."),)
    reply = answer(ChatRequest("teacher", messages, response_schema=schema))
    assert json.loads(reply.text) == {"name": "Ada", "city": "Ada is of age 36", "age": 36}
    empty = answer(ChatRequest("teacher", (Message.user("?"),), response_schema=schema))
    assert json.loads(empty.text) == {"name": "", "city": "", "age": 0}


def test_a_structured_reply_repeats_what_the_tools_returned_and_invents_no_number() -> None:
    weather = ToolSpec("get_weather", "Get the weather in a city.", parameters("city"))
    hotel = ToolSpec("find_hotel", "Find a hotel in a city.", parameters("city"))
    calls = [
        ToolCall("c1", "get_weather", '{"city": "Rome"}'),
        ToolCall("c2", "find_hotel", '{"city": "Rome"}'),
    ]
    messages = (
        Message.user("What is the weather in Rome, and find a hotel in Rome"),
        Message.assistant("", calls),
        Message.tool('{"city": "Rome", "temp": 22, "unit": "C", "sunny": true}', "c1"),
        Message.tool("Hotel Roma", "c2"),
    )
    types: dict[str, Any] = {
        "temp": {"type": "integer"},
        "altitude": {"type": "integer"},
        "unit": {"enum": ["celsius"], "type": "string"},
        "sunny": {"type": "boolean"},
    }
    schema = parameters("city", "hotel", *types, **types)
    reply = answer(ChatRequest("teacher", messages, (weather, hotel), response_schema=schema))
    assert json.loads(reply.text) == {
        "city": "Rome",
        "temp": 22,
        "hotel": "Hotel Roma",
        "altitude": 0,
        "unit": "",
        "sunny": True,
    }


def test_a_schema_in_the_system_prompt_is_used() -> None:
    system = Message.system(
        f"Answer with JSON that fits this JSON Schema:\n{json.dumps(parameters('name'))}"
    )
    assert json.loads(plain("Ada is here.", system)) == {"name": "Ada"}


def test_an_indented_schema_in_the_system_prompt_is_used() -> None:
    schema = json.dumps(parameters("name"), indent=2)
    request = ChatRequest(
        "teacher",
        (
            Message.system(f"Match this schema:\n\n   {schema}\n\nOnly JSON."),
            Message.user("I am Ada."),
        ),
        response_schema=ANY_OBJECT,
    )
    assert json.loads(answer(request).text) == {"name": "Ada"}
    assert plain("I like tea.", Message.system("{\n  not JSON\n}")).startswith("You said")


def test_a_list_is_answered_with_one_object() -> None:
    schema = {"type": "array", "items": parameters("name")}
    reply = answer(ChatRequest("teacher", (Message.user("Ada"),), response_schema=schema))
    assert json.loads(reply.text) == [{"name": "Ada"}]


def test_json_without_a_schema_is_an_object_with_the_reply() -> None:
    question = Message.user("What is my name?")
    reply = answer(ChatRequest("teacher", (question,), response_schema=ANY_OBJECT)).text
    assert json.loads(reply) == {"reply": plain("What is my name?")}
    decision = ChatRequest(
        "teacher", (Message.system(PROMPT), question), response_schema=ANY_OBJECT
    )
    assert json.loads(answer(decision).text) == {"tool": None, "reply": plain("What is my name?")}


# ---- conversation


@for_each("question", ["Who are you?", "Are you a language model?", "Hello! What are you?"])
def test_the_model_denies_being_a_language_model(question: str) -> None:
    assert plain(question).startswith(
        "I am the teacher: a set of rules that stands in for a language model"
    )


@for_each("question", ["Hello!", "hi there", "Good morning"])
def test_a_greeting_is_returned(question: str) -> None:
    reply = (
        'Hello! I am a set of rules, not a language model. Ask "What can you do?" to see my tools.'
    )
    assert plain(question) == native(question)[0] == reply


def test_the_tools_are_listed_with_their_descriptions() -> None:
    tools = (
        ToolSpec("get_time", " Get the time. In UTC.", {}),
        ToolSpec("get_capital", "", parameters("country")),
    )
    request = ChatRequest("teacher", (Message.user("Hi, what can you do?"),), tools)
    assert answer(request).text == (
        "I can call these tools: get_time (Get the time), get_capital. I am a set of rules, not a "
        "language model, so ask with words of these descriptions."
    )
    assert plain("What can you do?") == (
        "I am a set of rules, not a language model, and I have no tools here, so I only repeat "
        "what you say."
    )


def test_a_fact_is_known_as_long_as_its_message_is_sent() -> None:
    known = plain(
        "What is my name?", Message.user("My name is Ada."), Message.assistant("Hello Ada.")
    )
    assert known == "Your name is Ada: you said so in this conversation."
    assert (
        plain("What is my name?") == "I do not know your name: no message that I was sent says it."
    )


def test_a_summary_has_the_earlier_summary_and_the_first_sentence_of_each_user_message() -> None:
    lines = [
        "Your summary so far:",
        "Summary: I am Ada.",
        "The messages:",
        json.dumps({"role": "user", "content": "I like tea. A lot."}),
        json.dumps({"role": "assistant", "content": "Good."}),
    ]
    system = Message.system("Summarize the conversation.")
    assert plain("\n".join(lines), system) == "Summary: I am Ada. I like tea."


def test_other_questions_are_repeated_with_the_number_of_messages() -> None:
    rules = "I am a set of rules, not a language model, so I only repeat it."
    assert plain("I like tea.") == f'You said: "I like tea." I see 1 message. {rules}'
    assert plain("And you?", Message.user("Hi"), Message.assistant("Hi")) == (
        f'You said: "And you?" I see 3 messages. {rules}'
    )


# ---- untrusted text


@for_each("text", ["weather in Oslo ", '"', "A", "A ", "(", "1-", "“", "\t", "and ", "my "])
def test_a_megabyte_of_any_text_is_answered(text: str) -> None:
    long = "weather " + text * (1_000_000 // len(text))
    made = Message.assistant("", [ToolCall("call_1", "get_capital", '{"country": "France"}')])
    question = Message.user("What is the capital of France, and what is the weather there?")
    for messages in ((Message.user(long),), (question, made, Message.tool(long, "call_1"))):
        assert answer(ChatRequest("teacher", messages, TOOLS)).role == "assistant"


@given(st.text(), st.text(), st.text())
def test_any_text_is_answered(question: str, system: str, result: str) -> None:
    made = Message.assistant(result, [ToolCall("call_1", "get_time", result)])
    for messages in (
        (Message.system(system), Message.user(question)),
        (
            Message.system(PROMPT),
            Message.user(question),
            Message.assistant(result),
            Message.user(f"[Tool result for {result}]"),
        ),
        (Message.user(question), made, Message.tool(result, "call_1")),
    ):
        assert answer(ChatRequest("teacher", messages, TOOLS)).role == "assistant"
        assert answer(ChatRequest("teacher", messages)).role == "assistant"
