"""Random values with the damage and the surrounding text that models produce: the result is correct,
an error, or marked as incomplete."""

import json
import re
from itertools import pairwise
from random import Random

from hypothesis import assume, given, settings
from hypothesis import strategies as st

from stage2_output import Extraction, ExtractionError, OutputController, extract_json
from stage2_output.extract import find_json
from stage2_output.parsing.strict import read_strictly
from tests.tables import for_each


def listed(text):
    return re.split(r",\s+", text)


SHORT_MARKS = "\",:{}[]'` \n\\ab1.-+=()<>é中😀“”‘’，："
MARKS = [*SHORT_MARKS, "# ", *listed("//, /*, */, ```, </a>, <think>, </think>, ...")]
WORDS = [
    "no,",
    '"hi",',
    '"so"',
    *listed("a, big, city, it's, don't, 5, e.g., é, 中文, (so), x-y, 3.5, true, null, at:"),
]
ODD = [
    "true",
    "null",
    "12",
    "",
    " ",
    "\t\x00",
    "\u2028",
    'say "hi" to',
    "C:\\new\\d",
    "D:\\data\\ok",
]
HOSTILE = st.lists(st.sampled_from(MARKS), max_size=6).map("".join)
TEXTS = HOSTILE | st.lists(st.sampled_from(WORDS), max_size=4).map(" ".join) | st.sampled_from(ODD)
NUMBERS = (
    st.integers(-(10**20), 10**20) | st.floats(allow_nan=False, allow_infinity=False) | st.just(0.5)
)
SCALARS = st.none() | st.booleans() | NUMBERS | TEXTS
KEYS = st.sampled_from(listed("a, b, name, k1, x_y, value, tool, arguments")) | TEXTS
INNER = st.recursive(
    SCALARS, lambda each: st.lists(each) | st.dictionaries(KEYS, each), max_leaves=8
)
ANY = st.lists(INNER, max_size=4) | st.dictionaries(KEYS, INNER, max_size=4)


def same(one, other):
    # json.dumps distinguishes 1, True and 1.0, and the order of keys.
    return json.dumps(one) == json.dumps(other)


INSIDE = listed("""trailing comma, leading comma, missing comma, missing colon, single quotes,
    smart quotes, full-width punctuation, full-width quotes, backtick quotes, triple quotes,
    joined strings, unquoted key, unquoted text, comment, special space, foreign literal,
    foreign escape, unescaped newline, unescaped quote, unescaped apostrophe,
    unescaped backslash, wrong closer, ellipsis""")
OUTSIDE = listed("""missing closers, extra closers, double encoding, escaped quotes,
    byte order mark, doubled braces""")
COMMENTS = ["/* c */", '/* "x": 1, */', "// c\n", "// it's }\n", "# c\n", '# "c": [\n', "/*\n*/"]
SPACES = ["\u00a0", "\u2003", "\u200b", "\ufeff", "\u3000", "\v", "\f", "\x85", "\u2028"]
SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r"}
WIDE = dict(zip("{}[],:", "｛｝［］，：", strict=True))

# Ambiguous damage is not produced.
# A quote followed by structure may itself be structure: `a", "b": "c` without escapes is two members.
LIKE_STRUCTURE = re.compile(r'^"|"$|"\s*(?:["{}\[\]，<`+#/]|,(?! [a-zé]+ ))')
# The same applies to an apostrophe outside a word, and to a backslash before a letter of an escape.
WITHIN_WORDS = re.compile(r"(?:[^']|(?<=[a-zé])'(?=[a-zé]))*")
REAL_ESCAPE = re.compile(r"\\(?=[^a-zA-Z]|[bfnrtuxU]|\Z)")
# Text without quotes is not a literal, not beside another text without a comma, and not beside a
# comment (`a#b`). It is not the first item of a list, because "[see below]" in prose is not JSON.
# `{word # ...` and `{word {` are not JSON either: a colon directly follows an unquoted key.
BARE_WORDS = re.compile(r"(?!(?:true|false|null)\b)[a-zé中文][-a-zé中文 ]*(?<! )")


