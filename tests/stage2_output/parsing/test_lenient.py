import pytest

from stage2_output.parsing.errors import Repaired, Unrepairable
from stage2_output.parsing.lenient import LenientReader
from stage2_output.parsing.strict import MOST_DEPTH, IntactParts, TooDeep
from tests.stage2_output.texts import repairs
from tests.tables import for_each


def read(text, after=""):
    """Read the object or array at the beginning of a text, after three other characters."""
    source = "So " + text + after
    found = LenientReader(source, 3, len(source), IntactParts(source), {}).read()
    moved = tuple((name, position - 3) for name, position in found.repairs)
    return found._replace(end=found.end - 3, repairs=moved)


# Repaired and complete values: text, value, repairs.
COMPLETE = {
    "valid": ('{"a": [1, {"b": null}], "c": "d"}', {"a": [1, {"b": None}], "c": "d"}, ""),
    "empty": ("{}", {}, ""),
    # commas
    "trailing comma": ('{"a": 1,}', {"a": 1}, "trailing_comma@7"),
    "trailing commas": ("[[1,] ,]", [[1]], "trailing_comma@3 trailing_comma@6"),
    "trailing comma and a comment": ("[1, // one\n]", [1], "trailing_comma@2 comment@4"),
    "leading comma": ('{,"a": 1}', {"a": 1}, "leading_comma@1"),
    "leading comma in a list": ("[,1]", [1], "leading_comma@1"),
    "only a comma": ("[,]", [], "leading_comma@1"),
    "missing comma": (
        '{"a": 1 "b": "c" "d": {} "e": 2}',
        {"a": 1, "b": "c", "d": {}, "e": 2},
        "missing_comma@8 missing_comma@17 missing_comma@25",
    ),
    "missing comma, new line": ('{"a": 1\n"b": 2}', {"a": 1, "b": 2}, "missing_comma@8"),
    "missing commas in a list": (
        '[1\n2 "a", {}[]]',
        [1, 2, "a", {}, []],
        "missing_comma@3 missing_comma@5 missing_comma@12",
    ),
    # keys, colons
    "unquoted key": (
        "{a: 1, b_2: 2, $c: 3, d-e: 4, f.g: 5}",
        {"a": 1, "b_2": 2, "$c": 3, "d-e": 4, "f.g": 5},
        "unquoted_key@1 unquoted_key@7 unquoted_key@15 unquoted_key@22 unquoted_key@30",
    ),
    "number as key": ("{1: 2}", {"1": 2}, "unquoted_key@1"),
    "literal as key": ("{true: 1}", {"true": 1}, "unquoted_key@1"),
    "key in another script": ("{ключ: 1}", {"ключ": 1}, "unquoted_key@1"),
    "key without its first quote": ('{a": 1}', {"a": 1}, "unquoted_key@1 missing_quote@2"),
    "missing colon": (
        '{"a" 1, "b" [2], "c" true, "d" "e"}',
        {"a": 1, "b": [2], "c": True, "d": "e"},
        "missing_colon@5 missing_colon@12 missing_colon@21 missing_colon@31",
    ),
    "arrow for colon": (
        '{"a" => 1, b => 2}',
        {"a": 1, "b": 2},
        "missing_colon@5 unquoted_key@11 missing_colon@13",
    ),
    # values
    "literals": (
        "[True, False, None, undefined]",
        [True, False, None, None],
        "literal@1 literal@7 literal@14 literal@20",
    ),
    "numbers": ("[.5, 1., +2]", [0.5, 1.0, 2], "number@1 number@5 number@9"),
    "unquoted text": (
        '{"a": b c, "d": e}',
        {"a": "b c", "d": "e"},
        "unquoted_text@6 unquoted_text@16",
    ),
    "unquoted text, new line": (
        '{"a": b c\n"d": 1}',
        {"a": "b c", "d": 1},
        "unquoted_text@6 missing_comma@10",
    ),
    # quotes
    "single quotes": (
        "{'a': 'it\\'s'}",
        {"a": "it's"},
        "single_quotes@1 single_quotes@6 invalid_escape@9",
    ),
    "smart quotes": ("{“a”: ‘b’}", {"a": "b"}, "smart_quotes@1 smart_quotes@6"),
    "quotes mixed": (
        """{'a': "b's", "c": 'd"'}""",
        {"a": "b's", "c": 'd"'},
        "single_quotes@1 single_quotes@18",
    ),
    "joined strings": (
        '{"a": "b" + "c" +\n "d", "e": 1}',
        {"a": "bcd", "e": 1},
        "joined_strings@10 joined_strings@16",
    ),
    "joined strings in a list": (
        '["a" + \'b\', "c"]',
        ["ab", "c"],
        "joined_strings@5 single_quotes@7",
    ),
    "new line in a string": ('["a\nb"]', ["a\nb"], "unescaped_newline@3"),
    "three quotes": ('{"a": """b\nc"""}', {"a": "b\nc"}, "triple_quotes@6"),
    # between the parts
    "comments": (
        '{ // one\n"a": /* two */ 1 # three\n}',
        {"a": 1},
        "comment@2 comment@14 comment@26",
    ),
    "special spaces": (
        "{\u00a0'a':\u30001\u200b}",
        {"a": 1},
        "special_space@1 single_quotes@2 special_space@6 special_space@8",
    ),
    "full width": (
        "｛＂a＂：［1，“b”］｝",
        {"a": [1, "b"]},
        "fullwidth_punctuation@0 fullwidth_punctuation@1 fullwidth_punctuation@4 "
        "fullwidth_punctuation@5 fullwidth_punctuation@7 smart_quotes@8 "
        "fullwidth_punctuation@11 fullwidth_punctuation@12",
    ),
    # brackets
    "doubled braces": (
        '{{"a": {{"b": 1}}, "c": {}}}',
        {"a": {"b": 1}, "c": {}},
        "doubled_braces@1 doubled_braces@8",
    ),
    "an undamaged part": (
        '{a: {"b": [1, {"c": "}"}]}}',
        {"a": {"b": [1, {"c": "}"}]}},
        "unquoted_key@1",
    ),
}


