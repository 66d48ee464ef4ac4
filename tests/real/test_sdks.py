"""The official SDKs of OpenAI, Anthropic and Google are clients of the embedded model's server.

They come with the extra `[test]`. An SDK that is missing, or older than the requests that these
tests send, is skipped with the command that installs it.
"""

import importlib
import json
from importlib.metadata import PackageNotFoundError, version

import pytest
from packaging.version import Version
from pydantic import BaseModel

pytestmark = pytest.mark.real
WEATHER = "What is the weather in Oslo?"
TRIP = "We were in Oslo for 3 days."
TEACHER = "I am the teacher: a set of rules"
SUNNY = "get_weather says for Oslo: temp 22, sky clear."
CITY = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
FUNCTION = {"name": "get_weather", "description": "Get the weather of a city.", "parameters": CITY}


class Trip(BaseModel):
    city: str
    days: int


def get_weather(city: str) -> str:
    """Get the weather of a city.

    Args:
        city: The city.
    """
    return f'{{"city": "{city}", "temp": 22, "sky": "clear"}}'


def sdk(package, module, oldest):
    """Import an SDK, or skip the test with the command that installs it."""
    command = f".venv/bin/python -m pip install --upgrade '{package}>={oldest}'"
    try:
        installed = version(package)
    except PackageNotFoundError:
        pytest.skip(f"{package} is not installed: {command}")
    if Version(installed) < Version(oldest):
        pytest.skip(f"{package} {installed} is older than {oldest}: {command}")
    return importlib.import_module(module)


def question(text):
    return [{"role": "user", "content": text}]


# ---- OpenAI


@pytest.fixture(scope="module")
def openai():
    return sdk("openai", "openai", "3.54")


@pytest.fixture
def openai_client(openai, base_url):
    with openai.OpenAI(api_key="none", base_url=base_url, max_retries=0) as client:
        yield client


def test_openai_chat_calls_a_tool_and_describes_its_result(openai_client):
    tools = [{"type": "function", "function": FUNCTION}]
    messages = question(WEATHER)
    for _ in range(2):
        reply = openai_client.chat.completions.create(
            model="teacher", messages=messages, tools=tools
        )
        message = reply.choices[0].message
        messages.append(message)
        for call in message.tool_calls or ():
            result = get_weather(**json.loads(call.function.arguments))
            messages.append({"role": "tool", "tool_call_id": call.id, "content": result})
    assert message.content == SUNNY


def test_openai_chat_streams_text_and_calls(openai_client):
    tools = [{"type": "function", "function": FUNCTION}]
    stream = openai_client.chat.completions.stream
    with stream(model="teacher", messages=question(WEATHER), tools=tools) as events:
        message = events.get_final_completion().choices[0].message
    assert [call.function.arguments for call in message.tool_calls] == ['{"city": "Oslo"}']
    with stream(model="teacher", messages=question("Who are you?")) as events:
        text = "".join(event.delta for event in events if event.type == "content.delta")
    assert text.startswith(TEACHER)


def test_openai_chat_parses_a_schema_and_gets_json_without_one(openai_client):
    chat = openai_client.chat.completions
    parsed = chat.parse(model="teacher", messages=question(TRIP), response_format=Trip)
    assert parsed.choices[0].message.parsed == Trip(city="Oslo", days=3)
    plain = chat.create(
        model="teacher", messages=question(TRIP), response_format={"type": "json_object"}
    )
    assert list(json.loads(plain.choices[0].message.content)) == ["reply"]


@pytest.mark.parametrize("streamed", [False, True])
def test_openai_responses_call_a_tool_and_describe_its_result(openai_client, streamed):
    tools = [{"type": "function", **FUNCTION}]
    items = question(WEATHER)
    for _ in range(2):
        if streamed:
            with openai_client.responses.stream(model="teacher", input=items, tools=tools) as each:
                reply = each.get_final_response()
        else:
            reply = openai_client.responses.create(model="teacher", input=items, tools=tools)
        for item in reply.output:
            items.append(item.to_dict())
            if item.type == "function_call":
                output = get_weather(**json.loads(item.arguments))
                answer = {"type": "function_call_output", "call_id": item.call_id}
                items.append({**answer, "output": output})
    assert reply.output_text == SUNNY


def test_openai_responses_parse_a_schema_and_get_json_without_one(openai_client):
    parsed = openai_client.responses.parse(model="teacher", input=TRIP, text_format=Trip)
    assert parsed.output_parsed == Trip(city="Oslo", days=3)
    json_object = {"format": {"type": "json_object"}}
    plain = openai_client.responses.create(model="teacher", input=TRIP, text=json_object)
    assert list(json.loads(plain.output_text)) == ["reply"]


@pytest.mark.parametrize("field", ["previous_response_id", "conversation"])
def test_openai_responses_refuse_an_earlier_reply(openai, openai_client, field):
    refused = f"refuses '{field}': send the whole conversation in 'input'"
    with pytest.raises(openai.BadRequestError, match=refused):
        openai_client.responses.create(model="teacher", input="And in Rome?", **{field: "resp_1"})


def test_openai_gets_an_error_that_explains_a_wrong_base_url(openai, openai_client, base_url):
    client = openai_client.with_options(base_url=f"{base_url}/chat/completions")
    with pytest.raises(openai.NotFoundError, match="adds /chat/completions to its base URL"):
        client.chat.completions.create(model="teacher", messages=question("Hello"))


