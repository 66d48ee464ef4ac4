import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stage0_gateway import Message
from stage1_context import (
    ContextEngine,
    KeepSystemAndRecent,
    MemoryStore,
    MessageRecord,
    SessionNotFound,
    SqliteStore,
    VariableNotFound,
    VariableStore,
)

values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inside: st.lists(inside, max_size=3) | st.dictionaries(st.text(), inside, max_size=3),
    max_leaves=8,
)


reference = VariableStore.reference


@pytest.fixture
async def variables(store):
    """The variables of a store with the sessions "s" and "other"."""
    await store.create("s", MessageRecord(Message.user("hi")))
    await store.create("other")
    return VariableStore(store)


# ---- put and get
# -----------------------------------------------------------------------------------------


async def test_what_is_put_aside_comes_back_by_its_id(variables):
    first, second = await variables.put("s", [1, "two", None]), await variables.put("s", "text")
    assert (first, second) == ("var_2", "var_3")
    assert await variables.get("s", first) == [1, "two", None]
    assert await variables.get("s", second) == "text"


@given(values)
async def test_any_value_that_json_can_hold_comes_back(value):
    variables = VariableStore()
    found = await variables.get("s", await variables.put("s", value))
    assert found == value
    assert json.dumps(found) == json.dumps(value)


async def test_a_value_is_copied_when_it_is_put_and_whenever_it_is_got(variables):
    value = {"list": [1]}
    id = await variables.put("s", value)
    value["list"].append(2)
    (await variables.get("s", id))["list"].append(3)
    (await variables.expand("s", {"x": reference(id)}))["x"]["list"].append(4)
    assert await variables.get("s", id) == {"list": [1]}


async def test_one_value_in_two_places_of_the_arguments_is_two_values(variables):
    id = await variables.put("s", [1])
    expanded = await variables.expand("s", {"x": reference(id), "y": [reference(id)]})
    expanded["x"].append(2)
    assert expanded["y"] == [[1]]


@pytest.mark.parametrize(
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
    ids=lambda value: type(value).__name__,
)
async def test_what_json_cannot_hold_is_refused_and_not_kept(variables, wrong):
    with pytest.raises(ValueError, match="cannot be written as JSON"):
        await variables.put("s", wrong)
    with pytest.raises(VariableNotFound):
        await variables.get("s", "var_2")


async def test_a_value_that_holds_itself_is_refused(variables):
    value = []
    value.append(value)
    deep = []
    for _ in range(100_000):
        deep = [deep]
    for wrong in (value, deep):
        with pytest.raises(ValueError, match="cannot be written as JSON"):
            await variables.put("s", wrong)


async def test_an_unknown_session_has_no_variables(variables):
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


@pytest.mark.parametrize("id", HOSTILE)
async def test_an_id_that_is_none_is_refused_with_the_variables_there_are(variables, id):
    await variables.put("s", "secret")
    with pytest.raises(VariableNotFound) as caught:
        await variables.get("s", id)
    assert str(caught.value) == f"Unknown variable {id!r} in this session. Variables: var_2."


async def test_at_most_the_last_five_variables_are_named(variables):
    with pytest.raises(VariableNotFound, match=r"Variables: none yet\.$"):
        await variables.get("s", "var_1")
    for number in range(7):
        await variables.put("s", number)
    with pytest.raises(VariableNotFound, match=r"Variables: var_4, var_5, var_6, var_7, var_8\.$"):
        await variables.get("s", "var_1")


async def test_the_variables_of_another_session_are_out_of_reach(variables):
    await variables.put("other", "first")
    id = await variables.put("other", "secret")
    for ask in (variables.get("s", id), variables.expand("s", {"x": reference(id)})):
        with pytest.raises(VariableNotFound, match="Variables: none yet") as caught:
            await ask
        assert "secret" not in str(caught.value)


# ---- list and delete
# --------------------------------------------------------------------------------------


