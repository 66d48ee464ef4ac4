"""RFC 8259: valid JSON is returned unchanged, and invalid JSON is an error or reports its repairs.

The cases follow the grammar of the standard: whitespace, literals, numbers, strings, arrays,
objects, and whole texts.
"""

import json
import re

import pytest
from hypothesis import strategies as st

from stage2_output import Extraction, ExtractionError, Repair, extract_json
from stage2_output.parsing.lenient import LenientReader
from stage2_output.parsing.strict import MOST_DEPTH, IntactParts
from tests.random_values import json_values, random_examples
from tests.stage2_output.texts import SPELLINGS, read, same
from tests.tables import for_each

CONTROL = {0x2400 + code: code for code in range(0x21)}


def cases(written):
    """Texts that are separated by two spaces or line ends; ␀ means U+0000, and ␠ a space."""
    return [text.translate(CONTROL) for text in re.split(r" {2,}|\n", written) if text]


# ---- valid JSON

LITERALS = ["true", "false", "null"]
NUMBERS = cases(r"""
    0  -0  7  -7  10  -10  42  1234567890  100000000000000000000  -99999999999999999999  0.0  -0.0
    0.5  -0.5  3.14159  1.10  10.000  0.00000000000000000000000000000001  0e0  0E1  0e+1  0e-1  -0e2
    1e5  1E5  1e+5  1E+5  1e-5  1E-5  1e05  1e-00  1.5e3  1.5E-3  -2.25e+2  123.456e78  1e308
    -1e308  5e-324  1e-400  -1e-999  0.1e1  9007199254740993  1.7976931348623157e308
    2.2250738585072014E-308
""")
STRINGS = cases(r"""
    ""  " "  "a"  "two words"  "\""  "\\"  "\/"  "/"  "\b\f\n\r\t"  "\u0041"  "\u00e9"  "\u00E9"
    "\u00eF"  "\u0000"  "\u001f"  "\uFFFF"  "\ufdd0"  "\ud83d\ude00"  "\uD83D\uDE00"  "\\u0041"
    "\\\\"  "\\\""  "\u005c"  "\u0022"  "é"  "中文"  "😀"  "null"  "12"  "[1"  "{}}"  "{\"a\" 1}"
    "// no"  "/* no */"  "# no"  "it's"  "`x`"  "“q”"  "a, b"  "a: b"  "]"  "}"  "'"  "..."  "…"
    "```"  "<b>"  "</think>"  "\ud800"  "\udc00\ud800"  "a\ud800b"  "，：｛｝"  "\n```\n"  "+"
    " , "
""")
STRINGS += ['"\u2028\u2029"', '"\xa0\u200b\ufeff"', '"\x7f"', '"\uffff"', '"\x80"', '"\U0010ffff"']
ARRAYS = cases(r"""
    []  [ ]  [␊]  [␍␊]  [␉]  [[]]  [[], []]  [[[[]]]]  [{}]  [{}, {}]  [1]  [1,2]  [ 1 , 2 ]  [1,␊2]
    ["a"]  ["a","b"]  [null]  [null, true, false]  [1,[2,[3,[4]]]]  [""]  ["", ""]
    [1, "a", null, {"b": []}]  [ 1]  [1 ]  ["a"␊]  [[1],[2],[3]]
""")
OBJECTS = cases(r"""
    {}  { }  {␊}  {"a":1}  {"a": 1, "b": 2}  { "a" : 1 }  {"a":{}}  {"a":[]}  {"":0}  {"":""}
    {"a":{"a":{"a":null}}}  {"\u0061":1}  {"a b":1}  {"a\"b":1}  {"\\":1}  {"1":1,"2":2}
    {"a":"b","c":"d"}  {␊"a"␊:␊1␊}  {"é":"ü"}  {"😀":[{"b":true}]}  {"a":[1,2,{"b":[3]}]}  {"{":"}"}
    {"a":":"}  {"a":","}  {"true":true,"null":null}  {"a":"b\n","c":"\""}  {"\n":1}
""")
SCALARS = LITERALS + NUMBERS + STRINGS
IN_CONTAINERS = ("[@]", "[0, @, {}]", '{"k":@}', '{"k": @, "l":@ }', '[{"k":\n@\n}]')
SPACES = ["", " ", "\n", "\r\n", "\r", "\t", " \t\r\n \t\r\n"]


