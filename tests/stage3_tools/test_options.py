import pytest

from stage1_context import ContextEngine
from stage2_output import OutputController
from stage3_tools import PromptDialect, ToolLoopDeps, ToolLoopOptions, ToolRegistry


@pytest.mark.parametrize(
    ("name", "value", "least"),
    [
        ("max_tool_rounds", -1, 0),
        ("max_parse_retries", -1, 0),
        ("max_parallel_tools", 0, 1),
        ("max_result_chars", 0, 1),
    ],
)
def test_a_number_that_makes_no_sense_is_refused(name, value, least):
    with pytest.raises(ValueError, match=f"{name} is {value}; it must be at least {least}."):
        ToolLoopOptions(**{name: value})


def test_zero_rounds_and_results_of_any_length_are_fine():
    assert ToolLoopOptions(max_tool_rounds=0, max_result_chars=None).max_result_chars is None


def test_an_unknown_option_is_an_error_and_not_ignored():
    with pytest.raises(TypeError, match="max_rounds"):
        ToolLoopOptions(max_rounds=3)


def test_an_async_listener_that_nobody_would_await_is_refused():
    async def listen(event): ...

    with pytest.raises(ValueError, match="on_event must be a plain function"):
        ToolLoopOptions(on_event=listen)


@pytest.mark.parametrize(
    ("place", "told"),
    [
        (0, "chat must be a function such as gateway.chat, not str"),
        (1, "context_engine must be of type ContextEngine, not str"),
        (2, "output_controller must be of type OutputController, not str"),
        (3, "tool_registry must be of type ToolRegistry, not str"),
    ],
)
def test_a_piece_in_the_wrong_place_is_named(place, told):
    async def chat(messages, **settings):
        return None

    pieces = [chat, ContextEngine(), OutputController(), ToolRegistry()]
    pieces[place] = "?"
    with pytest.raises(TypeError, match=told):
        ToolLoopDeps(*pieces)


@pytest.mark.parametrize("dialect", [PromptDialect, "native", 1])
def test_a_dialect_is_an_instance_of_one(dialect):
    with pytest.raises(
        TypeError, match=r"dialect must be PromptDialect\(\), NativeDialect\(\) or an object"
    ):
        ToolLoopOptions(dialect=dialect)