@for_each("after", ["", " and so on", "}", "\n{"])
@for_each("text, value, names", COMPLETE.values())
def test_a_repaired_value_is_complete_and_its_repairs_are_named(text, value, names, after):
    found = read(text, after)
    assert found == Repaired(value, len(text), found.repairs, complete=True, fragile=False)
    assert repairs(found) == names


def test_literals_and_numbers_keep_their_types():
    assert repr(read("[1, 1.0, -0.0, true, '1', 1e2,]").value) == "[1, 1.0, -0.0, True, '1', 100.0]"


# Incomplete values: text, value, repairs.
INCOMPLETE = {
    "unclosed": ('{"a": [1, {"b": 2', {"a": [1, {"b": 2}]}, "missing_closer@17"),
    "nothing yet": ("{", {}, "missing_closer@1"),
    "after a comma": ("[1,", [1], "missing_closer@3"),
    "in a key": ('{"a": 1, "b', {"a": 1}, "missing_closer@11"),
    "after a key": ('{"a": 1, "b"', {"a": 1}, "missing_closer@12"),
    "after a colon": ('{"a": 1, "b": ', {"a": 1}, "missing_closer@14"),
    "in a key without quotes": (
        "{a: 1, b",
        {"a": 1},
        "unquoted_key@1 unquoted_key@7 missing_closer@8",
    ),
    "in a string": ('{"a": "b c', {"a": "b c"}, "missing_quote@10 missing_closer@10"),
    "in a number": ("[1.", [1], "missing_closer@3"),
    "in a literal": ("[true, fal", [True], "missing_closer@10"),
    "in a comment": ("[1 /* one", [1], "comment@3 missing_closer@9"),
    "at the fence": ('{"a": 1\n```\n', {"a": 1}, "missing_closer@8"),
    "at the tag": ("[1 </tool_call>", [1], "missing_closer@3"),
    "missing closer of a list": ('{"a": [1, 2}', {"a": [1, 2]}, "missing_closer@11"),
    "missing closer of an object": (
        '[{"a": {"b": 1]',
        [{"a": {"b": 1}}],
        "missing_closer@14",
    ),
    "missing closer between objects": (
        '[{"a": 1, {"b": 2}]',
        [{"a": 1}, {"b": 2}],
        "missing_closer@10",
    ),
    "missing quote at the end": ('{"a": ["b}', {"a": ["b}"]}, "missing_quote@10 missing_closer@10"),
    "only the quote is missing": (
        '{"a": ["b"], "c": ["d]}',
        {"a": ["b"], "c": ["d"]},
        "missing_quote@23",
    ),
    "only the quote is missing, new lines": (
        '{"a": "b\n}\n',
        {"a": "b"},
        "unescaped_newline@8 unescaped_newline@10 missing_quote@11",
    ),
    "missing quote before a member": ('{"a": "b, "c": 1}', {"a": "b", "c": 1}, "missing_quote@8"),
    "missing quote and comma": (
        '{"a": "b\n"c": 1}',
        {"a": "b", "c": 1},
        "missing_quote@8 missing_comma@9",
    ),
    "ellipsis at the end": ('{"a": 1, ...}', {"a": 1}, "ellipsis@9"),
    "ellipsis in the middle": ("[1, ..., 9]", [1, 9], "ellipsis@4"),
    "ellipsis, one letter": ("[1, …]", [1], "ellipsis@4"),
    "ellipsis of many dots": ("[1, ......]", [1], "ellipsis@4"),
    "ellipsis alone": ("[...]", [], "ellipsis@1"),
    "ellipsis without a comma": ("[1, 2 ...]", [1, 2], "missing_comma@6 ellipsis@6"),
    "ellipsis that touches a number": (
        "[1...9]",
        [1, 9],
        "missing_comma@2 ellipsis@2 missing_comma@5",
    ),
    "ellipsis and a comment": ("[1, ... // more\n]", [1], "ellipsis@4 comment@8"),
}


