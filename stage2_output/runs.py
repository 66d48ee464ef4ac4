"""Members and items that leave nothing to ask, each read by one pattern: most of any damaged document is so.

    'city': 'Oslo', "days": 3, detailed: True,

A string without escapes and inner quotes, a number or a literal, then what must follow it: a comma with the
next member or item, or the bracket that closes. Everything else is left to `repair.py`, which would read these
just the same, at a fifth of the speed.
"""

import re
from collections.abc import Sequence
from typing import Any

from stage2_output.damage import Repair
from stage2_output.nesting import Frame

_GAP = r"[ \t\r\n]*+"
_GAP_AHEAD = r"(?:[ \t\r\n]++|(?://|\#)[^\r\n]{0,300}+|/\*[^*]{0,300}+\*/)*+"
_NUMBER = r"-?(?:0|[1-9][0-9]{0,300}+)(?:\.[0-9]{1,300}+)?(?:[eE][-+]?[0-9]{1,300}+)?"
_LITERALS: dict[str, Any] = {
    "true": True,
    "false": False,
    "null": None,
    "True": True,
    "False": False,
    "None": None,
}
_LITERAL = "|".join(_LITERALS)
_DOUBLE, _SINGLE, _SMART = (rf'[^{quotes}"\\\x00-\x1f]*+' for quotes in ("", "'", "“”"))
_VALUE = rf"""(?:(?P<text>"(?P<double>{_DOUBLE})"|'(?P<single>{_SINGLE})'|“(?P<smart>{_SMART})”)
    |(?P<number>{_NUMBER})|(?P<literal>{_LITERAL}))"""
_KEY = rf"""(?:"(?P<key>{_DOUBLE})"|'(?P<single_key>{_SINGLE})'|“(?P<smart_key>{_SMART})”
    |(?P<bare_key>[A-Za-z_]\w*+))"""
_COLON = r"(?:(?P<wide_colon>：)|:)"
_COMMA = r"(?:(?P<comma>,)|(?P<wide_comma>，))"
# What may follow a comma, and what also shows, where there is none, that it is missing.
_NEXT_KEY = rf"""(?:"{_DOUBLE}"|'{_SINGLE}'|“{_SMART}”){_GAP}[:：]"""
_AFTER_MEMBER = rf"{_NEXT_KEY}|[A-Za-z_]\w*+{_GAP}[:：]|\}}|\.\.\.|…"
_AFTER_ITEM = rf"""["'“\[{{\]]|(?:{_NUMBER}|{_LITERAL}){_GAP}[,，\]]|\.\.\.|…"""
_MISSING_AFTER_TEXT = r"""[ \t\r\n]++["']"""
_MISSING_AFTER_OTHERS = rf"""{_GAP}["']|[ \t]*+[\r\n]{_GAP}(?:{_NUMBER}|{_LITERAL})[ \t]*+[\r\n,\]]"""
_MEMBER = re.compile(
    rf"""{_KEY}{_GAP}{_COLON}{_GAP}{_VALUE}
    (?:{_GAP}{_COMMA}(?={_GAP_AHEAD}(?:{_AFTER_MEMBER}))|(?={_GAP}{_NEXT_KEY})|(?={_GAP}\}})){_GAP}""",
    re.VERBOSE,
)
_ITEM = re.compile(
    rf"""{_VALUE}
    (?:{_GAP}{_COMMA}(?={_GAP_AHEAD}(?:{_AFTER_ITEM}))
      |(?=(?(text){_MISSING_AFTER_TEXT}|(?:{_MISSING_AFTER_OTHERS})))|(?={_GAP}\])){_GAP}""",
    re.VERBOSE,
)
_KEY_BEFORE_BRACKET = re.compile(rf"{_KEY}{_GAP}{_COLON}{_GAP}(?=[{{\[])", re.VERBOSE)
_UNREADABLE = object()


def read_run(text: str, at: int, end: int, frame: Frame, repairs: list[Repair]) -> int:
    """Read plain members or items into an open object or array; returns where the first other thing begins.

    Args:
        text: The text.
        at: Where a member or item may begin.
        end: Where the text is taken to end.
        frame: The object or array; behind the run its state says what was read last.
        repairs: What is mended is added here.
    """
    pattern, take, closer = (_MEMBER, _take_member, "}") if frame.closer == "}" else (_ITEM, _take_item, "]")
    last = None
    while (found := pattern.match(text, at, end)) and take(found, frame.value, repairs):
        last, at = found, found.end()
        comma, wide_comma = found.groups()[-2:]
        if wide_comma is not None:
            repairs.append(Repair("fullwidth_punctuation", found.start("wide_comma")))
        elif comma is None:
            if text.startswith(closer, at, end):
                break
            repairs.append(Repair("missing_comma", at))
    if last is not None:
        comma = last.start("comma") if last["comma"] else last.start("wide_comma")
        frame.state, frame.bare_text, frame.comma = "value" if comma < 0 else "comma", False, comma
    return at


def read_key(text: str, at: int, end: int, frame: Frame, repairs: list[Repair]) -> int:
    """Read a plain key and its colon, where an object or array follows; returns where that begins, or `at`."""
    found = _KEY_BEFORE_BRACKET.match(text, at, end)
    if found is None:
        return at
    noted = len(repairs)
    name = _key(found, repairs)
    if name in frame.value:
        del repairs[noted:]
        return at
    frame.key = name
    return found.end()


def _take_item(found: re.Match[str], items: list[Any], repairs: list[Repair]) -> bool:
    value = _value(found, found.groups(), repairs)
    if value is _UNREADABLE:
        return False
    items.append(value)
    return True


def _take_member(found: re.Match[str], members: dict[str, Any], repairs: list[Repair]) -> bool:
    noted = len(repairs)
    name, value = _key(found, repairs), _value(found, found.groups()[5:], repairs)
    if name in members or value is _UNREADABLE:  # which is refused where it is read once more
        del repairs[noted:]
        return False
    members[name] = value
    return True


def _key(found: re.Match[str], repairs: list[Repair]) -> str:
    key, single, smart, bare, wide_colon = found.groups()[:5]
    if wide_colon is not None:
        repairs.append(Repair("fullwidth_punctuation", found.start("wide_colon")))
    if key is not None:
        return key
    if single is not None:
        repairs.append(Repair("single_quotes", found.start("single_key") - 1))
    elif smart is not None:
        repairs.append(Repair("smart_quotes", found.start("smart_key") - 1))
    else:
        repairs.append(Repair("unquoted_key", found.start("bare_key")))
    return single or smart or bare or ""


def _value(found: re.Match[str], groups: Sequence[str | None], repairs: list[Repair]) -> Any:
    _, double, single, smart, number, literal = groups[:6]
    if double is not None:
        return double
    if number is not None:
        return _number(number)
    if literal is not None:
        if literal[0] in "TFN":
            repairs.append(Repair("literal", found.start("literal")))
        return _LITERALS[literal]
    if single is not None:
        repairs.append(Repair("single_quotes", found.start("single") - 1))
        return single
    repairs.append(Repair("smart_quotes", found.start("smart") - 1))
    return smart


def _number(digits: str) -> Any:
    if digits.lstrip("-").isdecimal():
        return int(digits)
    number = float(digits)
    return number if number - number == 0 else _UNREADABLE