def is_unchanged(text):
    found = extract_json(text)
    whole = found == Extraction(found.value, 0, len(text), "bare")
    return whole and same(found.value, json.loads(text))


@for_each("text", SCALARS + ARRAYS + OBJECTS)
def test_valid_json_is_returned_unchanged(text):
    assert is_unchanged(text)
    for frame in IN_CONTAINERS:
        assert is_unchanged(frame.replace("@", text)), frame


@for_each("text", STRINGS)
def test_every_string_can_be_a_key(text):
    assert is_unchanged(f"{{{text}:1}}")
    assert is_unchanged(f'[{{ "k" : 0, {text} : {text}}}]')


def test_a_string_that_contains_a_list_is_decoded_by_design():
    assert extract_json('"[1]"') == Extraction([1], 0, 5, "bare", (Repair("double_encoded", 0),))


@for_each("space", SPACES)
def test_whitespace_around_any_part_changes_nothing(space):
    text = '@{@"a"@:@[@1@,@null@,@"b"@]@,@"c"@:@{@}@}@'.replace("@", space)
    assert extract_json(text) == Extraction(
        {"a": [1, None, "b"], "c": {}}, len(space), len(text) - len(space), "bare"
    )


@for_each("begin, end", [("[", "]"), ('{"a":', "}"), ('[{"a":', "}]")])
def test_nested_json_is_read_up_to_the_depth_limit(begin, end):
    levels = MOST_DEPTH // begin.replace("{", "[").count("[")
    text = begin * levels + ("0" if "a" in begin else "") + end * levels
    assert extract_json(text).value == json.loads(text)
    assert extract_json(text).repairs == ()
    for deep in (f"[{text}]", f'{{"b": {text}}}', begin * 100_000 + "0" + end * 100_000):
        with pytest.raises(ExtractionError, match="is nested too deeply"):
            extract_json(deep)


def test_a_byte_order_mark_before_the_text_is_ignored():
    assert extract_json('\ufeff{"a": 1}') == Extraction({"a": 1}, 1, 9, "bare")


HOSTILE = st.text("ab1 \\\"',:{}[]\n`<>/#“é中😀-.+")


@random_examples(40, 400, json_values(st.text() | HOSTILE), st.sampled_from([*SPELLINGS.values()]))
def test_the_lenient_reader_reads_valid_json_like_the_strict_one(value, spelling):
    text = json.dumps([value, value], **spelling)
    # Without intact parts, the lenient reader reads everything itself.
    for intact in (IntactParts(""), IntactParts(text)):
        repaired = LenientReader(text, 0, len(text), intact, {}).read()
        assert same(repaired.value, [value, value])
        assert repaired[1:4] == (len(text), (), True)


# ---- invalid JSON

