import pytest

from stage2_output.extraction.markup import MarkupScanner, next_mark

MARKS = {
    "a fence": ("a ``` b", "fence", "```"),
    "a long fence": ("`````json", "fence", "`````"),
    "backticks that are no fence": ("`a` ``b`` {", "bracket", "{"),
    "thoughts begin": ("a <think> b", None, "<think>"),
    "thoughts begin, longer": ("<thinking>", None, "<thinking>"),
    "thoughts begin, upper case": ("<THINK>", None, "<THINK>"),
    "thoughts end": ("a </think> b", "closing", "</think>"),
    "thoughts end, longer": ("</Thinking>", "closing", "</Thinking>"),
    "reasoning begins": ("<reasoning>", None, "<reasoning>"),
    "thoughts begin, as a word": ("<thoughts>", None, "<thoughts>"),
    "reasoning ends": ("</reasoning>", "closing", "</reasoning>"),
    "a tag": ("a <tool_call> b", "tag", "<tool_call>"),
    "a tag with a value": ("<function=get_weather>", "tag", "<function=get_weather>"),
    "a tag with attributes": ('<invoke name="x" y="z">', "tag", '<invoke name="x" y="z">'),
    "a tag with a space of names": ("<ns:call.x-y>", "tag", "<ns:call.x-y>"),
    "a tag of a template": ("<|tool_call|>", "tag", "<|tool_call|>"),
    "a tag that closes is none": ("</tool_call> [", "bracket", "["),
    "a comparison is none": ("1 < 2 > [", "bracket", "["),
    "a tag over lines is none": ("<a\nb> {", "bracket", "{"),
    "a tag that goes on for ever is none": ("<" + "a" * 80 + "> {", "bracket", "{"),
    "an object": ("a {", "bracket", "{"),
    "a list": ("a ] [", "bracket", "["),
    "an object, full width": ("a ｛", "bracket", "｛"),
    "a list, full width": ("a ［", "bracket", "［"),
}


@pytest.mark.parametrize(("text", "kind", "mark"), MARKS.values(), ids=MARKS)
def test_the_next_mark_is_found_and_says_what_it_is(text, kind, mark):
    found = next_mark("[[" + text, 2)
    kinds = [name for name, part in found.groupdict().items() if part]
    assert (found[0], kinds) == (mark, [kind] if kind else [])


def test_a_text_without_marks_has_none():
    assert next_mark("a `b` < c > </d> }", 0) is None
    assert next_mark("[1]", 1) is None


def sources(text):
    """Where each bracket of a text stands, if nothing is passed over."""
    around, found, position = MarkupScanner(text), [], 0
    while mark := next_mark(text, position):
        position = mark.end()
        if mark["bracket"]:
            found.append(around.source(mark.start()))
        else:
            around.consume(mark)
    return found


SOURCES = {
    "words": ("a [ b [", ["prose", "prose"]),
    "a fence": ("[ ```json\n[\n[ ``` [", ["prose", "fenced", "fenced", "prose"]),
    "code": ("```js\nlet x = [1];\n```", ["code"]),
    "code without a language": ("```\nx = [\n```", ["code"]),
    "the first word of code": ("```python\n [\n x = [\n```", ["fenced", "code"]),
    "JSON with a name": ("```json x\n a: [\n```", ["fenced"]),
    "lines of a fence": ("```\n[\n[\n> [\n```", ["fenced", "fenced", "fenced"]),
    "code far down": ("```js\n" + " " * 300 + "[\n```", ["code"]),
    "code in thoughts": ("<think>\n```js\nx = [\n```", ["thinking"]),
    "two fences": ("```\n[\n```\n[\n```\n[", ["fenced", "prose", "fenced"]),
    "a tag": ("[ <tool_call>\n [ [ </tool_call> [", ["prose", "tagged", "prose", "prose"]),
    "a tag and words": ("<tool_call> So: [", ["prose"]),
    "a tag in a fence": ("```\n<a>[\n```", ["fenced"]),
    "a fence behind a tag": ("<a>\n```\n[\n```", ["fenced"]),
    "two tags": ("<a><b>[", ["tagged"]),
    "thoughts": ("<think> [ </think> [", ["thinking", "prose"]),
    "thoughts with a fence": (
        "<think>\n```\n[\n```\n</think>\n```\n[\n```",
        ["thinking", "fenced"],
    ),
    "thoughts with a tag": ("<think><a>[</think>[", ["thinking", "prose"]),
    "reasoning": ("<reasoning>[</reasoning>[", ["thinking", "prose"]),
    "thoughts twice": (
        "<think>[</think>[<think>[</think>[",
        ["thinking", "prose", "thinking", "prose"],
    ),
    "thoughts that never end": (" \n<think> [", ["thinking"]),
    "a tag that is only talked about": ("I use <think> here: [", ["prose"]),
    "the end of thoughts alone": ("[ </think> [", ["prose", "prose"]),
}


