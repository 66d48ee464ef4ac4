import pytest

from stage2_output.parsing.errors import Unrepairable
from stage2_output.parsing.quotes import CLOSING_QUOTES, Quotes
from tests.tables import for_each

CLOSERS = {"key": "}", "member": "}", "item": "]"}


def quotes(text, role="member", closers=None):
    return Quotes(text, 0, len(text), role, CLOSERS[role] if closers is None else closers)


def second_quote(text):
    return next(at for at, mark in enumerate(text) if at and mark in CLOSING_QUOTES[text[0]])


def test_every_closing_quote_can_also_open_a_string():
    assert {closing for all_of_it in CLOSING_QUOTES.values() for closing in all_of_it} <= set(
        CLOSING_QUOTES
    )


# ---- which quote ends a string: the second quote of each text does or does not

ENDS = {
    "member": [
        '"a"}',
        '"a"｝',
        '"a", "b": 1}',
        '"a",\n "b"\n: 1}',
        '"a", /* two */ "b": 1}',
        '"a" /* one */, "b": 1}',
        '"a" // one\n, "b": 1}',
        "\"a\", 'b': 1}",
        '"a", “b”: 1}',
        '"a", b: 1}',
        '"a", $b: 1}',
        '"a"，"b"：1}',
        '"a", "b" => 1}',
        '"a", "b',
        '"a", b',
        '"a",}',
        '"a", ...}',
        '"a",',
        '"a" "b": 1}',
        '"a"\n"b": 1}',
        '"a"\nb: 1}',
        '"a" + "b"}',
        '"a" +\n "b"}',
        '"a" +"b"}',
        '"a"',
        '"a"\n```\n',
        '"a"</tool_call>',
        '"a"]',
        '"a"]}',
    ],
    "item": [
        '"a"]',
        '"a", "b"]',
        '"a", 1]',
        '"a", true]',
        '"a", ...]',
        '"a",]',
        '"a", "',
        '"a" "b"]',
        '"a"\n"b"]',
        '"a"\n""]',
        '"a" + "b"]',
        '"a"}',
        "'a', 'b']",
    ],
    "key": [
        '"a" : 1}',
        '"a" // one\n: 1}',
        '"a" 1}',
        '"a" => 1}',
        '"a"}',
        "'a': 1}",
    ],
}
CONTINUES = {
    "member": [
        '"a" b"}',
        '"a"b"}',
        '"a", b c": 1}',
        '"a", "b" c"}',
        '"a", "b", "c"}',
        '"a", http://b"}',
        '"a", {"b": 1}}',
        '"a" b: 1}',
        '"a": 1}',
        '"a" + b"}',
        '"a"// b"}',
        '"a"# b"}',
        '"a" ``` b"}',
        '"a" </b>"}',
        '"a" "b"}',
        '"a""}',
        '"a"\nb c"}',
        '"a"", "b": 1}',
    ],
    "item": [
        '"a" b"]',
        '"a"\nb: 1]',
        '"a""',
        '"a", b c"]',
        '"a", 1 b"]',
        '"a", truely"]',
        '"a": 1]',
        '"a""]',
        '"a"", "b"]',
    ],
    "key": ['"a"// b": 1}', '"a"#b": 1}'],
}
TEXTS = [(role, text) for role, texts in ENDS.items() for text in texts]
OTHERS = [(role, text) for role, texts in CONTINUES.items() for text in texts]


@for_each("role, text", TEXTS)
def test_a_quote_ends_a_string_if_the_text_after_it_is_valid_there(role, text):
    assert quotes(text, role).closes_string(second_quote(text))


@for_each("role, text", OTHERS)
def test_a_quote_with_other_text_after_it_does_not_end_a_string(role, text):
    assert not quotes(text, role).closes_string(second_quote(text))


@for_each(
    "role, text",
    [
        ("item", '"a""b"]'),
        ("item", '"" "b"]'),
        ("item", '"a" ""]'),
        ("item", '"a " "b"]'),
        ("item", '"a" " b"]'),
    ],
)
def test_adjacent_quotes_are_ambiguous(role, text):
    with pytest.raises(Unrepairable):
        quotes(text, role).closes_string(second_quote(text))


def test_a_bracket_after_a_quote_ends_the_string_if_it_closes_a_container():
    assert quotes('"a"] b"}', "member", "}]").closes_string(2)
    assert quotes('"a", {"b": 1}]', "member", "}]").closes_string(2)
    assert not quotes('"a", {"b": 1}]', "member", "}").closes_string(2)


def test_an_unquoted_key_does_not_end_a_string_that_contains_quotes():
    text = '"say "a", b: c"}'
    found = quotes(text)
    found.add_inner_quote(5)
    assert not found.closes_string(7)
    assert quotes(text).closes_string(7)


