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


def counting(name="look", effect="read", fails=0):
    """Return a tool that returns its number of runs, after it has failed `fails` times."""

    def run(arguments):
        run.count += 1
        if run.count <= fails:
            raise ToolError("execution", "not yet")
        return ToolOutput({"run": run.count}, details="for people")

    run.count = 0
    return Tool(name, "", None, run, effect=effect)


class Asking:
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
    asking = Asking(ResultCache(), counting())
    assert await asking() == ('{"run":1}', False)
    assert await asking() == ('{"run":1}', True)
    result = await execute_tool_call(
        asking.registry, ToolCall("c2", "look", "{}"), asking.execution
    )
    assert (result.call_id, result.details, result.attempts, result.status) == (
        "c2",
        "for people",
        0,
        "completed",
    )


async def test_the_cache_ignores_key_order_and_whitespace_of_arguments():
    asking = Asking(ResultCache(), counting())
    await asking(arguments='{"a": 1, "b": [1, 2]}')
    assert await asking(arguments='{"b":[1,2],"a":1}') == ('{"run":1}', True)
    assert await asking(arguments='{"a": 2, "b": [1, 2]}') == ('{"run":2}', False)


def test_equal_numbers_and_booleans_have_different_cache_keys():
    assert len({canonical({"a": value}) for value in (1, 1.0, True, "1", None)}) == 5


@pytest.mark.parametrize("effect", ["write", "idempotent"])
async def test_only_reads_are_cached(effect):
    asking = Asking(ResultCache(), counting(effect=effect))
    assert [await asking(), await asking()] == [('{"run":1}', False), ('{"run":2}', False)]


async def test_failures_are_not_cached():
    asking = Asking(ResultCache(), counting(fails=1))
    assert (await asking())[0].startswith("Error")
    assert [await asking(), await asking()] == [('{"run":2}', False), ('{"run":2}', True)]


@pytest.mark.parametrize("fails", [0, 1], ids=["done", "failed"])
@pytest.mark.parametrize("effect", ["write", "idempotent"])
async def test_writes_and_idempotent_calls_clear_the_cache(effect, fails):
    asking = Asking(ResultCache(), counting(), counting("change", effect, fails))
    await asking()
    await asking("change")
    assert await asking() == ('{"run":2}', False)


async def test_a_read_that_began_before_a_write_is_not_cached():
    cache = ResultCache()
    writing = Asking(cache, counting("change", "write"))

    async def look(arguments):
        await writing("change")
        return "as it was"

    asking = Asking(cache, Tool("look", "", None, look, effect="read"))
    assert [await asking(), await asking()] == [("as it was", False)] * 2


@pytest.mark.parametrize(("shared", "known"), [(False, False), (True, True)])
async def test_sessions_share_cached_results_only_in_a_shared_cache(shared, known):
    cache, look = ResultCache(shared=shared), counting()
    await Asking(cache, look, session="Ann")()
    assert (await Asking(cache, look, session="Bob")())[1] is known


async def test_a_write_in_one_session_clears_the_results_of_all_sessions():
    cache, look = ResultCache(), counting()
    ann = Asking(cache, look, session="Ann")
    await ann()
    await Asking(cache, counting("change", "write"), session="Bob")("change")
    assert await ann() == ('{"run":2}', False)


async def test_another_tool_of_the_same_name_does_not_use_the_cached_result():
    cache = ResultCache()
    await Asking(cache, counting())()
    assert await Asking(cache, counting())() == ('{"run":1}', False)


async def test_a_full_cache_evicts_the_least_recently_used_result():
    cache = ResultCache(max_entries=2)
    asking = Asking(cache, counting())
    for n in (1, 2, 1, 3):
        await asking(arguments=f'{{"n": {n}}}')
    assert len(cache) == 2
    assert [(await asking(arguments=f'{{"n": {n}}}'))[1] for n in (1, 3, 2)] == [True, True, False]


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

    asking = Asking(ResultCache(), Tool("look", "", None, look, effect="read"))
    assert await asking(arguments='{"list": []}') == ("1", False)
    assert await asking(arguments='{"list": []}') == ("1", True)
    assert await asking(arguments='{"list": [1]}') == ("2", False)


async def test_cached_calls_count_toward_the_round_limit(new_conversation):
    asks = '{"tool": "look", "arguments": {}}'
    other = '{"tool": "look", "arguments": {"n": 1}}'
    done = '{"tool": null, "reply": "done"}'
    conversation = new_conversation([asks, other, asks, other, done], counting())
    result = await conversation.ask(cache=ResultCache(), max_tool_rounds=4)
    assert (result.status, result.tool_rounds) == ("max_rounds", 4)
    assert [each.result.cached for each in result.history] == [False, False, True, True]