@pytest.mark.parametrize(("text", "expected"), SOURCES.values(), ids=SOURCES)
def test_every_bracket_stands_in_something(text, expected):
    assert sources(text) == expected


def walked(text):
    """The surroundings at the last mark of a text."""
    around, position = MarkupScanner(text), 0
    while mark := next_mark(text, position):
        position = mark.end()
        told = around.consume(mark)
    return around, told


@pytest.mark.parametrize(
    ("text", "ended_only"),
    [
        ("a </think>", True),
        ("<think> a </think>", False),
        ("<think> a </think> b </think>", False),
        ("<think>", False),
        ("```", False),
        ("<a>", False),
    ],
)
def test_thoughts_whose_beginning_was_in_the_prompt_are_told(text, ended_only):
    assert walked(text)[1] is ended_only


@pytest.mark.parametrize(
    ("text", "end"),
    [
        ("<think> a </think> b", 10),
        ("<think> a </THINKING> b", 10),
        ("<think> a", 9),
        ("a", 1),
        ("a </think> b", 12),
    ],
)
def test_thoughts_end_with_their_tag(text, end):
    around = MarkupScanner(text)
    if text.startswith("<"):
        around.consume(next_mark(text, 0))
    assert [around.end(7 * (len(text) > 7)), around.end(8 * (len(text) > 7))] == [end, end]


def test_each_of_several_thoughts_ends_with_its_own_tag():
    text = "<think>a</think><think>b</think>"
    around = MarkupScanner(text)
    around.consume(next_mark(text, 0))
    assert (around.end(7), around.end(23)) == (8, 24)


CODE = {
    "python": ("```python\nx = {\n```\n[", 15),
    "another word for it": ("```c++ title\n{\n```", 14),
    "never closed": ("```python\nx = {", 15),
    "json": ("```json\n{\n```", None),
    "JSON": ("```JSON\n{\n```", None),
    "json5": ("```json5\n{\n```", None),
    "jsonl": ("``` jsonl\n{\n```", None),
    "no language": ("```\n{\n```", None),
    "no language, but code": ("```\nx = {\n```", 9),
    "no fence": ("python\n{", None),
    "behind a fence": ("```python\nx\n```\n{", None),
    "in a second fence": ("```python\nx\n```\n```json\n{", None),
}


@pytest.mark.parametrize(("text", "end"), CODE.values(), ids=CODE)
def test_code_of_another_language_ends_with_its_fence(text, end):
    start = text.index("{")
    around, position = MarkupScanner(text), 0
    while (mark := next_mark(text, position)).start() < start:
        around.consume(mark)
        position = mark.end()
    assert around.code_end(start) == end


PLACES = {
    "alone": (" 5\n", 1, "bare"),
    "behind the mark of an editor": ("\ufeff5", 1, "bare"),
    "behind thoughts": ("<think>1</think> 5", 17, "prose"),
    "behind the last thoughts": ("<think>1</think>2<think>3</think>5\n", 33, "prose"),
    "in a fence": ("```\n5\n```", 4, "fenced"),
    "in a fence for JSON": ("\n```json \n 5\n```\n", 11, "fenced"),
    "in a fence behind thoughts": ("<think>1</think>\n```json\n5\n```", 25, "fenced"),
}


@pytest.mark.parametrize(("text", "start", "source"), PLACES.values(), ids=PLACES)
def test_a_text_without_brackets_is_found_behind_thoughts_and_in_its_fence(text, start, source):
    assert MarkupScanner(text).scalar_range() == (start, start + 1, source)
    assert text[start] == "5"


@pytest.mark.parametrize("text", ["It is 5.", "```js\n5\n```", "5\n```\n6\n```", "```\n5"])
def test_a_text_with_anything_else_is_taken_whole(text):
    assert MarkupScanner(text).scalar_range() == (0, len(text), "bare")