async def test_the_variables_of_a_session_are_listed_oldest_first(variables):
    assert await variables.list("s") == []
    ids = [await variables.put("s", number) for number in range(3)]
    await variables.put("other", "x")
    assert await variables.list("s") == ids == ["var_2", "var_3", "var_4"]
    assert await variables.list("other") == ["var_1"]


async def test_a_deleted_variable_is_not_found_and_the_others_stay(variables):
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


@pytest.mark.parametrize("id", HOSTILE)
async def test_an_unknown_variable_cannot_be_deleted(variables, id):
    await variables.put("s", "secret")
    with pytest.raises(VariableNotFound, match=r"Variables: var_2\.$"):
        await variables.delete("s", id)
    assert await variables.list("s") == ["var_2"]


async def test_deleting_in_one_session_or_store_leaves_the_others(variables):
    for session in ("s", "s", "other", "other"):
        await variables.put(session, session)
    await variables.delete("s", "var_2")
    assert await variables.get("other", "var_2") == "other"
    one = VariableStore(mark="a1")
    id = await one.put("s", 1)
    assert await one.list("s") == [id] == ["var_a1_1"]
    await one.delete("s", id)
    assert await one.list("s") == []


async def test_an_exported_session_carries_the_deletion_and_the_value(store, variables):
    engine, copy = ContextEngine(store=store), ContextEngine()
    kept, deleted = await variables.put("s", "kept"), await variables.put("s", "deleted")
    await variables.delete("s", deleted)
    text = await engine.export_session("s")
    assert '"value": "deleted"' in text
    await copy.import_session(text)
    assert await copy.variables.list("s") == [kept]
    assert (await copy.history("s")).messages == (Message.user("hi"),)


# ---- references
# ------------------------------------------------------------------------------------------


@given(values)
async def test_a_text_that_is_nothing_but_a_reference_becomes_the_value_whatever_its_type(value):
    variables = VariableStore()
    id = await variables.put("s", value)
    expanded = await variables.expand("s", {"a": [{"b": reference(id)}], "c": 1})
    assert expanded == {"a": [{"b": value}], "c": 1}
    assert type(expanded["a"][0]["b"]) is type(value)
    assert await variables.expand("s", reference(id)) == value


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("five", "is five!"),
        (5, "is 5!"),
        (None, "is null!"),
        (True, "is true!"),
        ({"naïve": [1]}, 'is {"naïve": [1]}!'),
        ("a \\1 \\g<0>", "is a \\1 \\g<0>!"),
    ],
)
async def test_inside_of_a_longer_text_a_reference_becomes_text(variables, value, text):
    id = await variables.put("s", value)
    assert await variables.expand("s", {"x": f"is {reference(id)}!"}) == {"x": text}


async def test_several_references_may_stand_in_one_text(variables):
    one, two = await variables.put("s", 1), await variables.put("s", "zwei")
    text = f"{reference(one)}{reference(two)} and {reference(one)}"
    assert await variables.expand("s", text) == "1zwei and 1"
    assert await variables.expand("s", reference(one) * 2) == "11"


async def test_blanks_around_the_id_do_not_matter_but_those_around_the_reference_make_it_a_text(
    variables,
):
    id = await variables.put("s", 5)
    assert await variables.expand("s", [f"$VAR_REF{{{{ {id} }}}}", f" {reference(id)}"]) == [
        5,
        " 5",
    ]


async def test_a_reference_inside_of_a_value_stays_text(variables):
    inner = await variables.put("s", "inner")
    outer = await variables.put("s", {"x": reference(inner)})
    text = await variables.put("s", f"see {reference(inner)}")
    arguments = {"whole": reference(outer), "inside": f"<{reference(text)}>"}
    assert await variables.expand("s", arguments) == {
        "whole": {"x": reference(inner)},
        "inside": f"<see {reference(inner)}>",
    }


