from typing import get_args

from stage2_output.extraction.candidates import candidates
from stage2_output.parsing.errors import Unrepairable
from stage2_output.result import RepairName
from tests.tables import for_each

EXAMPLES = {
    "comment": ('{"a": 1 // one\n}', 8),
    "control_character": ('{"a": "b\tc"}', 8),
    "digit_separators": ("[1_0]", 1),
    "double_encoded": (r'"{\"a\": 1}"', 0),
    "doubled_braces": ('{{"a": 1}}', 1),
    "duplicate_key": ('{"a": 1, "a": 1}', 9),
    "ellipsis": ('{"a": 1, ...}', 9),
    "escaped_json": (r"{\"a\": 1}", 0),
    "extra_closer": ('{"a": 1}}', 8),
    "fullwidth_punctuation": ('{"a"：1}', 4),
    "invalid_escape": (r'{"a": "\d"}', 7),
    "joined_strings": ('{"a": "b" + "c"}', 10),
    "leading_comma": ('{,"a": 1}', 1),
    "literal": ('{"a": None}', 6),
    "missing_closer": ('{"a": 1', 7),
    "missing_colon": ('{"a" 1}', 5),
    "missing_comma": ('[1 "a"]', 3),
    "missing_quote": ('{"a": "b}', 9),
    "number": ("[.5]", 1),
    "single_quotes": ("['a']", 1),
    "smart_quotes": ("[“a”]", 1),
    "special_space": ("[\u00a01]", 1),
    "trailing_comma": ("[1,]", 2),
    "trailing_text": ('{"a": 1} is it', 8),
    "triple_quotes": ('["""a\nb"""]', 1),
    "tuple": ("[(1, 2)]", 1),
    "unescaped_newline": ('["a\nb"]', 3),
    "unescaped_quote": ('["say "a" b"]', 6),
    "unquoted_key": ("{a: 1}", 1),
    "unquoted_text": ('{"a": b}', 6),
}


@for_each("name, text, position", [(name, *of) for name, of in EXAMPLES.items()])
def test_each_repair_is_reported_with_its_name_and_position(name, text, position):
    repairs = candidates(text)[-1].repairs
    assert (name, position) in [(repair.name, repair.position) for repair in repairs]


def test_the_names_of_repairs_are_sorted_and_each_has_an_example():
    assert list(get_args(RepairName)) == sorted(EXAMPLES)


def test_an_unrepairable_error_has_its_problem_and_position():
    damaged = Unrepairable("lacks a value", 6)
    assert (damaged.problem, damaged.position) == ("lacks a value", 6)
