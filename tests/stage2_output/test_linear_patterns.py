"""The regular expressions that read replies of models never backtrack without a limit.

Each is tested twice. Structure: a repeat without a low limit must be possessive, or one class
of characters at the end of the pattern, so that it cannot backtrack. The number of other choices is
limited. Counting: `Steps` matches like `re` and counts its steps. Four times the text must take at
most about four times the steps, for the worst text of each repeat.
"""

import ast
import importlib
import re
from pathlib import Path

import pytest

import stage2_output

pytestmark = pytest.mark.long

ROOT = Path(stage2_output.__file__).parent
HIGH = 300  # a repeat with a higher limit must not backtrack
MOST_CHOICES = 2000  # of a pattern to continue from one position
MOST_STEPS = 200_000  # for a text of a few hundred characters
SEARCHES = {"search", "finditer", "findall", "sub", "subn", "split"}
ALPHABET = [*map(chr, range(1, 127)), *"é中😀½“”„‟‘’‚‛＂´，：；｛｝［］◁▷…\u00a0\u2028\ufeff\u200b"]
OP = re._constants
CLASSES = (OP.LITERAL, OP.NOT_LITERAL, OP.IN, OP.ANY)
CHOICES = (OP.BRANCH, OP.GROUPREF_EXISTS)
GREEDY, POSSESSIVE = (OP.MAX_REPEAT, OP.MIN_REPEAT), OP.POSSESSIVE_REPEAT


def sources(*names):
    """The syntax trees of these modules and of the modules of the stage that they import."""
    found, open_ = {}, [*names]
    while open_:
        name = open_.pop()
        if name in found:
            continue
        file = ROOT / f"{name.replace('.', '/')}.py"
        if not file.exists():
            continue  # a package, which has no patterns
        found[name] = ast.parse(file.read_text("utf-8"))
        for node in ast.walk(found[name]):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith(
                "stage2_output."
            ):
                open_.append(node.module.removeprefix("stage2_output."))
    return found


READERS = sources("extract", "partial")


def patterns_in(value):
    if isinstance(value, re.Pattern):
        yield value
    elif isinstance(value, dict):
        yield from patterns_in([*value, *value.values()])
    elif isinstance(value, list | tuple | set | frozenset):
        for item in value:
            yield from patterns_in(item)


def searched_in(tree):
    """The names of the patterns that a module searches for, at every position of a text."""
    for node in ast.walk(tree):
        if (
            isinstance(node, ast.Attribute)
            and node.attr in SEARCHES
            and isinstance(node.value, ast.Name)
        ):
            yield node.value.id


TRIED_AT_EACH_BACKTICK = {"parsing.whitespace._CLOSING_MARKUP"}
PATTERNS = {
    f"{module}.{name}" + (f"[{number}]" if number else ""): (
        pattern,
        name in searched_in(READERS[module]) or f"{module}.{name}" in TRIED_AT_EACH_BACKTICK,
    )
    for module in sorted(READERS)
    for name, value in vars(importlib.import_module(f"stage2_output.{module}")).items()
    for number, pattern in enumerate(patterns_in(value))
}


def test_all_patterns_of_the_readers_are_tested():
    written = {name for name, tree in READERS.items() if "re.compile" in ast.unparse(tree)}
    assert (
        {name.rpartition("._")[0] for name in PATTERNS}
        >= written
        >= {f"parsing.{name}" for name in ("bare_values", "quotes", "strings", "lenient")}
    )


@pytest.mark.parametrize("name", READERS)
def test_patterns_are_compiled_only_in_assignments_at_module_level(name):
    elsewhere = "\n".join(
        ast.unparse(node) for node in READERS[name].body if not isinstance(node, ast.Assign)
    )
    assert not re.search(
        r"\bre\.(compile|match|search|sub|subn|split|findall|finditer|fullmatch)\(", elsewhere
    )


# ---- by structure


def tree_of(pattern):
    return re._parser.parse(pattern.pattern, pattern.flags & ~re.DEBUG)


