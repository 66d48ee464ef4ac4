import json

import atif
import pytest
from google.protobuf.json_format import Parse
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

from llm_stages.runs.export.atif import to_atif
from llm_stages.runs.export.otel import to_otel
from stage0_gateway import Message, ToolCall
from stage3_tools import NativeDialect, PromptDialect, tool
from tests.llm_stages.cli.command import llm_stages
from tests.stage3_tools.conversation import answer

CONVENTIONS = {
    value
    for name, value in vars(gen_ai_attributes).items()
    if name.startswith("GEN_AI") and isinstance(value, str)
}


@tool(effect="read")
def get_weather(city: str) -> str:
    """Get the weather."""
    return f"22 degrees in {city}"


def native_call(arguments: str, name: str = "get_weather") -> Message:
    return Message.assistant("", tool_calls=[ToolCall("c1", name, arguments)])


WARM = [native_call('{"city": "Rome"}'), "It is warm."]
RUNS = {
    "a call": WARM,
    "arguments that are not JSON": [native_call("{city"), "Sorry."],
    "arguments that are a list": [native_call("[1]"), "Sorry."],
    "an unknown tool": [native_call("{}", "get_wether"), "Sorry."],
    "half a surrogate pair": [native_call('{"city": "\\ud83d"}'), "It is \ud83d."],
    "the prompt dialect with feedback": ['{"tool": 3}', answer("It is warm.")],
}


@pytest.fixture(params=RUNS.values(), ids=RUNS)
async def run(request, traced):
    is_native = isinstance(request.param[0], Message)
    dialect = NativeDialect() if is_native else PromptDialect()
    recorded, _ = await traced(request.param, get_weather, dialect=dialect)
    return recorded


async def test_a_trajectory_is_valid_atif(run):
    parsed = atif.Trajectory.model_validate(json.loads(json.dumps(to_atif(run))))
    assert parsed.schema_version == "ATIF-v1.7"
    assert parsed.steps[-1].source == "agent"


async def test_spans_are_valid_otlp_with_known_attributes(run):
    document = to_otel(run)
    spans = Parse(json.dumps(document), TracesData()).resource_spans[0].scope_spans[0].spans
    names = {each.key for span in spans for each in span.attributes}
    assert {name for name in names if name.startswith("gen_ai.")} <= CONVENTIONS
    assert {span.parent_span_id for span in spans[1:]} == {spans[0].span_id}
    assert len({span.span_id for span in spans}) == len(spans)


async def test_a_trajectory_holds_calls_results_and_tokens(traced):
    run, _ = await traced(WARM, get_weather, question="Weather?", dialect=NativeDialect())
    first, second, third = to_atif(run)["steps"]
    assert first == {"step_id": 1, "source": "user", "message": "Weather?"}
    assert second["tool_calls"] == [
        {"tool_call_id": "c1", "function_name": "get_weather", "arguments": {"city": "Rome"}}
    ]
    assert second["observation"]["results"][0]["content"] == "22 degrees in Rome"
    assert second["metrics"]["prompt_tokens"] == run.turns[0].reply.usage.input_tokens
    assert third["message"] == "It is warm."


async def test_spans_have_the_names_of_the_conventions(traced):
    run, _ = await traced(WARM, get_weather, question="Weather?", dialect=NativeDialect())
    document = to_otel(run)
    spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert [span["name"] for span in spans] == [
        "invoke_agent llm-stages",
        "chat m",
        "execute_tool get_weather",
        "chat m",
    ]
    attributes = {each["key"]: each["value"] for each in spans[1]["attributes"]}
    assert attributes["gen_ai.provider.name"] == {"stringValue": "openai"}
    sent = json.loads(attributes["gen_ai.input.messages"]["stringValue"])
    assert sent == [{"role": "user", "parts": [{"type": "text", "content": "Weather?"}]}]


async def test_the_command_writes_both_formats(traced, run_file, tmp_path, capsys):
    await traced([answer("It is warm.")])
    path = run_file.path
    for name in ("atif", "otel"):
        target = tmp_path / f"{name}.json"
        assert llm_stages("export", path, "--to", name, "-o", target) == 0
        assert json.loads(target.read_text())
    assert llm_stages("export", path, "--to", "atif") == 0
    assert json.loads(capsys.readouterr().out)["schema_version"] == "ATIF-v1.7"