class Writer:
    """Writes a value as JSON with the given kinds of damage, each at some positions."""

    def __init__(self, random, damages, share=0.5):
        self._random, self._damages, self._share = random, damages, share

    def _does(self, damage):
        return damage in self._damages and self._random.random() < self._share

    def write(self, value, *, first=False):
        if isinstance(value, dict):
            return self._joined("{", [self._member(key, each) for key, each in value.items()], "}")
        if isinstance(value, list):
            items = [self.write(each, first=number == 0) for number, each in enumerate(value)]
            return self._joined("[", items, "]")
        if isinstance(value, str):
            return self._text(value, first)
        if isinstance(value, bool | None) and self._does("foreign literal"):
            return repr(value) if value is not None or self._random.random() < 0.5 else "undefined"
        return json.dumps(value)

    def _joined(self, begin, parts, end):
        text = self._mark(begin) + ("," if self._does("leading comma") else "")
        for number, part in enumerate(parts):
            last = number == len(parts) - 1
            comma = "" if last or self._does("missing comma") else self._mark(",")
            text += (
                self._gap()
                + part
                + (
                    self._gap() + comma
                    if comma
                    else ""
                    if last
                    else self._random.choice([" ", "\n", "\n  "])
                )
            )
        if self._does("ellipsis"):
            text += (", " if parts else "") + "..."
        elif parts and self._does("trailing comma"):
            text += self._gap() + ","
        if self._does("wrong closer"):
            end = {"}": "]", "]": "}"}[end]
        return text + self._gap() + self._mark(end)

    def _mark(self, mark):
        return WIDE[mark] if self._does("full-width punctuation") else mark

    def _member(self, key, value):
        is_bare, loses_colon = (
            key.isidentifier() and self._does("unquoted key"),
            self._does("missing colon"),
        )
        colon = self._random.choice([" ", " => ", "=>"])
        if is_bare or not loses_colon:
            colon = "=>" if loses_colon else self._mark(":")
            colon = colon if is_bare else self._gap() + colon + self._gap()
        return (key if is_bare else self._quoted(key, is_key=True)) + colon + self.write(value)

    def _gap(self):
        gap = self._random.choice(["", "", " ", "\n"])
        if self._does("comment"):
            touches = "" if "unquoted text" not in self._damages else " "
            gap += self._random.choice([touches, " ", "\n"]) + self._random.choice(COMMENTS)
        if self._does("special space"):
            gap += self._random.choice(SPACES)
        return gap

    def _text(self, text, first):
        may_be_bare = (
            BARE_WORDS.fullmatch(text) and not first and "missing comma" not in self._damages
        )
        if may_be_bare and self._does("unquoted text"):
            return text
        if "\n" in text and not {*text} & {*'\\"'} and self._does("triple quotes"):
            return f'"""{text}"""'
        if not {*text} & {*"\\`"} and self._does("backtick quotes"):
            return f"`{text}`"
        if len(text) > 1 and self._does("joined strings"):
            at = self._random.randrange(1, len(text))
            return (
                self._quoted(text[:at]) + self._gap() + "+" + self._gap() + self._quoted(text[at:])
            )
        return self._quoted(text)

    def _quoted(self, text, *, is_key=False):
        body = self._damage_body(
            text, json.dumps(text, ensure_ascii=self._random.random() < 0.3)[1:-1], is_key
        )
        single = re.sub(r"\\(.)", lambda found: '"' if found[1] == '"' else found[0], body)
        if self._does("single quotes"):
            return "'" + single.replace("'", "\\'") + "'"
        if WITHIN_WORDS.fullmatch(text) and self._does("unescaped apostrophe"):
            return "'" + single + "'"
        if not {*text} & {*"“”„‟"} and self._does("smart quotes"):
            return "“" + body + "”"
        if "＂" not in text and self._does("full-width quotes"):
            return "＂" + body + "＂"
        return '"' + body + '"'

    def _damage_body(self, text, body, is_key):
        if self._does("unescaped newline"):
            for mark, escape in SHORT.items():
                body = re.sub(rf"(?<!\\)((?:\\\\)*){re.escape(escape)}", rf"\1{mark}", body)
        if not is_key and not LIKE_STRUCTURE.search(text) and self._does("unescaped quote"):
            body = body.replace('\\"', '"')
        plain = body.isascii() and "\\u" not in body.replace("\\\\", "") and '"' not in text
        if plain and not REAL_ESCAPE.search(text) and self._does("unescaped backslash"):
            body = body.replace("\\\\", "\\")
        if body.isalnum() and self._does("foreign escape"):
            body = f"\\U{ord(body[0]):08x}{body[1:]}"
        return body


def damaged(text, damages, random):
    """Apply the kinds of damage that affect a text as a whole."""
    if "doubled braces" in damages and text[0] == "{" and text[-1] == "}":
        text = "{" + text + "}"
    if "missing closers" in damages:
        text = re.sub(rf"(?:[\]}}｝］]\s*){{1,{random.randrange(1, 4)}}}\Z", "", text)
    elif "extra closers" in damages:  # only at the end, because others would close open containers
        text += random.choice(["}", "]", "}}", "\n}", "]\n}"])
    if {*damages} <= {"byte order mark", "double encoding", "escaped quotes"}:
        # Unrepairable JSON in a valid string is that string; text without quotes does not look escaped.
        if "double encoding" in damages and '"' in text:
            text = json.dumps(text)
        elif "escaped quotes" in damages and '"' in text:
            text = json.dumps(text)[1:-1]
    return "\ufeff" + text if "byte order mark" in damages else text


FRAMES = listed(
    """@,  ↵ @ ↵,  ```json↵@↵```,  ```↵@↵```,  Here you go:↵↵```json↵@↵```↵Is that all?,  ```json↵@,
    Sure! Here it is: @,  **Answer:** @,  The answer is↵@↵as you asked.,
    As {name} said [1]: use↵@↵,
    <think>Let me see. I need {one} of [these].</think>↵@,  <think>Or {"draft": 1} or [1]?</think>@,
    So the user wants it.</think>↵@,  <tool_call>↵@↵</tool_call>,  <tool_call>@""".replace(
        "↵", "\n"
    )
)