def bodies(op, argument):
    """The parts inside a part of a pattern."""
    if op in (*GREEDY, POSSESSIVE, OP.SUBPATTERN, OP.ASSERT, OP.ASSERT_NOT):
        return [argument[-1]]
    if op in CHOICES:
        return (
            argument[1] if op is OP.BRANCH else [part for part in argument[1:] if part is not None]
        )
    assert op in (*CLASSES, OP.AT), op
    return []


def choices(items, *, last=True):
    """The maximum number of choices to continue from one position; 1 without backtracking."""
    product = 1
    for number, (op, argument) in enumerate(items):
        ends = last and number == len(items) - 1
        inner = [choices(body, last=ends and op not in GREEDY) for body in bodies(op, argument)]
        if op in CHOICES:
            product *= sum(inner)
        elif op in GREEDY:
            product *= choices_of_repeat(argument, inner[0], ends)
        elif op is OP.SUBPATTERN:
            product *= inner[0]
        elif inner:  # possessive or lookahead: one way outside, few inside
            assert inner[0] <= MOST_CHOICES
    return product


def choices_of_repeat(argument, inner, ends):
    least, most, body = argument
    if most <= HIGH:
        return sum(inner**count for count in range(least, most + 1))
    assert (ends, [op in CLASSES for op, _ in body]) == (True, [True]), (
        "an unlimited repeat can backtrack"
    )
    return 1


@pytest.mark.parametrize("name", PATTERNS)
def test_no_unlimited_repeat_backtracks(name):
    assert choices(tree_of(PATTERNS[name][0])) <= MOST_CHOICES


@pytest.mark.parametrize(
    "bad", [r"a*b", r"(?:ab|c)*", r"(?:a*)*+x", r"\s+$", r"(?:a{0,99}){9}", r".*?x", r"a{2,}b"]
)
def test_the_structural_test_detects_patterns_that_backtrack(bad):
    with pytest.raises(AssertionError):
        assert choices(tree_of(re.compile(bad))) <= MOST_CHOICES


# ---- by counting


class Steps:
    """Matches like `re`, and counts the characters and parts that it tries."""

    def __init__(self, pattern):
        self.pattern, self.count = pattern, 0
        self._items, self._classes, self._groups = tree_of(pattern), {}, set()

    def taken(self, text, *, searched):
        """The number of steps to match once or, if `searched`, at every position."""
        self.count = 0
        end, found = self._match(text, 0), self.pattern.match(text)
        assert end == (found and found.end()), text  # it matches like `re`
        at = 0
        while searched and at <= len(text):
            end = self._match(text, at)
            at = max(end or 0, at + 1)
        return self.count

    def _match(self, text, start):
        self._groups.clear()
        return next(self._ends([*self._items], text, start), None)

    def _ends(self, items, text, at):
        if not items:
            yield at
            return
        self.count += 1
        assert self.count < MOST_STEPS, "far too many steps"
        (op, argument), rest = items[0], items[1:]
        for end in self._part(op, argument, text, at):
            yield from self._ends(rest, text, end)

    def _part(self, op, argument, text, at):
        if op is OP.SUBPATTERN:
            return self._group(argument[0], argument[3], text, at)
        if op is OP.GROUPREF_EXISTS:
            group, then, otherwise = argument
            return self._ends([*((then if group in self._groups else otherwise) or [])], text, at)
        if op is OP.BRANCH:
            return (end for branch in argument[1] for end in self._ends([*branch], text, at))
        if op is POSSESSIVE:
            return self._possessive(*argument, text, at)
        if op in GREEDY:
            return self._greedy(*argument, text, at)
        if op in (OP.ASSERT, OP.ASSERT_NOT):
            direction, body = argument
            begin = at if direction > 0 else at - body.getwidth()[0]
            found = begin >= 0 and next(self._ends([*body], text, begin), None) is not None
            return iter([at] if found == (op is OP.ASSERT) else [])
        return self._one(op, argument, text, at)

    def _one(self, op, argument, text, at):
        """A character, or a position such as the end."""
        key = (op, argument if isinstance(argument, int) else id(argument))
        if key not in self._classes:
            part = re._parser.SubPattern(self._items.state, [(op, argument)])
            self._classes[key] = re._compiler.compile(part, self.pattern.flags)
        found = self._classes[key].match(text, at)
        return iter([found.end()] if found else [])

    def _group(self, number, body, text, at):
        for end in self._ends([*body], text, at):
            self._groups.add(number)
            yield end
            self._groups.discard(number)

    def _possessive(self, least, most, body, text, at):
        count = 0
        while count < most:
            end = next(self._ends([*body], text, at), None)
            if end is None or end == at:
                break
            at, count = end, count + 1
        return iter([at] if count >= least else [])

    def _greedy(self, least, most, body, text, at):
        if most:
            for end in self._ends([*body], text, at):
                if end > at:
                    yield from self._greedy(max(least - 1, 0), most - 1, body, text, end)
        if not least:
            yield at


