"""Mistakes in first programs: each one raises an error, whose text says what to write.

`MISTAKES` lists programs with the sentence that their author must read. Each program begins with
`SETUP`.
"""

import ast
import re
from dataclasses import replace

import pytest

from llm_stages.cli.tools import problems_of
from stage0_gateway import (
    ChatResponse,
    ConfigurationError,
    Gateway,
    Message,
    Price,
    PriceTable,
    ScriptedModel,
    ToolCall,
    Usage,
)
from stage3_tools import RunLimits, ToolRegistry, ask, tool
from tests.stage3_tools.conversation import answer, call
from tests.tables import for_each

SETUP = """
from pathlib import Path
from stage0_gateway import *
from stage1_context import *
from stage2_output import *
from stage3_tools import *
from stage1_context import SqliteStore
from llm_stages import RunFile, read_run
model = ScriptedModel([ChatResponse(Message.assistant("yes"), usage=Usage(9, 9), model="m-1")])
gateway = Gateway("openai:m", transport=model)
engine = ContextEngine()
await engine.create_session("s")
@tool
def get_weather(city: str) -> str:
    '''Tell the weather.'''
    return f"sunny in {city}"
registry = ToolRegistry(get_weather)
deps = ToolLoopDeps(gateway, engine, tool_registry=registry)
question = [Message.user("Hi")]
"""

NO_PRICES = (
    "The limit of 0.5 dollars needs prices, and 'openai:m' has none. Pass Gateway(…, prices="
)
CLOSED = "was closed, by aclose() or at the end of "
WHOLE = "must be a whole number"
A_MODEL = "chat must be a Gateway, or an async function that returns a ChatResponse or a text, not "
A_MESSAGE = (
    'A message is a Message, or a mapping such as {"role": "user", "content": "Hello."}, not '
)
TOOLS = "tools must be a list such as tools=[get_weather], or a ToolRegistry, not "
LIMITS = "limits must be RunLimits(seconds=…, tokens=…, cost=…), or None, not {'seconds': 3}."
TRACE = 'trace must be a run file: write trace=RunFile("run.jsonl"), or None, not '