@for_each("text, value, names", INCOMPLETE.values())
def test_a_value_that_had_to_be_closed_or_has_an_ellipsis_is_not_complete(text, value, names):
    found = read(text)
    assert (found.value, repairs(found), found.complete) == (value, names, False)


@for_each(
    "text, value, names",
    [
        ('{"a": "say "b" c"}', {"a": 'say "b" c'}, "unescaped_quote@11 unescaped_quote@13"),
        ('{"a": "b, "c": 1}', {"a": "b", "c": 1}, "missing_quote@8"),
    ],
)
def test_a_value_with_guessed_quotes_is_fragile(text, value, names):
    found, is_whole = read(text), "missing" not in names
    assert found == Repaired(value, len(text), found.repairs, is_whole, fragile=True)
    assert repairs(found) == names


def test_the_end_of_the_text_ends_the_value():
    assert read('{"a": 1', "\n```\nThat is all.")._replace(repairs=()) == Repaired(
        {"a": 1}, 8, (), False, False
    )
    source = "[1, 2, 3]"
    assert LenientReader(source, 0, 5, IntactParts(source), {}).read().value == [1, 2]


# ---- rejected texts: text, reason, position

QUOTES = "has quotes that can be read in more ways than one"
BARE = "has text without quotes that can be read in more ways than one"
REJECTED = {
    "two commas": ("[1,,2]", "has two commas in a row", 3),
    "two commas at the end": ('{"a": 1,,}', "has two commas in a row", 8),
    "two commas at the beginning": ("[,,1]", "has two commas in a row", 2),
    "no value": ('{"a": }', "lacks a value", 6),
    "no value before a comma": ('{"a": , "b": 1}', "lacks a value", 6),
    "an ellipsis for a value": ('{"a": ...}', "has an invalid value", 6),
    "no colon": ('{"a", "b"}', "lacks a colon behind a key", 4),
    "no colon, no value": ('{"a": 1, "b"}', "lacks a colon behind a key", 12),
    "a set": ("{'a', 'b'}", "lacks a colon behind a key", 4),
    "no colon, no quotes": ("{a 1}", "lacks a colon behind a key", 3),
    "an equals sign": ('{"a" = 1}', "lacks a colon behind a key", 5),
    "an invalid arrow": ('{"a" -> 1}', "lacks a colon behind a key", 5),
    "a colon in a list": ('[{}: "b"]', "has an unexpected colon", 3),
    "a star for a key": ("{*1: 2}", "has an invalid key", 1),
    "a list for a key": ("{[1]: 2}", "has an invalid key", 1),
    "an object for a key": ('{"a": 1, {"b": 2}}', "has an object in place of a key", 9),
    "an object after a value": ('{"a": 1 {"b": 2}}', "has an object in place of a key", 8),
    "a quote in a key": ('{"a": 1, "b "c" d": 2}', "lacks a colon behind a key", 13),
    "a duplicate key": (
        '{"a": 1, "b": {"a": 2}, \'a\': 3}',
        'has the key "a" twice in one object',
        24,
    ),
    "a duplicate key in a part": ("{a: {'b': 1, b: 2}}", 'has the key "b" twice in one object', 13),
    "a duplicate key in an undamaged part": (
        '{a: {"b": 1, "b": 2}}',
        'has the key "b" twice in one object',
        13,
    ),
    "NaN": ('{"a": NaN}', "has NaN, which is not a JSON value", 6),
    "infinity": ("[1, -Infinity]", "has -Infinity, which is not a JSON value", 4),
    "too large": ("[1e999]", "has a number that is too large", 1),
    "leading zero": ("[007]", "has a number in a format that JSON does not allow", 1),
    "a thousand": ("[1,000]", "has a number in a format that JSON does not allow", 3),
    "numbers in a row": ("[1 2]", "has a number in a format that JSON does not allow", 1),
    "unquoted lines": ("[a\nb]", BARE, 4),
    "unquoted text with a colon": ('{"a": b: c}', BARE, 6),
    "a call": ('{"a": Decimal("1")}', BARE, 6),
    "a lost quote": ('{"a": b"}', "has text that lost one of its quotes", 7),
    "quotes in a key": ('{"say "#a"# now": 2}', "has a key with a quote in it", 16),
    "a quote too many": ('{"a": "b" c"}', QUOTES, 8),
    "a sum of a string": ('{"a": "b" + 1}', QUOTES, 8),
    "a closer too many": ('{"a": 1]} and so on', "has an unexpected ]", 7),
    "one closing brace": ('{{"a": 1}', "has two opening braces and one closing brace", 9),
    "three opening braces": ('{{{"a": 1}}}', "has an object in place of a key", 2),
    "a comment that took a comma": (
        '{"a": "b" #1",\n "c": 1}',
        "has a comment that may be text",
        10,
    ),
    "a comment that took a quote": ('["a" //b"\n"c"]', "has a comment that may be text", 5),
    "a path": (r'{a: "C:\Users"}', "has an escape that JSON does not know", 7),
    "a path that might be escapes": (
        r'{a: "C:\dir\new"}',
        "has escapes that can be read in more ways than one",
        4,
    ),
}