# ---- Anthropic


@pytest.fixture(scope="module")
def anthropic():
    return sdk("anthropic", "anthropic", "2.12")


@pytest.fixture
def anthropic_client(anthropic, base_url):
    url = base_url.removesuffix("/v1")
    with anthropic.Anthropic(api_key="none", base_url=url, max_retries=0) as client:
        yield client


def test_anthropic_messages_are_whole_and_streamed(anthropic_client):
    request = {"model": "teacher", "max_tokens": 99, "messages": question("Who are you?")}
    whole = anthropic_client.messages.create(**request)
    with anthropic_client.messages.stream(**request) as stream:
        text = "".join(stream.text_stream)
    assert whole.content[0].text == text
    assert text.startswith(TEACHER)


def test_anthropic_parses_a_schema(anthropic_client):
    reply = anthropic_client.messages.parse(
        model="teacher", max_tokens=99, messages=question(TRIP), output_format=Trip
    )
    assert reply.parsed_output == Trip(city="Oslo", days=3)


@pytest.mark.parametrize("stream", [False, True])
def test_the_tool_runner_works_over_several_turns_without_a_thread(
    anthropic, anthropic_client, stream
):
    runner = anthropic_client.beta.messages.tool_runner(
        model="teacher",
        max_tokens=99,
        messages=question("What is the weather in Oslo, and in Rome?"),
        tools=[anthropic.beta_tool(get_weather)],
        thread=False,
        stream=stream,
    )
    replies = [each.get_final_message() if stream else each for each in runner]
    assert [reply.stop_reason for reply in replies] == ["tool_use", "tool_use", "end_turn"]
    assert replies[-1].content[0].text == f"{SUNNY} {SUNNY.replace('Oslo', 'Rome')}"


def test_the_tool_runner_with_a_thread_is_refused(anthropic, anthropic_client):
    runner = anthropic_client.beta.messages.tool_runner(
        model="teacher",
        max_tokens=99,
        messages=question(WEATHER),
        tools=[anthropic.beta_tool(get_weather)],
    )
    with pytest.raises(anthropic.BadRequestError, match=r"refuses 'thread': .* thread=False"):
        runner.until_done()


# ---- Google


@pytest.fixture(scope="module")
def genai():
    return sdk("google-genai", "google.genai", "3.4")


@pytest.fixture
def genai_models(genai, base_url):
    options = {"base_url": base_url.removesuffix("/v1")}
    with genai.Client(api_key="none", http_options=options) as client:
        yield client.models


@pytest.fixture(params=["whole", "streamed"])
def genai_text(request, genai_models):
    """`genai_text(contents, config)` returns the text of a whole or a streamed reply."""

    def whole(contents, config):
        return genai_models.generate_content(model="teacher", contents=contents, config=config).text

    def streamed(contents, config):
        chunks = genai_models.generate_content_stream(
            model="teacher", contents=contents, config=config
        )
        parts = [chunk.candidates[0].content.parts or () for chunk in chunks]
        return "".join(part.text or "" for each in parts for part in each)

    return {"whole": whole, "streamed": streamed}[request.param]


def test_google_answers_a_question(genai_text):
    assert genai_text("Who are you?", None).startswith(TEACHER)


def test_google_calls_python_functions_automatically(genai_text):
    def get_forecast(city: str, days: int) -> dict[str, str]:
        """Get the forecast for a city.

        Args:
            city: The city.
            days: The number of days.
        """
        return {"sky": "clear" if days == 3 else "unknown"}

    config = {"tools": [get_forecast], "system_instruction": "Be brief."}
    text = genai_text("What is the forecast for Oslo for 3 days?", config)
    assert text == "get_forecast says for Oslo, 3: result sky clear."


def test_google_declares_functions_with_types_in_capitals(genai, genai_models):
    city = {"type": "OBJECT", "properties": {"city": {"type": "STRING"}}, "required": ["city"]}
    declared = {**FUNCTION, "parameters": city}
    config = {"tools": [{"function_declarations": [declared]}]}
    reply = genai_models.generate_content(model="teacher", contents=WEATHER, config=config)
    assert [(call.name, call.args) for call in reply.function_calls] == [
        ("get_weather", {"city": "Oslo"})
    ]


@pytest.mark.parametrize(
    ("schema", "parsed"),
    [(Trip, Trip(city="Oslo", days=3)), (list[Trip], [Trip(city="Oslo", days=3)])],
    ids=["an object", "a list"],
)
def test_google_parses_a_schema(genai_models, schema, parsed):
    config = {"response_mime_type": "application/json", "response_schema": schema}
    reply = genai_models.generate_content(model="teacher", contents=TRIP, config=config)
    assert reply.parsed == parsed


def test_google_gets_json_without_a_schema(genai_text):
    text = genai_text(TRIP, {"response_mime_type": "application/json"})
    assert list(json.loads(text)) == ["reply"]


def test_google_refuses_a_cache(genai, genai_models):
    config = {"cached_content": "cachedContents/1"}
    with pytest.raises(genai.errors.ClientError, match="refuses 'cachedContent'"):
        genai_models.generate_content(model="teacher", contents=TRIP, config=config)
