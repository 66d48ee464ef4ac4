import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway import Message
from stage1_context import (
    ContextEngine,
    KeepSystemAndRecent,
    MemoryStore,
    SessionNotFound,
    SqliteStore,
    VariableNotFound,
    VariableStore,
)
from tests.random_values import json_values
from tests.stage1_context.sessions import ONE, engine_with, user
from tests.tables import for_each

reference = VariableStore.reference


async def variables_in(store):
    """Return the variables of a store with the sessions "s", which has a message, and "other"."""
    await store.create("s", ONE)
    await store.create("other")
    return VariableStore(store)


@pytest.fixture
async def variables():
    return await variables_in(MemoryStore())


# ---- put and get


async def test_a_stored_value_is_returned_by_its_id(store):
    variables = await variables_in(store)
    first, second = await variables.put("s", [1, "two", None]), await variables.put("s", "text")
    assert (first, second) == ("var_2", "var_3")
    assert await variables.get("s", first) == [1, "two", None]
    assert await variables.get("s", second) == "text"


@given(json_values(st.text()))
async def test_any_json_value_can_be_stored(value):
    variables = VariableStore()
    found = await variables.get("s", await variables.put("s", value))
    assert found == value
    assert json.dumps(found) == json.dumps(value)


async def test_a_value_is_copied_when_it_is_stored_and_when_it_is_read(variables):
    value = {"list": [1]}
    id = await variables.put("s", value)
    value["list"].append(2)
    (await variables.get("s", id))["list"].append(3)
    (await variables.expand("s", {"x": reference(id)}))["x"]["list"].append(4)
    assert await variables.get("s", id) == {"list": [1]}


async def test_two_references_to_one_variable_expand_to_separate_copies(variables):
    id = await variables.put("s", [1])
    expanded = await variables.expand("s", {"x": reference(id), "y": [reference(id)]})
    expanded["x"].append(2)
    assert expanded["y"] == [[1]]


@for_each(
    "wrong",
    [
        {1, 2},
        object(),
        b"bytes",
        float("nan"),
        [float("inf")],
        {"deep": 1j},
        Message.user("hi"),
        {(1, 2): 3},
    ],
)
async def test_a_value_that_is_not_json_is_rejected_and_not_stored(variables, wrong):
    with pytest.raises(ValueError, match="cannot be written as JSON"):
        await variables.put("s", wrong)
    assert await variables.list("s") == []


async def test_a_circular_or_too_deep_value_is_rejected(variables):
    value = []
    value.append(value)
    deep = []
    for _ in range(100_000):
        deep = [deep]
    for wrong in (value, deep):
        with pytest.raises(ValueError, match="cannot be written as JSON"):
            await variables.put("s", wrong)


async def test_using_variables_of_an_unknown_session_raises_an_error(variables):
    for ask in (
        variables.put("gone", 1),
        variables.get("gone", "var_1"),
        variables.expand("gone", reference("var_1")),
        variables.list("gone"),
        variables.delete("gone", "var_1"),
    ):
        with pytest.raises(SessionNotFound):
            await ask


HOSTILE = [
    "",
    "2",
    "var_",
    "var_0",
    "var_1",  # a message
    "var_3",
    "var_-1",
    "var_+2",
    "var_2 ",
    "var_2\n",
    "VAR_2",
    "var_2.0",
    "var_1e1",
    "var_0x2",
    "var_" + "9" * 18,
    "var_" + "9" * 5000,
    "../var_2",
    "var_2' OR '1'='1",
    "var_2\0",
    "half \ud83d",
    "$VAR_REF{{var_2}}",
]


async def test_an_unknown_variable_id_raises_an_error_that_lists_the_existing_variables(
    store, subtests
):
    variables = await variables_in(store)
    await variables.put("s", "secret")
    for id in HOSTILE:
        for use in (variables.get, variables.delete):
            with subtests.test(id=id), pytest.raises(VariableNotFound) as caught:
                await use("s", id)
            assert (
                str(caught.value) == f"Unknown variable {id!r} in this session. Variables: var_2."
            )
    assert await variables.get("s", "var_2") == "secret"


async def test_the_error_of_an_unknown_variable_lists_at_most_five_variables(variables):
    with pytest.raises(VariableNotFound, match=r"Variables: none yet\.$"):
        await variables.get("s", "var_1")
    for number in range(7):
        await variables.put("s", number)
    with pytest.raises(VariableNotFound, match=r"Variables: var_4, var_5, var_6, var_7, var_8\.$"):
        await variables.get("s", "var_1")