def test_text_after_the_end_is_not_read():
    text = '"a", "b": 1}'
    assert Quotes(text, 0, 3, "member", "}").closes_string(2)
    assert Quotes(text, 0, 4, "member", "}").closes_string(2)


# ---- quotes inside a string

INNER = {
    "a pair": ('"say "b" c"', [5, 7]),
    "a pair of several words": ('"say "b c", d"', [5, 9]),
    "a pair at the beginning": ('""b" c"', [1, 3]),
    "two pairs": ('"a "b" or "c" d"', [3, 5, 10, 12]),
    "a pair after a comma": ('"a, "b" c"', [4, 6]),
    "a pair before a comma": ('"a "b", c"', [3, 5]),
    "inches": ('"a 5" nail"', [4]),
    "within a word": ('"it"s"', [3]),
    "an apostrophe": ("'don't'", [4]),
    "in brackets": ('"a ("b") c"', [4, 6]),
}


@for_each("text, positions", INNER.values())
def test_quotes_inside_a_string_are_pairs_or_inside_words(text, positions):
    found = quotes(text)
    for at in positions:
        found.add_inner_quote(at)
    found.check_inner_quotes(len(text) - 1, multiline=False)
    assert found.inner == len(positions)


@for_each(
    "text, positions",
    [
        # ends only
        ('"a" b"', [2]),
        # ends a word
        ('"the dogs" bone"', [9]),
        # alone
        ('"a " b"', [3]),
        # opens twice
        ('"a "b "c" d"', [3, 6]),
        # opens twice, in brackets
        ('"a "b ("c" d"', [3, 7]),
        # a member
        ('"a": "b"', [2]),
        # an item
        ('"a "b", "c" d"', [3, 5, 8]),
    ],
)
def test_an_ambiguous_inner_quote_is_rejected(text, positions):
    found = quotes(text)
    for at in positions[:-1]:
        found.add_inner_quote(at)
    with pytest.raises(Unrepairable, match="more ways than one") as caught:
        found.add_inner_quote(positions[-1])
    assert caught.value.position == positions[-1]


@for_each("text, positions, lines", [('"say "b"', [5], False), ('"say "b" c"', [5, 7], True)])
def test_every_pair_of_inner_quotes_must_be_complete_and_on_one_line(text, positions, lines):
    found = quotes(text)
    for at in positions:
        found.add_inner_quote(at)
    with pytest.raises(Unrepairable):
        found.check_inner_quotes(len(text) - 1, multiline=lines)


def test_a_string_without_inner_quotes_may_span_lines():
    quotes('"a\nb"').check_inner_quotes(4, multiline=True)


# ---- three quotes


@for_each(
    "text, end",
    [
        ('"""a\nb"""}', 6),
        ("'''a\nb''', 'c': 1}", 6),
        ('"""\na\n""" // one\n}', 6),
        ('"""a\n"""', 5),
        ('"""\n"""}', 4),
        ('"a"}', None),
        ('""}', None),
        ("“““a”””", None),
    ],
)
def test_a_triple_quoted_text_ends_at_the_next_triple_quote(text, end):
    assert quotes(text).triple_quote_end() == end


@for_each(
    "text",
    [
        '"""\n"a" b\n"""}',
        '"""a"""}',
        '"""}',
        '"""a\nb',
        '"""a\nb""" c"}',
        '""""a\nb"""}',
        '""",\n"""]',
        '""",\n"b": """}',
    ],
)
def test_ambiguous_triple_quotes_are_rejected(text):
    with pytest.raises(Unrepairable, match="more ways than one"):
        quotes(text).triple_quote_end()


# ---- a missing closing quote


@for_each(
    "role, text, at, lost",
    [
        ("member", '"a, "b": 1}', 4, 2),
        ("member", '"a,\n  "b": 1}', 6, 2),
        ("member", '"a\n"b": 1}', 3, 2),
        ("member", "'a, 'b': 1}", 4, 2),
        ("item", '"a, "b"]', 4, 2),
        ("item", '"a\n"b", 1]', 3, 2),
        ("member", '"a "b": 1}', 3, None),
        ("member", '"a, "b" c"}', 4, None),
        ("item", '"a, "b" c"]', 4, None),
        ("member", '"\n"b": 1}', 2, 1),
        ("key", '"a, "b", c": 1}', 4, None),
        ("member", '","b": 1}', 2, 1),
    ],
)
def test_the_quote_of_the_next_member_or_item_shows_where_one_is_missing(role, text, at, lost):
    assert quotes(text, role).missing_quote_position(at) == lost


def test_a_missing_quote_in_a_string_with_inner_quotes_is_rejected():
    text = '"it"s a, "b": 1}'
    found = quotes(text)
    found.add_inner_quote(3)
    with pytest.raises(Unrepairable):
        found.missing_quote_position(9)
