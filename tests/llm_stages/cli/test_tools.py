import json

from llm_stages.cli.tools import problems_of
from stage3_tools import Tool, ToolRegistry, tool
from tests.llm_stages.cli.command import llm_stages, write_tools
from tests.tables import for_each

CITY = {
    "type": "object",
    "properties": {"city": {"type": "string", "description": "The name of the city."}},
}


def problems(*tools: Tool) -> list[tuple[str, str]]:
    return list(problems_of(ToolRegistry(*tools)))


def made(name: str = "get_weather", text: str = "Get the weather.", schema: object = CITY) -> Tool:
    return Tool(name, text, schema, lambda arguments: None, effect="read")


def test_tools_prints_the_schema_and_the_tokens(tool_file, capsys):
    assert llm_stages("tools", tool_file) == 0
    printed = capsys.readouterr().out
    assert "Get the weather in a city." in printed
    assert '"additionalProperties": false' in printed
    assert "2 tools, about" in printed


def test_tools_prints_json_for_scripts(tool_file, capsys):
    assert llm_stages("tools", tool_file, "--json") == 0
    first, second = json.loads(capsys.readouterr().out)
    assert (first["name"], second["name"]) == ("get_weather", "delete_file")
    assert first["tokens"] > 10


def test_tools_prints_whether_the_effect_is_declared(tool_file, tmp_path, capsys):
    undeclared = tmp_path / "undeclared.py"
    undeclared.write_text("def f() -> int:\n    return 1\n", encoding="utf-8")
    for path in (tool_file, str(undeclared)):
        assert llm_stages("tools", path) == 0
    printed = capsys.readouterr().out
    effects = [line.split(",")[0] for line in printed.splitlines() if "effect" in line]
    assert effects == ["  effect read", "  effect write", "  effect write (not declared)"]


def test_check_accepts_good_tools(tool_file, capsys):
    assert llm_stages("check", tool_file) == 0
    assert capsys.readouterr().out == "2 tools, no problems.\n"


def test_check_fails_with_a_table_of_problems(tmp_path, capsys):
    path = write_tools(tmp_path, "def f(x: int) -> int:\n    return x\n")
    assert llm_stages("check", path) == 1
    printed = capsys.readouterr().out
    assert "The description is missing" in printed
    assert "The parameter /x has no description." in printed
    assert "The effect is not declared" in printed


@for_each(
    "tool, expected",
    [
        (made(text=" "), "The description is missing"),
        (made(name="get weather"), "The name is sent in another form"),
        (
            made(schema={"type": "object", "anyOf": [CITY]}),
            "OpenAI and Anthropic reject anyOf at the root of the schema.",
        ),
        (made(schema={"type": "object", "not": {}}), "OpenAI rejects not at the root"),
        (
            made(schema={"type": "object", "properties": {"a b": {"type": "string"}}}),
            "Anthropic accepts 1 to 64 letters, digits, _, . and - as a name, not 'a b'.",
        ),
        (
            made(schema={"type": "object", "properties": {"a": {"type": "array"}}}),
            "The array /a has no items",
        ),
    ],
)
def test_check_names_what_providers_reject(tool, expected):
    assert any(expected in problem for _, problem in problems(tool))


def test_check_accepts_a_reference_within_the_schema():
    schema = {
        "type": "object",
        "properties": {"a": {"$ref": "#/$defs/a"}},
        "$defs": {"a": {"type": "string", "description": "A letter."}},
    }
    assert problems(made(schema=schema)) == []


def test_check_names_each_tool_whose_effect_is_not_declared():
    def send_mail() -> None:
        """Send a mail."""

    def read_mail() -> None:
        """Read a mail."""

    found = list(problems_of(ToolRegistry(tool(effect="read")(read_mail), tool(send_mail))))
    assert found == list(problems_of(ToolRegistry(send_mail)))
    problem = (
        "The effect is not declared, so it counts as a write: it is never retried, and its call "
        "must be the whole reply."
    )
    assert found == [("send_mail", problem)]


def test_check_finds_names_that_are_easily_confused():
    found = problems(made("get_weather"), made("getWeather", "Something else."))
    assert found == [("get_weather", "The name is easily confused with 'getWeather'.")]


def test_check_accepts_names_that_differ_by_a_word():
    found = problems(made("get_order"), made("set_order", "Store an order."))
    assert found == []


def test_check_finds_a_plural_as_a_confusing_name():
    found = problems(made("list_file"), made("list_files", "List files."))
    assert found == [("list_file", "The name is easily confused with 'list_files'.")]


def test_check_prints_json_for_scripts(tmp_path, capsys):
    path = write_tools(tmp_path, "def f(x: int) -> int:\n    return x\n")
    assert llm_stages("check", path, "--json") == 1
    rows = json.loads(capsys.readouterr().out)
    assert {row["tool"] for row in rows} == {"f"}


def test_check_finds_two_tools_with_one_description():
    found = problems(made("weather"), made("rain"))
    assert found == [("weather", "The description is the same as that of 'rain'.")]
