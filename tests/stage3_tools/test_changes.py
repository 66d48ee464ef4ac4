import pytest

from stage3_tools import RegistrationError, Tool, ToolRegistry
from stage3_tools.changes import RegistryChange


def named(name):
    return Tool(name, "", None, lambda arguments: None)


def words(changes):
    return [f"{each.kind} {each.tool.name}" for each in changes]


def test_a_listener_is_told_of_each_change_from_now_on():
    registry, heard = ToolRegistry(named("before")), []
    registry.on_change(heard.append)
    a, b = registry.register(named("a"), named("b"))
    registry.unregister("a")
    assert heard == [
        RegistryChange("registered", a),
        RegistryChange("registered", b),
        RegistryChange("unregistered", a),
    ]


def test_a_listener_is_told_when_the_change_has_been_made():
    registry, seen = ToolRegistry(), []
    registry.on_change(lambda change: seen.append((registry.names, registry.version)))
    registry.register(named("a"), named("b"))
    registry.unregister("a")
    assert seen == [(("a", "b"), 2), (("a", "b"), 2), (("b",), 3)]


def test_a_listener_that_was_stopped_is_told_no_more_and_may_be_stopped_twice():
    registry, heard, others = ToolRegistry(), [], []
    stop = registry.on_change(heard.append)
    registry.on_change(others.append)
    registry.register(named("a"))
    stop()
    stop()
    registry.register(named("b"))
    assert (words(heard), words(others)) == (["registered a"], ["registered a", "registered b"])


def test_a_listener_that_was_added_twice_is_told_twice_and_stopped_once():
    registry, heard = ToolRegistry(), []
    stop = registry.on_change(heard.append)
    registry.on_change(heard.append)
    registry.register(named("a"))
    stop()
    registry.register(named("b"))
    assert words(heard) == ["registered a", "registered a", "registered b"]


def test_a_listener_that_raises_undoes_nothing_and_keeps_nothing_from_the_others():
    registry, heard = ToolRegistry(), []

    def failing(change):
        raise LookupError(f"first {change.tool.name}")

    def failing_too(change):
        raise OSError("second")

    registry.on_change(failing)
    registry.on_change(failing_too)
    registry.on_change(heard.append)
    with pytest.raises(LookupError, match="first a"):
        registry.register(named("a"), named("b"))
    assert (registry.names, words(heard)) == (("a", "b"), ["registered a", "registered b"])
    with pytest.raises(LookupError):
        registry.unregister("a")
    assert registry.names == ("b",)


def test_changes_that_a_listener_makes_are_told_to_all_in_the_order_they_were_made():
    registry, heard = ToolRegistry(), []

    def refusing(change):
        if change == RegistryChange("registered", bad):
            registry.unregister("bad")
            registry.register(named("good"))

    bad = named("bad")
    registry.on_change(refusing)
    registry.on_change(heard.append)
    registry.register(bad, named("last"))
    assert words(heard) == [
        "registered bad",
        "registered last",
        "unregistered bad",
        "registered good",
    ]
    assert registry.names == ("last", "good")


def test_a_listener_that_another_one_stops_is_not_told_any_more():
    registry, heard, stops = ToolRegistry(), [], []
    registry.on_change(lambda change: stops[0]())
    stops.append(registry.on_change(heard.append))
    registry.register(named("a"))
    assert heard == []


def test_a_listener_that_another_one_adds_is_told_of_what_changes_after_that():
    registry, heard = ToolRegistry(), []

    def adding(change):
        if change.tool.name == "a":
            registry.on_change(heard.append)
            registry.register(named("c"))

    registry.on_change(adding)
    registry.register(named("a"), named("b"))
    assert words(heard) == ["registered c"]


def test_after_an_interruption_what_was_not_told_is_told_with_the_next_change():
    registry, heard = ToolRegistry(), []

    def interrupted(change):
        if change.tool.name == "a":
            raise KeyboardInterrupt

    registry.on_change(interrupted)
    registry.on_change(heard.append)
    with pytest.raises(KeyboardInterrupt):
        registry.register(named("a"), named("b"))
    registry.register(named("c"))
    assert words(heard) == ["registered b", "registered c"]


def test_a_listener_that_is_empty_is_a_listener():
    class Mirror(dict):
        def __call__(self, change):
            self[change.tool.name] = change.kind

    registry, mirror = ToolRegistry(), Mirror()
    registry.on_change(mirror)
    registry.register(named("a"))
    assert mirror == {"a": "registered"}


async def asynchronous(change): ...


@pytest.mark.parametrize("given", [None, asynchronous], ids=["None", "async"])
def test_what_cannot_be_told_is_refused_at_once(given):
    registry = ToolRegistry()
    with pytest.raises(RegistrationError) as caught:
        registry.on_change(given)
    assert str(caught.value) == f"{given!r} cannot be told of changes; give a plain function."
    registry.register(named("a"))