NO_LITERALS = cases(r"""
    True  FALSE  Null  TRUE  nulL  tru  fals  nul  truee  nullx  nil  None  undefined  t  f  n  yes
    no  on  NaN  nan  -NaN  Infinity  -Infinity  +Infinity  inf  -inf  true false  truefalse  true1
    nan()  abc  é  *  @  å  �  nu␀ll
""")
NO_LITERALS += ["\udce5"]
NO_NUMBERS = cases(r"""
    +1  ++1  --1  +-1  -  +  - 1  -a  01  -01  00  -00  007  012.5  00.5  0123e4  .5  -.5  +.5  5.
    -5.  0.  .  -.  1.e5  1.e+5  .5e1  0.e1  5.e  1..5  1.5.  1.2.3  1e  1E  1e+  1e-  1.5e  1.5e+
    e5  1e5.5  1ee5  1eE5  1e+-5  1e5e5  0e  0E+  1ex  0x1F  0xA  0b10  0o17  1_000  1 000  1'000
    １
    1٢  १  ½  ²  1a  1.5x  1-2  1+2  1/2  1*2  1%  $1  5px  1.5f  10L  1n  1e9999  -1e9999  2@  1␀
    1�  -1x  -1.5e  1:2  1;2  1=1  (1)  0 1  -0-  1.-5
""")
NO_NUMBERS += ["1e1\udce5"]
NO_STRINGS = cases(r'''
    "  "a  a"  "a""  ""a"  'a'  ''  `a`  “a”  'a"  "a'  """a"""  "a" "b"  "a"b  ""x  "\"  "\  "\\\"
    "\a"  "\x41"  "\0"  "\1"  "\v"  "\'"  "\ "  "\é"  "\😀"  "\u"  "\u1"  "\u12"  "\u123"  "\u 123"
    "\u12g4"  "\uqqqq"  "\U0041"  "\U0001F600"  "\ud800\u"  "\ud800\u1"  "\ud800\ux"  "\u+123"
    "\u-123"  "\u{41}"  "\ud834\udd"  "␉"  "␊"  "␍"  "␍␊"  "a␊b"  "a␉b"  "␀"  "␁"  "␈"  "␋"  "␟"
    "\␊"  "\␉"  \"a\"  "a\"  "say "hi""  "a"+"b"  "a"\n  \u0022a\u0022  "\␀"  "a␟b"
''')
NO_ARRAYS = cases(r"""
    [  ]  [[  [[]  []]  ][  [1  [1,  ["a  ["a"  ["a",  [1,]  [1,,]  [,]  [,,]  [,1]  [1,,2]  [1 2]
    [1 true]  ["a" "b"]  [1 "a"]  [1;2]  [1:2]  ["a":1]  [1,2,,]  [ , 1]  [1}  [1)  (1]  [1]]  [[1]
    [3[4]]  [[]1]  [{]  [{}  [}  [{  ['  [a  [␊1␊,  [\n1]  [...]  [1, ...]  [1…]  [*]  [:]  [;]  [-]
    ["a]  ["a"x]  ["a']  [1,␋2]  [␌]  [␀]  [1，2]  ［1］  [1,2  [\u000a1]  ["a", ""b"]
""")
NO_ARRAYS += ["[\xa0]", "[\u2060]", "[\u20281]", "[\ufeff1]", "[1\u3000]"]
NO_OBJECTS = cases(r"""
    {  }  {{  {}}  {{}}  }{  {"  {"a  {"a"  {"a":  {"a":1  {"a":1,  {"a":1,}  {"a":1,,}  {,}
    {,"a":1}  {"a":1,,"b":2}  {"a":1 "b":2}  {"a" 1}  {"a"}  {"a","b"}  {"a":}  {"a":,"b":1}  {:1}
    {"a"::1}  {"a":1:2}  {"a"=1}  {"a"=>1}  {"a";1}  {"a":1;"b":2}  {a:1}  {'a':1}  {`a`:1}  {1:1}
    {1e9:1}  {null:1}  {true:1,null:2}  {["a"]:1}  {[:1}  {{"a":1}:2}  {{"a":1}}  {[]}  {1}  {"a":1]
    ["a":1}  {"a":[1}  {"a":[1}]  {"a":{"b":1}  {"a":"b  {"a":"b}  {"a":"b"c}  {"a":1 2}  {"a":b}
    {"a" b}  {"a":1, 2}  {"a":1, "b"}  {"a":"b" "c"}  {"a":1}}  {"a":1}{"b":2}  {"a":1},
    {"a":1,"a":2}  {"a":1,"b":2,"a":1}  {"a":{"b":1,"b":1}}  {"\u0061":1,"a":2}  {"":1,"":2}
    [{"a":1,"a":1}]  {"a":␀}  {"a"：1}  ｛"a":1｝  {"a":1\n}  {"a":1, ...}  {...}  {"a":1,"b":}  {é}
    {"a":1,"b"  {"a":1,"b  {🇨🇭}  {"a":"b",c}  {"a":"b",}  {"a b:1}  {a b:1}  {"a":"b"}"c"  {"a":1}]
""")
NO_OBJECTS += ['{"a"\xa0:1}']
COMMENTS = cases(r"""
    {"a":/* c */1}  {"a":1/* c */}  {/* c */}  {"a":1}/**/  {"a":1}//  {"a":1}//c  [1//c␊]  {"a":1}/
    {"a":1}#  {"a":1} # c  [1, # c␊2]  [/**/]  [1]/*  [1/*]  {"a"//␊:1}  [1]/**//  [1,/**/]
    {"a":1}<!-- c -->  {"a":1} -- c  [1, /* c ]  {"a":1}#{}  /**/1  1//  1 # c  "a"/**/  //  /**/
""")
NO_TEXTS = cases(r"""
    ␠  ␊  ␉␍␊  ␀  ,  :  ;  "  '  \  <  >  1]  1}  ]1  }1  1 2  "a" 1  null null  1,2  <null>  <.>
    a:1  "a":1  "a":1,"b":2  (1)  [][]  [1][2]  {}{}  []{}  {}[]  [1]x  [1] x  {"a":1} "x"  [1] 2
    [1],  [1],2  [""],[""]  {} ;  {"a":1}␀  [1]␀  [1]␌  [1]\n  [1]]  [1]}  {}]  {"a":1}...  [1] ...
    {"a":1} {  {"a":1} [  [1] "  [1] [  [1]:  {}:{}  {"a":1}=  {}+{}
""")
NO_TEXTS += ["", "\ufeff", "\u2060", "\xa0", "{}\u2060", "{}\udcff"]
NO_SCALARS = NO_LITERALS + NO_NUMBERS + NO_STRINGS
OPEN = cases(
    r"""[  {"a":  [{"a":  {  {"a":[  ["  {"  [1,  {"a":1,  ["\{  [''  [{}  []  {}  ""  [1"""
)


