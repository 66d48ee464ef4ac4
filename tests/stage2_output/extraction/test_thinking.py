"""Thinking blocks: which tags begin and end them, and which tags are text inside a JSON string."""

from hypothesis import given
from hypothesis import strategies as st

from stage2_output import find_json, thinking_blocks, without_thinking
from tests.tables import for_each


@for_each(
    "text, answer",
    [
        ("answer", "answer"),
        ("<think>notes</think>answer", "answer"),
        ("<THINKING>\nnotes\n</THINKING>\nanswer", "answer"),
        ("notes</think>answer", "answer"),
        ("<think>a</think>one<reasoning>b</reasoning>two", "one two"),
        ("one</think>two</think>three", "two</think>three"),
        ("<think>a</think>one</think>two", "one</think>two"),
        ("<think>a<think>b</think>c</think>one", "one"),
        ("The mail says:\n> </think>one", "The mail says: > </think>one"),
        ("The mail says:\n```\nHi. </think>one\n```", "The mail says: ``` Hi. </think>one ```"),
        ("<!-- </think>one", "<!-- </think>one"),
        ("[THINK]notes[/THINK]one", "one"),
        ("<|START_THINKING|>notes<|END_THINKING|>one", "one"),
        ("<seed:think>notes</seed:think>one", "one"),
        ("◁think▷notes◁/think▷one", "one"),
        ("<|begin_of_thought|>notes<|end_of_thought|>one", "one"),
        ("<reflection>notes</reflection><scratchpad>more</scratchpad>one", "one"),
        ("<|channel|>analysis<|message|>notes<|end|>one", "one"),
        ("<|start|>assistant<|channel|>analysis<|message|>a </think> b<|end|>one", "one"),
        ("<think>a<|end|>b</think>one<|end|>", "one<|end|>"),
        ("<|channel>thought\nnotes<channel|>one", "one"),
        ("<|channel>\nnotes<channel|>one", "one"),
        ("<think >notes</think >one", "one"),
        ("<longcat_think>notes</longcat_think>one", "one"),
        ("<inner_thoughts>a</inner_thoughts><scratch_pad>b</scratch_pad>one", "one"),
        ("one\n  <think>notes", "one"),
        ("one\ntwo <think> three", "one two <think> three"),
        ("one\ntwo <think>\nnotes", "one two"),
        ("<think>a</think> <think> notes", ""),
        ("Use `<think>` tags.", "Use `<think>` tags."),
        ("Use `<think>` tags.</think>one", "one"),
        ("<think>a <think> b</think>answer", "answer"),
        ("<think>notes without an end", ""),
        ("one\n<thought>\nnotes", "one"),
        ("The tag <think> is one of many.", "The tag <think> is one of many."),
        ('<think>It is "5 inches</think>answer', "answer"),
        ('<think>{"a": "</think>"}</think>answer', "answer"),
        ('<think>{"a": 5</think>answer', "answer"),
        ('<think>{"a": "b\n</think>answer', "answer"),
        ("<think>{'a': \"it's\", b: [</think>answer", "answer"),
        ('{"a": "</think>"}', '{"a": "</think>"}'),
        ("{'a': 'It\\'s </think>'}", "{'a': 'It\\'s </think>'}"),
        ('{"a": "5 " </think>b"}', '{"a": "5 " </think>b"}'),
        ('{"a": "<think>"}', '{"a": "<think>"}'),
        ('{"a": "b </think>', '{"a": "b </think>'),
        ('notes {"a": "b </think>', 'notes {"a": "b </think>'),
        ('<think>a</think>{"a": "b </think>', '{"a": "b </think>'),
    ],
)
def test_thinking_blocks_are_replaced_and_quoted_tags_stay(text, answer):
    assert " ".join(without_thinking(text).split()) == answer


def test_a_block_is_closed_only_by_a_tag_of_its_own_form():
    tags = ["<think>@</think>", "[THINK]@[/THINK]", "<|START_THINKING|>@<|END_THINKING|>"]
    tags += ["<|begin_of_thought|>@<|end_of_thought|>", "◁think▷@◁/think▷", "<THINK>@</think>"]
    tags += ["<|channel|>analysis<|message|>@<|end|>", "<seed:think>@</seed:think>"]
    tags += ["<|channel>thought\n@<channel|>", "<think >@</think>"]
    assert [[block.is_closed for block in thinking_blocks(text)] for text in tags] == [[True]] * 10
    for other in ("</thinking>", "[/THINK]", "◁/think▷", "</seed:think>", "<|END_THINKING|>"):
        assert [block.is_closed for block in thinking_blocks(f"<think>a{other}b")] == [False]
    assert [block.is_closed for block in thinking_blocks("a</think>b")] == [False]


def test_text_that_begins_inside_of_a_block_ends_it_with_the_first_closing_tag():
    for text in ("a</think>b", '{"a": "</think>b', "> a </think>b", "a <think> b</think>b"):
        (block,) = thinking_blocks(text, opened=True)
        assert (block.start, text[block.end :]) == (0, "b")
    assert thinking_blocks("a<|end|>b", opened=True) == []
    first, second = thinking_blocks("a</think>b<think>c</think>d", opened=True)
    assert (first.end, second.start, second.end) == (9, 10, 26)


def test_text_after_a_thinking_block_begins_a_new_line():
    assert without_thinking("Well <think>a</think>b") == f"Well {' ' * 15}\nb"


@given(
    st.lists(st.sampled_from(["<think>", "</think>", *"{}[]\"'\\\n,: ", "a"]), max_size=30).map(
        "".join
    )
)
def test_replacing_thinking_blocks_keeps_the_positions_and_all_other_text(text):
    answer = without_thinking(text)
    assert len(answer) == len(text)
    assert all(
        after == before or after in " \n" for before, after in zip(text, answer, strict=True)
    )


@for_each("before", ["", "<think>notes</think>", "notes</think>\n", "```json\n"])
@for_each("quoted", ['</think>{"a": 1}', '</think>{\\"a\\": 1}', '\n</think>\n{"a": 1}\n'])
def test_json_quoted_in_an_unfinished_string_is_never_a_complete_value(before, quoted):
    found, _ = find_json(f'{before}{{"reply": "It says: {quoted}')
    assert [extraction.value for extraction in found if extraction.complete] == []