async def test_variables_of_another_session_cannot_be_read(variables):
    await variables.put("other", "first")
    id = await variables.put("other", "secret")
    for ask in (variables.get("s", id), variables.expand("s", {"x": reference(id)})):
        with pytest.raises(VariableNotFound, match="Variables: none yet") as caught:
            await ask
        assert "secret" not in str(caught.value)


# ---- list and delete


async def test_the_variables_of_a_session_are_listed_oldest_first(variables):
    assert await variables.list("s") == []
    ids = [await variables.put("s", number) for number in range(3)]
    await variables.put("other", "x")
    assert await variables.list("s") == ids == ["var_2", "var_3", "var_4"]
    assert await variables.list("other") == ["var_1"]


async def test_a_deleted_variable_is_not_found_and_the_others_stay(store):
    variables = await variables_in(store)
    ids = [await variables.put("s", number) for number in range(3)]
    await variables.delete("s", ids[1])
    assert await variables.list("s") == [ids[0], ids[2]]
    assert [await variables.get("s", ids[0]), await variables.get("s", ids[2])] == [0, 2]
    text = r"Unknown variable 'var_3' in this session\. Variables: var_2, var_4\."
    for ask in (
        variables.get("s", ids[1]),
        variables.expand("s", reference(ids[1])),
        variables.delete("s", ids[1]),
    ):
        with pytest.raises(VariableNotFound, match=text):
            await ask


async def test_the_id_of_a_deleted_variable_is_not_used_again(variables):
    first = await variables.put("s", 1)
    await variables.delete("s", first)
    second = await variables.put("s", 2)
    assert second != first
    assert await variables.list("s") == [second]


async def test_deleting_a_variable_does_not_affect_other_sessions_or_stores(variables):
    for session in ("s", "s", "other", "other"):
        await variables.put(session, session)
    await variables.delete("s", "var_2")
    assert await variables.get("other", "var_2") == "other"
    one = VariableStore(mark="a1")
    id = await one.put("s", 1)
    assert await one.list("s") == [id] == ["var_a1_1"]
    await one.delete("s", id)
    assert await one.list("s") == []


async def test_an_exported_session_carries_the_deletion_and_the_value():
    engine, copy = await engine_with(user(1)), ContextEngine()
    kept = await engine.variables.put("s", "kept")
    await engine.variables.delete("s", await engine.variables.put("s", "deleted"))
    text = await engine.export_session("s")
    assert '"value": "deleted"' in text
    await copy.import_session(text)
    assert await copy.variables.list("s") == [kept]
    assert (await copy.history("s")).messages == (user(1),)


# ---- references


@given(json_values(st.text()))
async def test_a_text_that_consists_of_one_reference_becomes_the_value_of_any_type(value):
    variables = VariableStore()
    id = await variables.put("s", value)
    expanded = await variables.expand("s", {"a": [{"b": reference(id)}], "c": 1})
    assert expanded == {"a": [{"b": value}], "c": 1}
    assert type(expanded["a"][0]["b"]) is type(value)
    assert await variables.expand("s", reference(id)) == value


@for_each(
    "value, text",
    [
        ("five", "is five!"),
        (5, "is 5!"),
        (None, "is null!"),
        (True, "is true!"),
        ({"naïve": [1]}, 'is {"naïve": [1]}!'),
        ("a \\1 \\g<0>", "is a \\1 \\g<0>!"),
    ],
)
async def test_a_reference_inside_a_longer_text_becomes_text(variables, value, text):
    id = await variables.put("s", value)
    assert await variables.expand("s", {"x": f"is {reference(id)}!"}) == {"x": text}


async def test_one_text_may_contain_several_references(variables):
    one, two = await variables.put("s", 1), await variables.put("s", "zwei")
    text = f"{reference(one)}{reference(two)} and {reference(one)}"
    assert await variables.expand("s", text) == "1zwei and 1"
    assert await variables.expand("s", reference(one) * 2) == "11"


async def test_spaces_are_ignored_inside_a_reference_but_spaces_around_it_make_it_a_text(
    variables,
):
    id = await variables.put("s", 5)
    assert await variables.expand("s", [f"$VAR_REF{{{{ {id} }}}}", f" {reference(id)}"]) == [
        5,
        " 5",
    ]


