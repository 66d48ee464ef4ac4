import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from stage0_gateway import ToolCall
from stage3_tools import (
    RegistrationError,
    Tool,
    ToolError,
    ToolRegistry,
    build_tool_system_prompt,
    execute_tool_call,
)
from stage3_tools.registry_view import ExtendedRegistry


def named(name, execute=lambda arguments: "ok"):
    return Tool(name, "", None, execute)


@pytest.fixture
def registry():
    return ToolRegistry(*map(named, ("files.read", "files.write", "web.get", "add")))


def test_a_subset_shows_the_tools_of_these_names_in_the_order_they_were_registered(registry):
    view = registry.subset("add", "files.read")
    assert view.list() == [registry.get("files.read"), registry.get("add")]
    assert (view.names, len(view), repr(view)) == (
        ("files.read", "add"),
        2,
        "RegistryView(files.read, add)",
    )
    assert ("add" in view, "web.get" in view, None in view) == (True, False, False)
    assert view.get("add") is registry.get("add")


def test_a_group_shows_the_tools_whose_names_begin_so(registry):
    view = registry.group("files.")
    assert (view.names, len(view), repr(view)) == (
        ("files.read", "files.write"),
        2,
        "RegistryView(files.read, files.write)",
    )
    assert ("files.read" in view, "add" in view) == (True, False)


def test_a_view_may_be_empty(registry):
    assert (registry.subset().names, registry.group("mail.").names) == ((), ())
    assert (len(registry.subset()), repr(registry.group("mail."))) == (0, "RegistryView()")


def test_a_subset_with_an_unknown_name_is_refused_with_the_nearest(registry):
    with pytest.raises(RegistrationError) as caught:
        registry.subset("add", "files.red")
    assert str(caught.value) == (
        "There is no tool named 'files.red'. Available tools: files.read, files.write, web.get, add. "
        "Did you mean files.read?"
    )


def test_a_view_shows_what_comes_and_goes_at_once(registry):
    subset, group = registry.subset("add", "files.read"), registry.group("files.")
    registry.unregister("files.read")
    assert (subset.names, group.names) == (("add",), ("files.write",))
    assert "files.read" not in subset
    again = registry.register(named("files.read"))
    delete = registry.register(named("files.delete"))
    assert (subset.names, subset.get("files.read")) == (("add", "files.read"), again)
    assert group.names == ("files.write", "files.read", "files.delete")
    assert group.get("files.delete") is delete


@pytest.mark.parametrize("asked", ["web.gte", "web.get"], ids=["unknown", "outside"])
def test_a_view_tells_only_of_its_own_tools(registry, asked):
    with pytest.raises(ToolError) as caught:
        registry.group("files.").get(asked)
    error = caught.value
    assert (error.kind, error.hint) == ("not_found", None)
    assert (
        error.message
        == f"There is no tool named '{asked}'. Available tools: files.read, files.write."
    )
    assert error.details == {
        "expected_schema": None,
        "issues": (),
        "available_tools": ("files.read", "files.write"),
    }


def test_a_model_is_told_of_the_tools_of_a_view_only(registry):
    prompt = build_tool_system_prompt(registry.group("files."))
    assert [name in prompt for name in registry.names] == [True, True, False, False]


async def test_a_view_executes_its_tools_and_no_others(registry):
    def failing(arguments):
        raise ValueError("no")

    registry.register(named("files.fail", failing))
    view = registry.group("files.")
    assert await view.execute("files.read", {}) == "ok"
    with pytest.raises(ToolError, match="no tool named 'add'"):
        await view.execute("add", {})
    with pytest.raises(ToolError) as caught:
        await view.execute("files.fail", {})
    assert caught.value.details["available_tools"] == ("files.read", "files.write", "files.fail")


def test_a_view_of_a_view_shows_what_both_show(registry):
    inner = registry.group("files.").subset("files.read")
    with pytest.raises(RegistrationError) as caught:
        registry.group("files.").subset("add")
    assert (
        str(caught.value)
        == "There is no tool named 'add'. Available tools: files.read, files.write."
    )
    assert inner.names == ("files.read",)
    assert registry.subset("add", "web.get").group("web").names == ("web.get",)
    assert inner.group("add").names == ()