def example(items):
    """A short text that a part matches."""
    text = ""
    for op, argument in items:
        if op in CLASSES:
            text += characters([(op, argument)])[0]
        elif op not in (OP.AT, OP.ASSERT, OP.ASSERT_NOT):
            text += example(bodies(op, argument)[0]) * (
                argument[0] if op in (*GREEDY, POSSESSIVE) else 1
            )
    return text


def characters(items):
    """A few characters of different kinds that a class matches."""
    part = re._compiler.compile(re._parser.SubPattern(re._parser.State(), items), re.UNICODE)
    usual, others = (
        [mark for mark in marks if part.match(mark)] for marks in ("\"' \n\\a1*/:,x", ALPHABET)
    )
    return usual + others[:1]


def repeats(items, before=""):
    """Every repeat of a pattern: a text that leads to it, and its body."""
    for number, (op, argument) in enumerate(items):
        lead = before + example(items[:number])
        if op in (*GREEDY, POSSESSIVE) and argument[1] > 1:
            yield lead, argument[2]
        for body in bodies(op, argument):
            yield from repeats(body, lead)


def units(items):
    """Texts that a repeat matches repeatedly: each alternative, and two of them in turn."""
    single = [*dict.fromkeys(text for op, argument in items for text in unit(op, argument))][:6]
    return single + [text + other for text in single[:3] for other in single[:3] if text != other]


def unit(op, argument):
    inner = bodies(op, argument)
    alternatives = [text for body in inner for text in (example(body), *units(body)[:3]) if text]
    return alternatives if inner else characters([(op, argument)])[:4] if op is not OP.AT else []


def worst_cases(pattern):
    tree = tree_of(pattern)
    whole = example(tree) or "a"
    for lead, body in {(lead, str(body)): (lead, body) for lead, body in repeats(tree)}.values():
        for text in units(body):
            yield from ((lead, text, ""), (lead, text, "\x00"), (lead, lead + text, ""))
    yield from ((whole, whole, ""), ("", whole[0], ""), ("", whole[:2], ""))


@pytest.mark.parametrize("name", PATTERNS)
def test_the_steps_of_a_pattern_grow_linearly_with_the_text(name):
    assert_linear(*PATTERNS[name])


def assert_linear(pattern, searched):
    steps = Steps(pattern)
    for lead, again, end in worst_cases(pattern):
        short, long = (steps.taken(lead + again * n + end, searched=searched) for n in (10, 40))
        assert long <= 5 * short + 60, (lead, again, end)


@pytest.mark.parametrize(
    "bad",
    [
        r"a*ab",
        r"(?:a|a)*b",
        r"(?:a*+b|a)*+",
        r"\s*+x",
        r"a*+b|a",
        r'"(?:[^"\\]++|\\.)*+"',
        r"[ \n]*\n[ ]*`",
    ],
)
def test_the_counting_test_detects_patterns_whose_steps_grow_faster(bad):
    with pytest.raises(AssertionError):
        assert_linear(re.compile(bad), searched=True)