def is_json(text):
    """Whether a text is valid JSON; by design, a text with a duplicate key is not."""
    try:
        json.loads(text, object_pairs_hook=unique, parse_constant=refused, parse_float=finite)
    except ValueError:
        return False
    return True


def unique(pairs):
    if len({key for key, _ in pairs}) < len(pairs):
        raise ValueError("duplicate key")


def refused(name):
    raise ValueError(name)


def finite(digits):
    if float(digits) in (float("inf"), float("-inf")):
        raise ValueError(digits)


def is_error_or_reported(found):
    """Whether a result from invalid JSON is an error, incomplete, or reports repairs."""
    return found is None or not found.complete or bool(found.repairs)


@for_each("text", [*NO_SCALARS, *NO_ARRAYS, *NO_OBJECTS, *COMMENTS, *NO_TEXTS])
def test_invalid_json_is_an_error_or_reports_its_repairs(text):
    assert not is_json(text)
    assert is_error_or_reported(read(text)), read(text)


@for_each("frame", IN_CONTAINERS)
def test_invalid_json_inside_a_container_is_an_error_or_reports_its_repairs(frame):
    every = [frame.replace("@", text) for text in NO_SCALARS + NO_ARRAYS + NO_OBJECTS]
    assert [
        written for written in every if is_json(written) or not is_error_or_reported(read(written))
    ] == []


@for_each("text", NO_STRINGS)
def test_an_invalid_string_as_a_key_is_an_error_or_reports_its_repairs(text):
    written = f'{{{text}: 1, "l": 2}}'
    assert not is_json(written)
    assert is_error_or_reported(read(written)), read(written)


@for_each("count", [3, 20_000])
@for_each("unit", OPEN)
def test_repeated_opening_text_is_an_error_or_reports_its_repairs(unit, count):
    assert is_error_or_reported(read(unit * count))


@for_each(
    "before", ["", "x\n", "1\n", "x ", "Here: ", "...", "/* c */", "\u00a0", "\v", "\x00", "]"]
)
@for_each("after", ["\nx", "\n2", "\r\n//", "\n\f"])
def test_json_between_other_text_has_the_source_prose(before, after):
    start = len(before)
    assert extract_json(f'{before}{{"a": 1}}{after}') == Extraction(
        {"a": 1}, start, start + 8, "prose"
    )


# ---- one wrong character

TEXTS = [*ARRAYS, *OBJECTS, *(f'{{"k": [{text}, {text}]}}' for text in NUMBERS[::4] + STRINGS[::3])]
MARKS = st.sampled_from([*"\"'`“”,，:{}[]()\\/*#+-.0123e tfnau\n\r\t\v\x00\x01\u00a0\ufeffé"])


@random_examples(20, 400, st.sampled_from(TEXTS), st.data())
def test_one_wrong_character_is_never_ignored_silently(text, data):
    at = data.draw(st.integers(0, len(text)), label="position")
    width = data.draw(st.integers(0, 1), label="characters removed")
    written = text[:at] + data.draw(MARKS | st.just(""), label="inserted") + text[at + width :]
    found = read(written)
    bare = written.strip(" \t\r\n\ufeff")  # the byte order mark is ignored
    if is_json(bare):
        assert found is not None
        assert (found.repairs, found.complete, found.source) == ((), True, "bare")
        assert same(found.value, json.loads(bare))
    elif found is not None and found.complete and not found.repairs:
        assert found.source == "prose"  # a complete value with the wrong character outside
        assert is_json(written[found.start : found.end])
