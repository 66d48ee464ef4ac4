import pytest

from stage0_gateway import ToolCall
from stage3_tools import (
    ExecutionSettings,
    ResultCache,
    Tool,
    ToolError,
    ToolOutput,
    ToolRegistry,
    execute_tool_call,
)
from stage3_tools.execution.arguments import canonical
from tests.stage3_tools.conversation import DONE, call
from tests.tables import for_each


def counting(name="look", effect="read", fails=0):
    """Return a tool that returns its number of runs, after it has failed `fails` times."""

    def run(arguments):
        run.count += 1
        if run.count <= fails:
            raise ToolError("execution", "not yet")
        return ToolOutput({"run": run.count}, details="shown to users")

    run.count = 0
    return Tool(name, "", None, run, effect=effect)


class SessionCalls:
    """A function that runs calls of one session with one cache."""

    def __init__(self, cache, *tools, session="s"):
        self.registry, self.execution = (
            ToolRegistry(*tools),
            ExecutionSettings(session, cache=cache),
        )

    async def __call__(self, name="look", arguments="{}"):
        result = await execute_tool_call(
            self.registry, ToolCall("c", name, arguments), self.execution
        )
        return result.output, result.cached


async def test_a_repeated_read_is_answered_from_the_cache_with_its_details():
    run_call = SessionCalls(ResultCache(), counting())
    assert await run_call() == ('{"run":1}', False)
    assert await run_call() == ('{"run":1}', True)
    result = await execute_tool_call(
        run_call.registry, ToolCall("c2", "look", "{}"), run_call.execution
    )
    assert (result.call_id, result.details, result.attempts, result.status) == (
        "c2",
        "shown to users",
        0,
        "completed",
    )


async def test_the_cache_ignores_key_order_and_whitespace_of_arguments():
    run_call = SessionCalls(ResultCache(), counting())
    await run_call(arguments='{"a": 1, "b": [1, 2]}')
    assert await run_call(arguments='{"b":[1,2],"a":1}') == ('{"run":1}', True)
    assert await run_call(arguments='{"a": 2, "b": [1, 2]}') == ('{"run":2}', False)


def test_equal_numbers_and_booleans_have_different_cache_keys():
    assert len({canonical({"a": value}) for value in (1, 1.0, True, "1", None)}) == 5


@for_each("effect", ["write", "idempotent"])
async def test_only_reads_are_cached(effect):
    run_call = SessionCalls(ResultCache(), counting(effect=effect))
    assert [await run_call(), await run_call()] == [('{"run":1}', False), ('{"run":2}', False)]


async def test_failures_are_not_cached():
    run_call = SessionCalls(ResultCache(), counting(fails=1))
    assert (await run_call())[0].startswith("Error")
    assert [await run_call(), await run_call()] == [('{"run":2}', False), ('{"run":2}', True)]


@for_each("fails", [0, 1])
@for_each("effect", ["write", "idempotent"])
async def test_writes_and_idempotent_calls_clear_the_cache(effect, fails):
    run_call = SessionCalls(ResultCache(), counting(), counting("change", effect, fails))
    await run_call()
    await run_call("change")
    assert await run_call() == ('{"run":2}', False)


async def test_a_read_that_began_before_a_write_is_not_cached():
    cache = ResultCache()
    run_write = SessionCalls(cache, counting("change", "write"))

    async def look(arguments):
        await run_write("change")
        return "as it was"

    run_call = SessionCalls(cache, Tool("look", "", None, look, effect="read"))
    assert [await run_call(), await run_call()] == [("as it was", False)] * 2


@for_each("shared, known", [(False, False), (True, True)])
async def test_sessions_share_cached_results_only_in_a_shared_cache(shared, known):
    cache, look = ResultCache(shared=shared), counting()
    await SessionCalls(cache, look, session="Ann")()
    assert (await SessionCalls(cache, look, session="Bob")())[1] is known


async def test_a_write_in_one_session_clears_the_results_of_all_sessions():
    cache, look = ResultCache(), counting()
    ann = SessionCalls(cache, look, session="Ann")
    await ann()
    await SessionCalls(cache, counting("change", "write"), session="Bob")("change")
    assert await ann() == ('{"run":2}', False)


async def test_another_tool_of_the_same_name_does_not_use_the_cached_result():
    cache = ResultCache()
    await SessionCalls(cache, counting())()
    assert await SessionCalls(cache, counting())() == ('{"run":1}', False)


async def test_a_full_cache_evicts_the_least_recently_used_result():
    cache = ResultCache(max_entries=2)
    run_call = SessionCalls(cache, counting())
    for n in (1, 2, 1, 3):
        await run_call(arguments=f'{{"n": {n}}}')
    assert len(cache) == 2
    assert [(await run_call(arguments=f'{{"n": {n}}}'))[1] for n in (1, 3, 2)] == [
        True,
        True,
        False,
    ]


def test_a_cache_with_max_entries_0_raises_a_value_error():
    with pytest.raises(ValueError, match="max_entries is 0; use at least 1"):
        ResultCache(max_entries=0)


async def test_a_note_for_one_call_is_not_cached():
    notes = iter([" (first)", ""])
    execution = ExecutionSettings("s", cache=ResultCache(), screen=lambda call: next(notes))
    registry = ToolRegistry(counting())
    results = [
        await execute_tool_call(registry, ToolCall("c", "look", "{}"), execution) for _ in range(2)
    ]
    assert [each.as_message().text for each in results] == ['{"run":1} (first)', '{"run":1}']


async def test_a_tool_that_mutates_its_arguments_does_not_corrupt_the_cache_key():
    def look(arguments):
        arguments["list"].append(1)
        return len(arguments["list"])

    run_call = SessionCalls(ResultCache(), Tool("look", "", None, look, effect="read"))
    assert await run_call(arguments='{"list": []}') == ("1", False)
    assert await run_call(arguments='{"list": []}') == ("1", True)
    assert await run_call(arguments='{"list": [1]}') == ("2", False)


async def test_cached_calls_count_toward_the_round_limit(new_conversation):
    asks = call("look")
    other = call("look", n=1)
    done = DONE
    conversation = new_conversation([asks, other, asks, other, done], counting())
    result = await conversation.ask(cache=ResultCache(), max_tool_rounds=4)
    assert (result.status, result.tool_rounds) == ("max_rounds", 4)
    assert [each.result.cached for each in result.history] == [False, False, True, True]