MISTAKES = [
    # ---- messages
    ("await gateway.chat(question[0])", "messages must be a text or a list of messages, not "),
    ("await gateway.chat({'role': 'user'})", "messages must be a text or a list of messages"),
    ("await gateway.chat(None)", "messages must be a text or a list of messages, not None."),
    ("await gateway.chat(['Hi'])", A_MESSAGE + "'Hi'."),
    ("gateway.stream(['Hi'])", A_MESSAGE + "'Hi'."),
    ("await gateway.chat('Hi', temprature=1)", "Unknown option 'temprature'. The options are"),
    ("gateway.stream('Hi', max_token=1)", "Unknown option 'max_token'. The options are tools,"),
    ("await gateway.chat([])", "There is no message to send."),
    ("await gateway.chat([{'role': 'user', 'text': 'a'}])", "'text' (did you mean 'content'?)"),
    (
        "await gateway.chat([{'role': 'user', 'contents': 'a', 'foo': 3}])",
        "Unknown keys in a message: 'contents' (did you mean 'content'?), 'foo'. The keys are role,",
    ),
    (
        "await gateway.chat([{'role': 'user', 'content': 'a', 'foo': 3}])",
        "Unknown keys in a message: 'foo'. The keys are role, content, tool_calls, tool_call_id",
    ),
    ("await gateway.chat([{'role': 'user'}])", "A user message needs a 'content', as in {"),
    ("await gateway.chat([{'role': 'user', 'content': None}])", "A user message needs a 'content'"),
    ("await gateway.chat([{'content': 'a'}])", "A message needs a 'role', as in {"),
    ("await gateway.chat([{'role': 'bot', 'content': 'a'}])", "Unknown role 'bot'. The roles are"),
    (
        "await gateway.chat([{'role': 'assistant', 'content': 'a', 'toolcalls': [1]}])",
        "'toolcalls' (did you mean 'tool_calls'?)",
    ),
    (
        "await engine.add_message('s', {'role': 'user', 'text': 'a'})",
        "'text' (did you mean 'content'?)",
    ),
    ("await engine.add_message('s', 'Hi')", A_MESSAGE + "'Hi'."),
    ("await engine.add_messages('s', question)", A_MESSAGE + "[Message(role='user'"),
    ("await ask({'role': 'user', 'text': 'a'}, model=gateway)", "'text' (did you mean 'content'?)"),
    ("await ask(['Hi'], model=gateway)", A_MESSAGE + "['Hi']."),
    ("RunnerParams(messages=[{'role': 'user', 'text': 'a'}])", "'text' (did you mean 'content'?)"),
    ("ToolRunner(deps, RunnerParams(messages=question)).push_messages('Hi')", A_MESSAGE),
    ("Message.user(5)", "Message content is text or parts, not int."),
    # ---- chat and gateway
    (
        "await gateway.chat('Hi', tools=[get_weather])",
        "write tools=ToolRegistry(get_weather).specs",
    ),
    ("await gateway.chat('Hi', model=gateway)", "model must be a text such as 'openai:gpt-5-mini'"),
    ("Gateway('gpt-5-mini')", "'gpt-5-mini' is not a model. Write provider:name"),
    ("Gateway(None)", "model must be a text such as 'openai:gpt-5-mini', not None."),
    ("Gateway.from_env(gateway)", "model must be a text such as 'openai:gpt-5-mini', not Gateway("),
    ("Gateway('openai:m', transport=model, timeout='10')", "timeout must be a number of seconds"),
    ("Gateway('openai:m', transport=model, max_retries='3')", "max_retries " + WHOLE),
    ("Gateway('openai:m', transport=model, max_retries=None)", "max_retries " + WHOLE),
    ("Gateway('openai:m', transport=model, max_concurrency='3')", "max_concurrency " + WHOLE),
    ("Gateway('openai:m', transport=['Hello.'])", "transport must be a transport such as Scripted"),
    (
        "Gateway('openai:m', transport=model, on_event=[print])",
        "on_event must be a function of one",
    ),
    (
        "Gateway('openai:m', transport=model, prices={'m': 1})",
        "prices must be prices: a PriceTable",
    ),
    ("PriceTable({'m': 1.5})", "The price of 'm' must be a Price such as Price(input=0.25, "),
    ("ScriptedModel('Hello.')", "replies must be a list such as ['Hello.'], not 'Hello.'."),
    ("ScriptedModel([5.5])", "A reply is a text, a Message, a ChatResponse, the HTTP status of an"),
    (
        "await gateway.chat('one'); await gateway.chat('two')",
        "this is request 2. Its last message is of the user: 'two'",
    ),
    # ---- closed
    ("await gateway.chat('Hi'); await gateway.aclose(); await gateway.chat('Hi')", CLOSED),
    ("async with engine: pass\nawait engine.add_message('s', question[0])", CLOSED),
    ("async with engine: pass\nawait engine.history('s')", CLOSED),
    ("async with engine: pass\nawait run_tool_loop(deps, 's', 'Hi')", CLOSED),
    ("store = SqliteStore('a.db'); await store.aclose(); await store.sessions()", CLOSED),
    # ---- sessions
    (
        "ContextEngine(store='a.db')",
        "store must be a store such as SqliteStore('sessions.db'), or None, not 'a.db'.",
    ),
    (
        "ContextEngine(store=SqliteStore)",
        "store must be a store such as SqliteStore('sessions.db')",
    ),
    (
        "ContextEngine(window=8000)",
        "window must be a window such as KeepSystemAndRecent(max_tokens=",
    ),
    ("ContextEngine(token_counter='gpt')", "token_counter must be a counter such as Tiktoken"),
    ("ContextEngine(token_counter=len)", "token_counter must be a counter such as Tiktoken"),
    ("ContextEngine(compaction=0.8)", "compaction must be CompactionPolicy(gateway, thresh"),
    ("CompactionPolicy('openai:m')", A_MODEL + "'openai:m'."),
    ("CompactionPolicy(engine)", A_MODEL + "<stage1_context.engine.ContextEngine "),
    ("CompactionPolicy(gateway, threshold='0.8')", "threshold must be a number such as 0.8"),
    ("DropOldest(max_tokens='8000')", "max_tokens is '8000'; it must be an integer from 0"),
    ("SqliteStore('a.db', timeout='5')", "timeout must be a number of seconds, or None, not '5'."),
    ("await SqliteStore('no/a.db').sessions()", "cannot be created: its folder 'no' is missing."),
    (
        "await engine.create_session('s')",
        "Choose another id, or continue it with create_session('s', exist_ok=True).",
    ),
    (
        "new = engine.create_session()\ntry: await run_tool_loop(deps, new, 'Hi')\n"
        "finally: new.close()",
        "A session id is text, not coroutine. Await it: id = await engine.create_session().",
    ),
    ("await engine.history('t')", "Unknown session 't'. Sessions: 's'. Create one with create_"),
    # ---- options of a run
    (
        "ToolLoopOptions(max_tool_rounds='3')",
        "max_tool_rounds must be a whole number, or None, not ",
    ),
    ("ToolLoopOptions(max_tool_rounds=True)", "max_tool_rounds must be a whole number, or None"),
    (
        "ToolLoopOptions(max_parse_retries=None)",
        "max_parse_retries must be a whole number, not None",
    ),
    ("ToolLoopOptions(max_parallel_tools='8')", "max_parallel_tools " + WHOLE),
    ("ToolLoopOptions(temperature='0.5')", "temperature must be a number, or None, not '0.5'."),
    ("ToolLoopOptions(max_tokens=0)", "max_tokens is 0; it must be at least 1."),
    ("ToolLoopOptions(model=gateway)", "model must be a text such as 'openai:gpt-5-mini', or None"),
    ("ToolLoopOptions(dialect='prompt')", "dialect must be PromptDialect(), NativeDialect() or"),
    (
        "ToolLoopOptions(dialect=NativeDialect)",
        "dialect must be PromptDialect(), NativeDialect() or",
    ),
    (
        "ToolLoopOptions(approve=True)",
        "approve must be a function of one request, such as approve=",
    ),
    (
        "ToolLoopOptions(approve_all=print)",
        "approve_all must be True or False; the function belong",
    ),
    ("ToolLoopOptions(abort=True)", "abort must be an Abort() or an asyncio.Event(), or None"),
    ("ToolLoopOptions(cache=True)", "cache must be a ResultCache(), or None, not True."),
    ("ToolLoopOptions(variables_over='9')", "variables_over " + WHOLE),
    ("ToolLoopOptions(before_send='a')", "before_send must be a function of the messages and a"),
    ("ToolLoopOptions(on_event=5)", "on_event must be a function"),
    ("ToolLoopOptions(trace=RunFile)", TRACE),
    ("await ask('Hi', model=gateway, trace='run.jsonl')", TRACE + "'run.jsonl'."),
    ("await ask('Hi', model=gateway, trace=Path('run.jsonl'))", TRACE),
    ("await ask('Hi', model=gateway, limits={'seconds': 3})", LIMITS),
    ("async for event in run_events(deps, 's', 'Hi', limits={'seconds': 3}): pass", LIMITS),
    (
        "await ask('Hi', model=gateway, max_rounds=3)",
        "Unknown option 'max_rounds'. The options are",
    ),
    ("await run_tool_loop(deps, 's', 'Hi', {})", "not dict. Write them by name: max_tokens=500."),
    ("await run_tool_loop(gateway, 's', 'Hi')", "deps must be of type ToolLoopDeps, not Gateway."),
    ("await run_tool_loop(deps, 's', None)", "The question is missing. To continue without one"),
    (
        "RunLimits(seconds='3')",
        "The limit of seconds is '3'; it must be a number above 0, or None.",
    ),
    ("ToolLoopDeps('openai:m')", A_MODEL + "'openai:m'."),
    ("ToolLoopDeps(None)", A_MODEL + "None."),
    (
        "ToolLoopDeps(gateway.chat, gateway='openai:m')",
        "gateway must be a Gateway, or None, not 'openai:m'.",
    ),
    ("ToolLoopDeps(gateway, registry)", "context_engine must be of type ContextEngine, not"),
    (
        "ToolLoopDeps(gateway, tool_registry=get_weather)",
        "tool_registry must be a list such as",
    ),
    (
        "ToolLoopDeps(gateway, stream='yes')",
        "stream must be True, a function, or None, not 'yes'.",
    ),
    (
        "ToolLoopDeps(gateway.chat, stream=True)",
        "stream=True needs a known model: pass the gateway itself, or name it behind a function: "
        "gateway=gateway.",
    ),
    ("PromptDialect(gateway)", "controller must be an OutputController, not Gateway("),
    # ---- cost limits
    ("await ask('Hi', model=gateway, limits=RunLimits(cost=0.5))", NO_PRICES),
    ("await run_tool_loop(deps, 's', 'Hi', limits=RunLimits(cost=0.5))", NO_PRICES),
    ("ToolRunner(deps, RunnerParams(messages='Hi', limits=RunLimits(cost=0.5)))", NO_PRICES),
    (
        "options = ToolChainOptions(gateway, limits=RunLimits(cost=0.5))\n"
        "await execute_tool_chain(registry, Message.assistant('Hi'), options)",
        NO_PRICES,
    ),
    # ---- ask, runner, chain
    (
        "await ask('Hi', model=5)",
        "model must be a text such as 'openai:gpt-5-mini' or a Gateway, or",
    ),
    (
        "await ask('Hi', model=gateway.chat)",
        "model must be a text such as 'openai:gpt-5-mini' or a",
    ),
    ("await ask('Hi', model=gateway, tools=get_weather)", TOOLS),
    ("await ask('Hi', model=gateway, tools='get_weather')", TOOLS),
    ("await ask('Hi', model=gateway, tools={'f': get_weather})", TOOLS),
    ("await ask('Hi', model=gateway, tools=['f'])", "'f' is not a function. Put @tool above a"),
    ("RunnerParams(messages='Hi', tools=get_weather)", TOOLS),
    (
        "RunnerParams(session_id=5)",
        "session_id must be a text: the id of a session, or None, not 5.",
    ),
    ("RunnerParams(gateway='openai:m')", "gateway must be a Gateway, or None, not 'openai:m'."),
    (
        "await ToolRunner(deps, RunnerParams())",
        'Write RunnerParams(messages="…") for a new conversation, or RunnerParams(session_id=…) for',
    ),
    ("ToolRunner(deps, {'messages': 'Hi'})", "params must be of type RunnerParams, not dict."),
    ("ToolRunner(deps, RunnerParams(), max_iterations='3')", "max_iterations " + WHOLE),
    (
        "ToolRunner(deps, RunnerParams(), on_tool_call=True)",
        "on_tool_call must be a function of one",
    ),
    ("ToolChainOptions('openai:m')", A_MODEL + "'openai:m'."),
    ("ToolChainOptions(gateway, max_rounds='3')", "max_tool_rounds " + WHOLE),
    (
        "ToolChainOptions(gateway, system_prompt=5)",
        "system_prompt must be a text, or None, not",
    ),
    ("ToolChainOptions(gateway, limits={'seconds': 3})", LIMITS),
    # ---- tools
    (
        "Tool('add', execute=lambda arguments: 1)(1, 2)",
        "add was made with Tool(…), so it takes one dict of arguments. Call its own function, or: "
        "await registry.execute('add', {…}).",
    ),
    ("tool('get_weather')", "'get_weather' is not a function. Put @tool above a function"),
    ("tool(get_weather)", "get_weather is a tool already. Use it as it is."),
    (
        "tool(efect='read')",
        "@tool has no option 'efect'. The options are name, description, effect,",
    ),
    (
        "tool(name='f', effect='readonly')(lambda: 1)",
        "effect is 'readonly'; use 'read', 'idempotent' or 'write'.",
    ),
    ("tool(needs_approval='yes')(lambda: 1)", "has no name of its own: tool(name=…) gives it one."),
    (
        "tool(name='f', needs_approval='yes')(lambda: 1)",
        "needs_approval is 'yes'; use True, False, a function.",
    ),
    ("tool(name='f', exclusive='yes')(lambda: 1)", "exclusive is 'yes'; use True, False."),
    ("tool(name='f', timeout='10')(lambda: 1)", "timeout is '10'; it must be above 0 seconds."),
    ("registry.get('weather')", "Available tools: get_weather."),
    ("await registry.execute('get_weather', 'Rome')", "The arguments must be a JSON object, not a"),
    (
        "await execute_tool_call(registry, 'get_weather')",
        "call must be a ToolCall(",
    ),
    (
        "await execute_tool_call([get_weather], ToolCall('1', 'a'))",
        "registry must be a ToolRegistry, such",
    ),
    # ---- run files and structured output
    ("RunFile(5)", "path must be the path of a file, such as 'run.jsonl', not 5."),
    (
        "await ask('Hi', model=gateway, trace=RunFile('no/run.jsonl'))",
        "The run file 'no/run.jsonl' cannot be created: its folder 'no' is missing.",
    ),
    ("Path('run.jsonl').touch(); read_run('run.jsonl')", "run.jsonl contains no run."),
    (
        "await OutputController().request('openai:m', 'Hi', {})",
        "chat must be a Gateway or an async function, not 'openai:m'.",
    ),
    (
        "await OutputController().request(gateway, 'Hi', {}, max_attempts='3')",
        "max_attempts must be at least 1, not '3'.",
    ),
    ("await ask('Hi', model=gateway, output_type='object')", "A schema must be a JSON Schema (a"),
    ("feedback('a')", "feedback needs the result of OutputController.parse_and_validate, not 'a'."),
]


