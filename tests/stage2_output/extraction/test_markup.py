from stage2_output.extraction.markup import MarkupScanner, next_mark
from tests.tables import for_each

MARKS = {
    "a fence": ("a ``` b", "fence", "```"),
    "a long fence": ("`````json", "fence", "`````"),
    "backticks that do not form a fence": ("`a` ``b`` {", "bracket", "{"),
    "thinking begins": ("a <think> b", "thinking", "<think>"),
    "thinking begins, longer": ("<thinking>", "thinking", "<thinking>"),
    "thinking begins, upper case": ("<THINK>", "thinking", "<THINK>"),
    "thinking ends": ("a </think> b", "thinking", "</think>"),
    "thinking ends, longer": ("</Thinking>", "thinking", "</Thinking>"),
    "reasoning begins": ("<reasoning>", "thinking", "<reasoning>"),
    "thinking begins, as a word": ("<thoughts>", "thinking", "<thoughts>"),
    "reasoning ends": ("</reasoning>", "thinking", "</reasoning>"),
    "a tag": ("a <tool_call> b", "tag", "<tool_call>"),
    "a tag with a value": ("<function=get_weather>", "tag", "<function=get_weather>"),
    "a tag with attributes": ('<invoke name="x" y="z">', "tag", '<invoke name="x" y="z">'),
    "a tag with a namespace": ("<ns:call.x-y>", "tag", "<ns:call.x-y>"),
    "a tag of a template": ("<|tool_call|>", "tag", "<|tool_call|>"),
    "a closing tag": ("</tool_call> [", "bracket", "["),
    "a comparison": ("1 < 2 > [", "bracket", "["),
    "a tag over two lines": ("<a\nb> {", "bracket", "{"),
    "a tag that is too long": ("<" + "a" * 80 + "> {", "bracket", "{"),
    "an object": ("a {", "bracket", "{"),
    "a list": ("a ] [", "bracket", "["),
    "an object, full width": ("a ｛", "bracket", "｛"),
    "a list, full width": ("a ［", "bracket", "［"),
}


@for_each("text, kind, mark", MARKS.values())
def test_next_mark_finds_the_next_mark_and_its_kind(text, kind, mark):
    found = next_mark("[[" + text, 2)
    kinds = [name for name, part in found.groupdict().items() if part]
    assert (found[0], kinds) == (mark, [kind] if kind else [])


def test_next_mark_returns_none_for_a_text_without_marks():
    assert next_mark("a `b` < c > </d> }", 0) is None
    assert next_mark("[1]", 1) is None


def sources(text):
    """The source of each bracket of a text."""
    scanner, found, position = MarkupScanner(text), [], 0
    while mark := next_mark(text, position):
        position = mark.end()
        if mark["bracket"]:
            found.append(scanner.source(mark.start()))
        else:
            scanner.consume(mark)
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
    "code in thinking": ("<think>\n```js\nx = [\n```", ["thinking"]),
    "two fences": ("```\n[\n```\n[\n```\n[", ["fenced", "prose", "fenced"]),
    "a tag": ("[ <tool_call>\n [ [ </tool_call> [", ["prose", "tagged", "prose", "prose"]),
    "a tag and words": ("<tool_call> So: [", ["prose"]),
    "a tag in a fence": ("```\n<a>[\n```", ["fenced"]),
    "a fence after a tag": ("<a>\n```\n[\n```", ["fenced"]),
    "two tags": ("<a><b>[", ["tagged"]),
    "thinking": ("<think> [ </think> [", ["thinking", "prose"]),
    "thinking with a fence": (
        "<think>\n```\n[\n```\n</think>\n```\n[\n```",
        ["thinking", "fenced"],
    ),
    "thinking with a tag": ("<think><a>[</think>[", ["thinking", "prose"]),
    "reasoning": ("<reasoning>[</reasoning>[", ["thinking", "prose"]),
    "thinking twice": (
        "<think>[</think>[<think>[</think>[",
        ["thinking", "prose", "thinking", "prose"],
    ),
    "thinking that never ends": (" \n<think> [", ["thinking"]),
    "a tag that is only mentioned": ("I use <think> here: [", ["prose"]),
    "an end tag of thinking alone": ("[ </think> [", ["prose", "prose"]),
}


@for_each("text, expected", SOURCES.values())
def test_every_bracket_has_a_source(text, expected):
    assert sources(text) == expected


def scan(text):
    """The scanner after the last mark of a text, and the result of its last `consume`."""
    scanner, position = MarkupScanner(text), 0
    while mark := next_mark(text, position):
        position = mark.end()
        result = scanner.consume(mark)
    return scanner, result


@for_each(
    "text, ended_only",
    [
        ("a </think>", True),
        ("<think> a </think>", False),
        ("<think> a </think> b </think>", False),
        ("<think>", False),
        ("```", False),
        ("<a>", False),
    ],
)
def test_an_end_tag_without_a_start_tag_ends_thinking_that_began_in_the_prompt(text, ended_only):
    assert scan(text)[1] is ended_only


@for_each(
    "text, end",
    [
        ("<think> a </think> b", 10),
        ("<think> a </THINKING> b", 10),
        ("<think> a", 9),
        ("a", 1),
        ("a </think> b", 12),
    ],
)
def test_thinking_ends_with_its_end_tag(text, end):
    scanner = MarkupScanner(text)
    if text.startswith("<"):
        scanner.consume(next_mark(text, 0))
    assert [scanner.end(7 * (len(text) > 7)), scanner.end(8 * (len(text) > 7))] == [end, end]


def test_each_of_several_thinking_blocks_ends_with_its_own_tag():
    text = "<think>a</think><think>b</think>"
    scanner = MarkupScanner(text)
    scanner.consume(next_mark(text, 0))
    assert (scanner.end(7), scanner.end(23)) == (8, 24)


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
    "after a fence": ("```python\nx\n```\n{", None),
    "in a second fence": ("```python\nx\n```\n```json\n{", None),
}


@for_each("text, end", CODE.values())
def test_code_of_another_language_ends_with_its_fence(text, end):
    start = text.index("{")
    scanner, position = MarkupScanner(text), 0
    while (mark := next_mark(text, position)).start() < start:
        scanner.consume(mark)
        position = mark.end()
    assert scanner.code_end(start) == end


SCALARS = {
    "alone": (" 5\n", 1, "bare"),
    "after a byte order mark": ("\ufeff5", 1, "bare"),
    "after thinking": ("<think>1</think> 5", 17, "prose"),
    "after the last thinking block": ("<think>1</think>2<think>3</think>5\n", 33, "prose"),
    "in a fence": ("```\n5\n```", 4, "fenced"),
    "in a fence for JSON": ("\n```json \n 5\n```\n", 11, "fenced"),
    "in a fence after thinking": ("<think>1</think>\n```json\n5\n```", 25, "fenced"),
}


@for_each("text, start, source", SCALARS.values())
def test_a_scalar_is_found_after_thinking_and_in_a_fence(text, start, source):
    assert MarkupScanner(text).scalar_range() == (start, start + 1, source)
    assert text[start] == "5"


@for_each("text", ["It is 5.", "```js\n5\n```", "5\n```\n6\n```", "```\n5"])
def test_scalar_range_is_the_whole_text_if_it_has_other_content(text):
    assert MarkupScanner(text).scalar_range() == (0, len(text), "bare")