@pytest.mark.parametrize(
    "change",
    [
        lambda view: view.register(named("new"), named("newer")),
        lambda view: view.unregister("files.read"),
    ],
    ids=["register", "unregister"],
)
def test_a_view_cannot_be_changed_and_says_where_to_do_it(registry, change):
    with pytest.raises(RegistrationError) as caught:
        change(registry.group("files."))
    assert str(caught.value) == (
        "A view only shows tools. Change the registry that it was made from; the view shows the change."
    )
    assert len(registry) == 4


def test_an_extended_registry_has_one_tool_more_and_it_comes_last(registry):
    more = named("more")
    extended = ExtendedRegistry(registry, more)
    assert extended.names == (*registry.names, "more")
    assert (len(extended), extended.get("more"), "more" in extended) == (5, more, True)
    assert extended.list() == [*registry.list(), more]
    assert ("more" in registry, "none" in extended, None in extended) == (False, False, False)
    assert repr(extended) == "ExtendedRegistry(files.read, files.write, web.get, add, more)"


def test_a_tool_of_the_registry_goes_before_the_one_that_was_added(registry):
    more = named("more")
    extended = ExtendedRegistry(registry, more)
    assert extended.get("more") is more
    own = registry.register(named("more"))
    assert (extended.get("more"), extended.names, len(extended)) == (own, registry.names, 5)
    registry.unregister("more")
    assert (extended.get("more"), extended.names[-1]) == (more, "more")


def test_what_changes_in_the_registry_shows_and_nothing_can_be_added(registry):
    extended = ExtendedRegistry(registry, named("more"))
    registry.register(named("new"))
    assert extended.names[-2:] == ("new", "more")
    with pytest.raises(RegistrationError, match="A view only shows tools"):
        extended.register(named("other"))
    with pytest.raises(RegistrationError, match="A view only shows tools"):
        extended.unregister("more")


def test_an_extended_view_shows_what_the_view_shows_and_can_be_viewed_itself(registry):
    extended = ExtendedRegistry(registry.group("files."), named("more"))
    assert extended.names == ("files.read", "files.write", "more")
    assert extended.subset("more", "files.read").names == ("files.read", "more")
    assert ExtendedRegistry(ToolRegistry(), named("more")).names == ("more",)
    with pytest.raises(
        ToolError, match=r"There is no tool named 'web\.get'\. Available tools: .*, more\."
    ):
        extended.get("web.get")


async def test_a_model_is_told_of_the_tool_that_was_added_and_may_call_it(registry):
    extended = ExtendedRegistry(registry, named("more", lambda arguments: "more"))
    assert '"more"' in build_tool_system_prompt(extended)
    result = await execute_tool_call(extended, ToolCall("c", "more", "{}"))
    assert (result.output, result.status) == ("more", "completed")


NAMES = ["a.x", "a.y", "b.x", "a", "c"]
PARTS = {
    "subset": (lambda registry: registry.subset("a.x", "b.x"), lambda name: name in ("a.x", "b.x")),
    "group": (lambda registry: registry.group("a"), lambda name: name.startswith("a")),
    "view of a view": (
        lambda registry: registry.group("a").group("a."),
        lambda name: name.startswith("a."),
    ),
}


@given(st.lists(st.lists(st.sampled_from(NAMES), unique=True, min_size=1), max_size=12))
@settings(max_examples=60)
def test_whatever_happens_a_view_is_the_part_of_its_registry(steps):
    """Each step takes away the tools that are there, and registers those that are not."""
    tools = {name: named(name) for name in NAMES}
    registry = ToolRegistry(*tools.values())
    there, views = list(NAMES), {part: make(registry) for part, (make, _) in PARTS.items()}
    for step in steps:
        for name in step:
            if name in there:
                assert registry.unregister(name) is tools[name]
        registry.register(*(tools[name] for name in step if name not in there))
        there = [name for name in there if name not in step] + [
            name for name in step if name not in there
        ]
        same(registry, views, there, tools)


def same(registry, views, there, tools):
    """Each view is what a plain list says."""
    assert registry.names == tuple(there)
    for part, (_, shows) in PARTS.items():
        view, expected = views[part], [name for name in there if shows(name)]
        assert (view.names, len(view), view.list()) == (
            tuple(expected),
            len(expected),
            [tools[name] for name in expected],
        )
        assert [name for name in NAMES if name in view] == [
            name for name in NAMES if name in expected
        ]