async def test_a_reference_inside_a_value_is_not_expanded(variables):
    inner = await variables.put("s", "inner")
    outer = await variables.put("s", {"x": reference(inner)})
    text = await variables.put("s", f"see {reference(inner)}")
    arguments = {"whole": reference(outer), "inside": f"<{reference(text)}>"}
    assert await variables.expand("s", arguments) == {
        "whole": {"x": reference(inner)},
        "inside": f"<see {reference(inner)}>",
    }


@for_each("arguments", [{}, [], None, 5, "x", {"x": "$VAR_REF{{}}"}, {"x": ["$VAR_REF{var_2}"]}])
async def test_arguments_without_references_are_unchanged(variables, arguments):
    await variables.put("s", "secret")
    assert await variables.expand("s", arguments) == arguments


async def test_keys_are_not_expanded_and_the_given_arguments_are_not_changed(variables):
    id = await variables.put("s", 5)
    arguments = {reference(id): [reference(id)]}
    assert await variables.expand("s", arguments) == {reference(id): [5]}
    assert arguments == {reference(id): [reference(id)]}


async def test_one_unknown_reference_makes_the_whole_expansion_fail(variables):
    id = await variables.put("s", 5)
    with pytest.raises(
        VariableNotFound, match=r"Unknown variable 'var_9' in this session\. Variables: var_2\."
    ):
        await variables.expand("s", {"x": reference(id), "y": f"see {reference('var_9')}"})


# ---- storage


async def test_without_a_store_variables_are_kept_in_memory_for_any_session_id():
    variables = VariableStore()
    with pytest.raises(VariableNotFound, match="none yet"):
        await variables.get("a", "var_1")
    with pytest.raises(VariableNotFound, match="none yet"):
        await variables.expand("b", reference("var_1"))
    ids = [await variables.put("a", 1), await variables.put("a", 2), await variables.put("b", 3)]
    assert ids == ["var_1", "var_2", "var_1"]
    assert [await variables.get("a", "var_2"), await variables.get("b", "var_1")] == [2, 3]
    await VariableStore().check("c")
    with pytest.raises(SessionNotFound):
        await VariableStore(MemoryStore()).check("c")


async def test_variables_in_a_file_are_available_after_it_is_opened_again(tmp_path):
    async with ContextEngine(store=SqliteStore(tmp_path / "s.db")) as engine:
        await engine.create_session("s", system_prompt="be brief")
        id = await engine.variables.put("s", {"long": "text"})
    async with ContextEngine(store=SqliteStore(tmp_path / "s.db")) as engine:
        assert await engine.variables.get("s", id) == {"long": "text"}


async def test_variables_between_messages_change_neither_the_history_nor_the_window():
    plain, mixed = [
        await engine_with(Message.system("be brief"), window=KeepSystemAndRecent(max_messages=3))
        for _ in range(2)
    ]
    for engine in (plain, mixed):
        for number in range(60):
            await engine.add_message("s", user(number))
            if engine is mixed:
                await engine.variables.put("s", "x" * 1000)
    fresh = ContextEngine(store=mixed.store, window=KeepSystemAndRecent(max_messages=3))
    for engine in (mixed, fresh):
        assert await engine.messages_for_request("s") == await plain.messages_for_request("s")
        assert (await engine.history("s")).messages == (await plain.history("s")).messages
        assert len((await engine.explain("s")).messages) == 61


async def test_a_variable_id_of_another_store_is_unknown():
    one, other = VariableStore(mark="a1"), VariableStore(mark="b2")
    id = await one.put("s", "one")
    assert await other.put("s", "other") == "var_b2_1"
    assert (id, await one.get("s", id)) == ("var_a1_1", "one")
    for store in (other, VariableStore()):
        with pytest.raises(VariableNotFound, match="Unknown variable 'var_a1_1'"):
            await store.get("s", id)


async def test_the_size_of_expanded_references_is_limited():
    variables = VariableStore()
    long = reference(await variables.put("s", "x" * 1_000_000))
    assert len((await variables.expand("s", [long] * 10))[0]) == 1_000_000
    with pytest.raises(ValueError, match="11,000,000 characters together; at most 10,000,000"):
        await variables.expand("s", {"text": long * 11})