def reply(value, damages, random):
    return random.choice(FRAMES).replace(
        "@", damaged(Writer(random, damages).write(value), damages, random)
    )


def read(text):
    """The extraction from a text, or None for an error; other exceptions fail the test."""
    try:
        return extract_json(text)
    except ExtractionError:
        return None


def is_harmless(found, value, text):
    """Whether a result is an error, incomplete with a reason, or correct with its repairs."""
    if found is None or not found.complete:
        return found is None or bool(found.repairs)
    is_valid = read_strictly(text[found.start : found.end], 0) is not None
    return same(found.value, value) and (is_valid or bool(found.repairs))


@settings(max_examples=120)
@given(ANY, st.integers(0, 10**9))
def test_a_damaged_value_is_read_correctly_or_not_as_complete(value, seed):
    random = Random(seed)
    for damage in INSIDE + OUTSIDE:
        text = reply(value, [damage, *random.sample(INSIDE + OUTSIDE, random.randrange(3))], random)
        found = read(text)
        assert is_harmless(found, value, text), (text, found)


@given(ANY, st.integers(0, 10**9))
def test_an_undamaged_value_is_read_correctly_from_any_surrounding_text(value, seed):
    assume(isinstance(value, dict) or len(value) > 1)  # [ ] is a checkbox in prose, [1] a citation
    random = Random(seed)
    for _ in range(5):
        text = reply(value, [], random)
        found = read(text)
        assert found is not None, text
        assert found == Extraction(value, found.start, found.end, found.source), text
        assert same(
            read_strictly(text[found.start : found.end], 0), [value, found.end - found.start]
        )


PLAIN_VALUES = [
    {
        "name": "Oslo's",
        "days": [1, 2.5, "three"],
        "note": None,
        "more": {"sure": True, "x_y": 'so "no", he said'},
    },
    [
        {"a": "it's", "b": 'say "hi" to'},
        {"a": "one\ntwo", "b": "C:\\data\\old"},
        ["x", "", "y z"],
        [],
    ],
]


@for_each("damage", [each for each in INSIDE + OUTSIDE if each != "wrong closer"])
def test_each_kind_of_damage_alone_is_mostly_repaired_in_plain_data(damage):
    """A reader that rejects everything must not pass."""
    right = 0
    for seed in range(40):
        random, value = Random(seed), PLAIN_VALUES[seed % 2]
        text = damaged(Writer(random, [damage], share=0.9).write(value), [damage], random)
        assert is_harmless(read(text), value, text), text
        right += read(text) is not None
    assert right >= 15


# Texts that were read incorrectly in the past, found with random values.
FOUND = {
    "Use [\u200b[true]]": [[True]],
    "So: { x_y=>[1]}": {"x_y": [1]},
    'So: "[\\n{ \\"a\\": 1}, 2]"': [{"a": 1}, 2],
    '［ "x y"， ｛},［""\n,1 ］\n］': ["x y", {}, ["", 1]],
    "{'a': 'b'， k=>'c'}": {"a": "b", "k": "c"},
    '{"a": `\'}`, "b": 1}': {"a": "'}", "b": 1},
    '{"a": "\':x"\ufeff,\u200b"b"\ufeff:\u200b"c d"\u200b, "e": "f"}': {
        "a": "':x",
        "b": "c d",
        "e": "f",
    },
    '{"a": 1 b:0}': {"a": 1, "b": 0},
    "[1  `b`]": [1, "b"],
    "[2 \ufeff1]": [2, 1],
    "[2 1# c\n]": [2, 1],
    "[[], 0\\n]": [[], 0],
}


@for_each("text, value", FOUND.items())
def test_texts_that_were_read_incorrectly_in_the_past_are_read_correctly(text, value):
    assert is_harmless(read(text), value, text), read(text)


SHREDS = [
    *MARKS,
    "\ufeff",
    "```json\n",
    *listed("""null, "a", "a":, key:, 'a', <tool_call>, </tool_call>"""),
]
TEXT = st.text() | st.lists(st.sampled_from(SHREDS), max_size=30).map("".join)
SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}


@settings(max_examples=300)
@given(TEXT)
def test_any_text_raises_only_extraction_errors_and_every_span_is_correct(text):
    found, broken = find_json(text)
    assert read(text) in [None, *found]
    for each in found:
        assert 0 <= each.start < each.end <= len(text)
        if not each.repairs:
            assert each.complete
            assert same(
                read_strictly(text[each.start : each.end], 0), [each.value, each.end - each.start]
            )
    assert all(one.end <= other.start or one.start == other.start for one, other in pairwise(found))
    assert all(0 <= each.start <= each.position <= len(text) for each in broken)


@given(TEXT, st.sampled_from([None, SCHEMA, True, False]), st.booleans(), st.booleans())
def test_a_controller_returns_a_result_for_any_text(text, schema, truncated, coerce):
    result = OutputController().parse_and_validate(text, schema, truncated=truncated, coerce=coerce)
    assert result.success == (not result.errors)
    assert result.raw == text