@pytest.mark.parametrize(
    "arguments", [{}, [], None, 5, "x", {"x": "$VAR_REF{{}}"}, {"x": ["$VAR_REF{var_2}"]}]
)
async def test_arguments_without_references_stay_as_they_are(variables, arguments):
    await variables.put("s", "secret")
    assert await variables.expand("s", arguments) == arguments


async def test_keys_are_left_alone_and_so_are_the_arguments_that_were_given(variables):
    id = await variables.put("s", 5)
    arguments = {reference(id): [reference(id)]}
    assert await variables.expand("s", arguments) == {reference(id): [5]}
    assert arguments == {reference(id): [reference(id)]}


async def test_one_reference_that_leads_nowhere_is_an_error_of_the_whole(variables):
    id = await variables.put("s", 5)
    with pytest.raises(
        VariableNotFound, match=r"Unknown variable 'var_9' in this session\. Variables: var_2\."
    ):
        await variables.expand("s", {"x": reference(id), "y": f"see {reference('var_9')}"})


# ---- where they are kept
# ---------------------------------------------------------------------------------


async def test_without_a_store_variables_are_kept_in_memory_for_sessions_of_any_name():
    variables = VariableStore()
    with pytest.raises(VariableNotFound, match="none yet"):
        await variables.get("a", "var_1")
    with pytest.raises(VariableNotFound, match="none yet"):
        await variables.expand("b", reference("var_1"))
    ids = [await variables.put("a", 1), await variables.put("a", 2), await variables.put("b", 3)]
    assert ids == ["var_1", "var_2", "var_1"]
    assert [await variables.get("a", "var_2"), await variables.get("b", "var_1")] == [2, 3]


async def test_variables_in_a_file_are_there_after_it_was_opened_again(tmp_path):
    async with ContextEngine(store=SqliteStore(tmp_path / "s.db")) as engine:
        await engine.create_session("s", system_prompt="be brief")
        id = await engine.variables.put("s", {"long": "text"})
    async with ContextEngine(store=SqliteStore(tmp_path / "s.db")) as engine:
        assert await engine.variables.get("s", id) == {"long": "text"}


async def test_variables_between_messages_change_nothing_of_the_history_and_the_windows():
    plain, mixed = (ContextEngine(window=KeepSystemAndRecent(max_messages=3)) for _ in range(2))
    for engine in (plain, mixed):
        await engine.create_session("s", system_prompt="be brief")
        for number in range(60):
            await engine.add_message("s", Message.user(f"message {number}"))
            if engine is mixed:
                await engine.variables.put("s", "x" * 1000)
    fresh = ContextEngine(store=mixed.store, window=KeepSystemAndRecent(max_messages=3))
    for engine in (mixed, fresh):
        assert await engine.messages_for_request("s") == await plain.messages_for_request("s")
        assert (await engine.history("s")).messages == (await plain.history("s")).messages
        assert len((await engine.explain("s")).messages) == 61


async def test_a_variable_of_another_store_is_not_taken_for_one_of_this():
    one, other = VariableStore(mark="a1"), VariableStore(mark="b2")
    id = await one.put("s", "one")
    assert await other.put("s", "other") == "var_b2_1"
    assert (id, await one.get("s", id)) == ("var_a1_1", "one")
    for store in (other, VariableStore()):
        with pytest.raises(VariableNotFound, match="Unknown variable 'var_a1_1'"):
            await store.get("s", id)


async def test_references_do_not_make_arguments_as_large_as_they_like():
    store = VariableStore()
    reference = store.reference(await store.put("s", "x" * 1_000_000))
    assert len((await store.expand("s", [reference] * 10))[0]) == 1_000_000
    with pytest.raises(ValueError, match="11,000,000 characters together; at most 10,000,000"):
        await store.expand("s", {"text": reference * 11})


async def test_a_session_that_is_not_there_is_noticed_before_anything_is_put(tmp_path):
    with pytest.raises(SessionNotFound):
        await VariableStore(MemoryStore()).check("s")
    await VariableStore().check("s")