async def run(program, names=None):
    """Run a program with `await` at its top level, and return its names."""
    names = {} if names is None else names
    code = compile(SETUP + program, "<program>", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
    await eval(code, names)  # the table above
    return names


@for_each("program, sentence", MISTAKES)
async def test_a_mistake_raises_an_error_that_says_what_to_write(
    program, sentence, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(Exception, match=re.escape(sentence)) as caught:
        await run(program)
    assert not isinstance(caught.value, AttributeError)


async def test_a_text_is_one_user_message_in_each_entry():
    for program in (
        "await gateway.chat('Hi')",
        "await gateway.stream('Hi').final_message()",
        "await ToolRunner(deps, RunnerParams(messages='Hi', dialect=NativeDialect()))",
        "await OutputController().request(gateway, 'Hi', {}, max_attempts=1)",
    ):
        names = await run(program)
        sent = names["model"].requests[0].messages
        assert [message for message in sent if message.role != "system"] == names["question"]


async def test_messages_of_a_server_are_accepted_with_their_fields():
    call = {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{}"}}
    reply = {"role": "assistant", "content": None, "tool_calls": [call], "refusal": None}
    reply |= {"annotations": [], "audio": None, "function_call": None, "reasoning_content": "so"}
    result = {"role": "tool", "tool_call_id": "1", "content": "2", "name": "f"}
    names = await run(f"await gateway.chat([*question, {reply}, {result}])")
    assert names["model"].requests[0].messages[1:] == (
        Message.assistant("", [ToolCall("1", "f", "{}")]),
        Message.tool("2", "1"),
    )
    saved = {"role": "user", "content": "Hi", "from": "a later version"}
    assert Message.from_dict(saved) == Message.user("Hi")  # a saved conversation is read as it is


# ---- a limit of the cost

CALL = call("get_weather", city="Rome")


@for_each(
    "reply, usage, ending",
    [
        (CALL, Usage(9, 9), ("limit", None, ["interrupted"])),
        (answer("Sunny."), Usage(9, 9), ("limit", "Sunny.", [])),
        (CALL, None, ("limit", None, ["interrupted"])),
    ],
)
async def test_a_run_with_a_cost_limit_ends_after_a_reply_without_a_known_cost(
    reply, usage, ending
):
    model = ScriptedModel([ChatResponse(Message.assistant(reply), usage=usage, model="m-1")])
    prices = PriceTable({"openai:other": Price(1, 2)})
    async with Gateway("openai:m", transport=model, prices=prices) as gateway:
        names = await run("")
        tools = names["registry"]
        result = await ask("Hi", model=gateway, tools=tools, limits=RunLimits(cost=0.5))
    assert (result.status, result.reply, [each.result.status for each in result.history]) == ending
    reason = "The limit of 0.5 dollars cannot be applied, because the cost of a reply of 'm-1' is "
    fix = "unknown. Pass Gateway(…, prices=PriceTable({'m-1': Price(0.25, 2.0)}))"
    assert result.status_reason.startswith(
        reason + (fix if usage else "unknown: the server reported no tokens.")
    )


async def test_the_embedded_model_costs_nothing_and_free_models_have_a_price_of_zero():
    async with Gateway("offline:teacher") as gateway:
        result = await ask("Hello.", model=gateway, limits=RunLimits(cost=0.5))
    assert (result.status, result.cost) == ("completed", 0.0)
    reply = ChatResponse(Message.assistant('{"tool": null, "reply": "a"}'), usage=Usage(9, 9))
    prices = PriceTable({"ollama:m": Price(0, 0)})
    async with Gateway("ollama:m", transport=ScriptedModel([reply]), prices=prices) as gateway:
        result = await ask("Hello.", model=gateway, limits=RunLimits(cost=0.5))
    assert (result.status, result.cost) == ("completed", 0.0)


# ---- closed, and opened again


async def test_another_block_opens_a_closed_gateway_again():
    gateway = Gateway("offline:teacher")
    for _ in range(2):
        async with gateway:
            assert (await gateway.chat("Hello.")).content
        with pytest.raises(ConfigurationError, match="or open it again: `async with gateway:`"):
            await gateway.chat("Hello.")


# ---- decorated functions


async def test_a_decorated_function_is_called_like_the_function():
    @tool(effect="read")
    def double(number: int, times: int = 2) -> int:
        """Double a number."""
        return number * times

    @tool
    async def later(city: str) -> str:
        """Tell the weather."""
        return f"sunny in {city}"

    assert (double(4), double(4, times=3), double("a")) == (8, 12, "aa")
    assert await later("Rome") == "sunny in Rome"
    assert await ToolRegistry(double).execute("double", {"number": 4}) == 8
    assert replace(double, name="other")(5) == 10


def test_check_names_parameters_without_types_and_missing_return_annotations():
    @tool(effect="read")
    def look(city, day: str):
        """Tell the weather.

        Args:
            city: The city.
            day: The day.
        """

    assert list(problems_of(ToolRegistry(look))) == [
        (
            "look",
            "The parameter /city has no type, so the model may send any value: write city: str, or "
            "another type.",
        ),
        (
            "look",
            "The function has no return annotation: write -> str, or another type. A function that "
            "prints its result returns None, and the model receives null.",
        ),
    ]