@for_each("text, reason, position", REJECTED.values())
def test_text_that_cannot_be_repaired_or_is_ambiguous_is_rejected(text, reason, position):
    with pytest.raises(Unrepairable) as caught:
        read(text)
    assert (caught.value.problem, caught.value.position - 3) == (reason, position)


def test_a_long_key_is_cut_in_the_message():
    key = "k" * 1000
    with pytest.raises(Unrepairable, match=f'has the key "{"k" * 60}" twice'):
        read(f'{{"{key}": 1, "{key}": 2}}')


# ---- depth


@for_each("begin, end", [("[,", "]"), ("{a:", "}"), ("{a:[,", "]}"), ("{{a:", "}}")])
def test_damaged_json_is_read_up_to_the_depth_limit(begin, end):
    most = MOST_DEPTH // (2 if "[" in begin and "{" in begin else 1)
    text = begin * most + "0" * ("a" in begin) + end * most
    assert read(text).end == len(text)
    for depth in (most + 1, 100_000):
        with pytest.raises(TooDeep):
            read(begin * depth)


def test_an_intact_part_must_not_exceed_the_depth_limit():
    with pytest.raises(TooDeep):
        read("{a: " + "[" * (MOST_DEPTH + 1) + "]" * (MOST_DEPTH + 1) + "}")
