import json

import atif
import pytest
from google.protobuf.json_format import Parse
from opentelemetry.proto.trace.v1.trace_pb2 import TracesData
from opentelemetry.semconv._incubating.attributes import gen_ai_attributes

from stage0_gateway import Gateway, Message, ScriptedModel, ToolCall
from stage3_tools import NativeDialect, RunFile, ask, read_run, tool
from stage3_tools.cli.main import main
from stage3_tools.trace.export.atif import to_atif
from stage3_tools.trace.export.otel import to_otel

CONVENTIONS = {
    value
    for name, value in vars(gen_ai_attributes).items()
    if name.startswith("GEN_AI") and isinstance(value, str)
}


@tool(effect="read")
def get_weather(city: str) -> str:
    """Get the weather."""
    return f"22 degrees in {city}"


def call(arguments: str, name: str = "get_weather") -> Message:
    return Message.assistant("", tool_calls=[ToolCall("c1", name, arguments)])


@pytest.fixture
async def traced(tmp_path):
    """`traced(replies)` returns the run file of a run with these replies."""

    async def run(replies, *, native=True):
        path = tmp_path / "run.jsonl"
        model = ScriptedModel(replies)
        async with Gateway("openai:gpt-5-mini", api_key="sk-secret", transport=model) as gateway:
            dialect = NativeDialect() if native else None
            await ask(
                "Weather?",
                tools=[get_weather],
                model=gateway,
                dialect=dialect,
                trace=RunFile(path),
            )
        return path

    return run


REPLIES = {
    "a call": ([call('{"city": "Rome"}'), "It is warm."], True),
    "arguments that are not JSON": ([call("{city"), "Sorry."], True),
    "arguments that are a list": ([call("[1]"), "Sorry."], True),
    "an unknown tool": ([call("{}", "get_wether"), "Sorry."], True),
    "half a surrogate pair": ([call('{"city": "\\ud83d"}'), "It is \ud83d."], True),
    "the prompt dialect with feedback": (
        ['{"tool": 3}', '{"tool": null, "reply": "It is warm."}'],
        False,
    ),
}


@pytest.mark.parametrize("replies", REPLIES.values(), ids=REPLIES)
async def test_a_trajectory_is_valid_atif(traced, replies):
    script, native = replies
    trajectory = to_atif(read_run(await traced(script, native=native)))
    parsed = atif.Trajectory.model_validate(json.loads(json.dumps(trajectory)))
    assert parsed.schema_version == "ATIF-v1.7"
    assert parsed.steps[-1].source == "agent"


@pytest.mark.parametrize("replies", REPLIES.values(), ids=REPLIES)
async def test_spans_are_valid_otlp_with_known_attributes(traced, replies):
    script, native = replies
    document = to_otel(read_run(await traced(script, native=native)))
    spans = Parse(json.dumps(document), TracesData()).resource_spans[0].scope_spans[0].spans
    names = {each.key for span in spans for each in span.attributes}
    assert {name for name in names if name.startswith("gen_ai.")} <= CONVENTIONS
    assert {span.parent_span_id for span in spans[1:]} == {spans[0].span_id}
    assert len({span.span_id for span in spans}) == len(spans)


async def test_a_trajectory_holds_calls_results_and_tokens(traced):
    run = read_run(await traced([call('{"city": "Rome"}'), "It is warm."]))
    first, second, third = to_atif(run)["steps"]
    assert first == {"step_id": 1, "source": "user", "message": "Weather?"}
    assert second["tool_calls"] == [
        {"tool_call_id": "c1", "function_name": "get_weather", "arguments": {"city": "Rome"}}
    ]
    assert second["observation"]["results"][0]["content"] == "22 degrees in Rome"
    assert second["metrics"]["prompt_tokens"] == run.turns[0].reply.usage.input_tokens
    assert third["message"] == "It is warm."


async def test_spans_have_the_names_of_the_conventions(traced):
    document = to_otel(read_run(await traced([call('{"city": "Rome"}'), "It is warm."])))
    spans = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    assert [span["name"] for span in spans] == [
        "invoke_agent llm-stages",
        "chat gpt-5-mini",
        "execute_tool get_weather",
        "chat gpt-5-mini",
    ]
    attributes = {each["key"]: each["value"] for each in spans[1]["attributes"]}
    assert attributes["gen_ai.provider.name"] == {"stringValue": "openai"}
    sent = json.loads(attributes["gen_ai.input.messages"]["stringValue"])
    assert sent == [{"role": "user", "parts": [{"type": "text", "content": "Weather?"}]}]


async def test_the_command_writes_both_formats(traced, tmp_path, capsys):
    path = await traced(["It is warm."])
    for name in ("atif", "otel"):
        target = tmp_path / f"{name}.json"
        assert main(["export", str(path), "--to", name, "-o", str(target)]) == 0
        assert json.loads(target.read_text())
    assert main(["export", str(path), "--to", "atif"]) == 0
    assert json.loads(capsys.readouterr().out)["schema_version"] == "ATIF-v1.7"


def test_a_file_that_is_not_a_run_file_is_refused(tmp_path, capsys):
    path = tmp_path / "other.jsonl"
    path.write_text("hello\n")
    assert main(["export", str(path), "--to", "atif"]) == 1
    assert "line 1" in capsys.readouterr().err.lower()
