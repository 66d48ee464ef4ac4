"""Cost of repairing broken JSON, compared with `json_repair`: 30 files of 1 kB to 1 MB.

    python tests/benchmarks/output_repair.py

The files are the same in every run. Each is a typical document of a model, damaged at one place or
everywhere, some in a fence or in prose. `json_repair` is called in its fastest documented way for
text that is known to be broken. Both alternate, and the CPU time is compared. The table also shows
the outcome: the undamaged value, another value, or an error. Our repair must never return another
value. json_repair is in the extra `bench`; without it nothing is compared.
"""

import gc
import json
import random
import re
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib.util import find_spec
from typing import Any

from loopback import at_least, table

from stage2_output import ExtractionError, extract_json

_EACH, _MEDIAN = 1.5, 4.0
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|[^\s{}\[\],:"]+|\s+')

# ---- documents
# ------------------------------------------------------------------------------------------

_WORDS = [
    "the",
    "sea",
    "was",
    "calm",
    "and",
    "nobody",
    "on",
    "deck",
    "spoke",
    "of",
    "what",
    "happened",
    "in",
    "Oslo",
]
_CITIES = "Paris", "Oslo", "Quito", "Hanoi", "São Paulo", "上海"


def _sentence(dice: random.Random) -> str:
    return f"{' '.join(dice.choices(_WORDS, k=dice.randint(6, 14))).capitalize()}."


def _paragraphs(dice: random.Random) -> str:
    quote = f'She said "{dice.choice(_WORDS)} {dice.choice(_WORDS)}" and left; it cost 3\\4.'
    return "\n".join([_sentence(dice), quote, *(_sentence(dice) for _ in range(4))])


def _record(dice: random.Random, number: int) -> Any:
    return {
        "id": number,
        "name": f"{dice.choice(_WORDS)}_{number}",
        "active": dice.random() < 0.5,
        "manager": None,
        "address": {
            "city": dice.choice(_CITIES),
            "lines": [_sentence(dice), str(dice.randint(1, 99))],
        },
        "scores": [round(dice.uniform(-100, 100), 3) for _ in range(4)],
    }


def _call(dice: random.Random, number: int) -> Any:
    arguments = {
        "city": dice.choice(_CITIES),
        "days": dice.randint(1, 9),
        "detailed": True,
        "unit": None,
    }
    return {"tool": "get_weather", "id": f"call_{number}", "arguments": arguments}


def _chapter(dice: random.Random, number: int) -> Any:
    return {"title": f"Chapter {number}", "text": _paragraphs(dice)}


def _row(dice: random.Random, number: int) -> Any:
    return [number, dice.choice(_CITIES), dice.randint(0, 10**6), dice.random() < 0.5, f"r{number}"]


def _numbers(dice: random.Random, number: int) -> Any:
    return [dice.randint(-9999, 9999), *(round(dice.gauss(0, 50), 4) for _ in range(9))]


_ITEMS: dict[str, Callable[[random.Random, int], Any]] = {
    "records": _record,
    "calls": _call,
    "chapters": _chapter,
    "table": _row,
    "numbers": _numbers,
}


def document(kind: str, size: int, indent: int | None, dice: random.Random) -> Any:
    """Return a value that takes about this number of characters with this indent."""
    items: list[Any] = []
    value = {"kind": kind, "count": 0, "items": items, "note": "made up"}
    while size > 0:
        items.append(_ITEMS[kind](dice, len(items)))
        size -= len(json.dumps([[items[-1]]], ensure_ascii=False, indent=indent)) - 2
    value["count"] = len(items)
    return value


# ---- kinds of damage: the tokens they may change, and how
# -----------------------------------------------------

Fits = Callable[[list[str], int], bool]


def _is_key(tokens: list[str], place: int) -> bool:
    return tokens[place].startswith('"') and tokens[place + 1 : place + 2] == [":"]


def _is(*marks: str) -> Fits:
    return lambda tokens, place: tokens[place] in marks


def _string_with(part: str) -> Fits:
    return lambda tokens, place: tokens[place].startswith('"') and part in tokens[place]


def _quiet_string(tokens: list[str], place: int) -> bool:
    return tokens[place].startswith('"') and not re.search(r"['\\]", tokens[place])


def _ends_items(tokens: list[str], place: int) -> bool:
    before = next(
        (each for each in reversed(tokens[max(0, place - 2) : place]) if each.strip()), ""
    )
    return tokens[place] in "]}" and before not in ("[", "{")


_DAMAGES: dict[str, tuple[Fits, Callable[[str], str]]] = {
    "trailing comma": (_ends_items, lambda token: f",{token}"),
    "missing comma": (_is(","), lambda _: " "),
    "single quotes": (_quiet_string, lambda token: f"'{token[1:-1]}'"),
    "smart quotes": (_quiet_string, lambda token: f"“{token[1:-1]}”"),
    "unquoted key": (_is_key, lambda token: token[1:-1]),
    "comment": (_is(","), lambda _: ", // as agreed, see {above}\n"),
    "Python literal": (
        _is("true", "false", "null"),
        {"true": "True", "false": "False", "null": "None"}.get,
    ),
    "raw newline": (_string_with("\\n"), lambda token: token.replace("\\n", "\n")),
    "raw quotes": (_string_with('\\"'), lambda token: f'"{token[1:-1]}"'.replace('\\"', '"')),
    "full-width": (_is(",", ":"), {",": "，", ":": "："}.get),
    "ellipsis": (_is("]"), lambda _: ", ...]"),
}


def damaged(text: str, damage: str, place: str) -> str:
    """Return a text with one kind of damage at the start, in the middle, at the end, or everywhere."""
    if damage == "missing closers":
        return text.rstrip("]} \n")
    tokens = _TOKEN.findall(text)
    fits, change = _DAMAGES[damage]
    places = [each for each in range(len(tokens)) if fits(tokens, each)]
    at = {"start": 0, "middle": len(places) // 2, "end": -1}
    for each in places if place == "everywhere" else [places[at[place]]]:
        tokens[each] = change(tokens[each])
    return "".join(tokens)


_AROUND = {
    "bare": "{}",
    "fenced": "```json\n{}\n```",
    "prose": "Here is what you asked for:\n\n{}\n\nTell me if it's not what you need.",
}
_KB, _MB = 1000, 1_000_000
_FILES = (
    (1 * _KB, "calls", "trailing comma", "end", "bare"),
    (1 * _KB, "calls", "single quotes", "everywhere", "bare"),
    (1 * _KB, "records", "missing comma", "middle", "bare"),
    (2 * _KB, "chapters", "raw newline", "everywhere", "fenced"),
    (1 * _KB, "calls", "Python repr", "everywhere", "prose"),
    (1 * _KB, "table", "unquoted key", "everywhere", "prose"),
    (5 * _KB, "records", "comment", "everywhere", "bare"),
    (10 * _KB, "numbers", "trailing comma", "end", "fenced"),
    (10 * _KB, "chapters", "raw quotes", "middle", "bare"),
    (10 * _KB, "calls", "smart quotes", "everywhere", "bare"),
    (10 * _KB, "table", "full-width", "everywhere", "bare"),
    (10 * _KB, "records", "missing closers", "end", "bare"),
    (10 * _KB, "numbers", "ellipsis", "end", "bare"),
    (10 * _KB, "records", "Python literal", "everywhere", "prose"),
    (100 * _KB, "records", "trailing comma", "everywhere", "bare"),
    (100 * _KB, "records", "missing comma", "start", "bare"),
    (100 * _KB, "table", "single quotes", "everywhere", "bare"),
    (100 * _KB, "chapters", "raw newline", "start", "bare"),
    (100 * _KB, "chapters", "raw quotes", "end", "prose"),
    (100 * _KB, "records", "unquoted key", "everywhere", "fenced"),
    (100 * _KB, "numbers", "missing closers", "end", "bare"),
    (100 * _KB, "calls", "comment", "middle", "bare"),
    (100 * _KB, "records", "Python repr", "everywhere", "bare"),
    (100 * _KB, "table", "smart quotes", "middle", "bare"),
    (1 * _MB, "records", "trailing comma", "end", "bare"),
    (1 * _MB, "records", "missing comma", "middle", "fenced"),
    (1 * _MB, "table", "Python repr", "everywhere", "bare"),
    (1 * _MB, "chapters", "raw newline", "everywhere", "bare"),
    (1 * _MB, "numbers", "trailing comma", "start", "prose"),
    (1 * _MB, "records", "missing closers", "end", "bare"),
)


@dataclass(frozen=True)
class File:
    """A broken text, its original value, and the names of its damage."""

    text: str
    value: Any
    what: str


def files() -> Iterator[File]:
    """Generate the 30 files."""
    for number, (size, kind, damage, place, around) in enumerate(_FILES):
        indent = (None, 2)[number % 2]
        value = document(kind, size, indent, random.Random(number))
        text = json.dumps(value, ensure_ascii=False, indent=indent)
        text = str(value) if damage == "Python repr" else damaged(text, damage, place)
        yield File(
            _AROUND[around].replace("{}", text), value, f"{kind}, {around}: {damage}, {place}"
        )


# ---- measurements
# ------------------------------------------------------------------------------------------


def ours(text: str) -> Any:
    """Return the value that this package reads from a text."""
    return extract_json(text).value


def theirs(text: str) -> Any:
    """Return the value that json_repair reads from a text."""
    from json_repair import repair_json

    return repair_json(text, return_objects=True, skip_json_loads=True)


def outcome(read: Callable[[str], Any], file: File) -> str:
    """Compare the result with the undamaged value: equal, another value, or an error."""
    try:
        return "equal" if read(file.text) == file.value else "another"
    except (ExtractionError, ValueError, RecursionError):
        return "error"


def seconds(read: Callable[[str], Any], file: File, times: int) -> float:
    """Return the CPU seconds of one reading."""
    gc.collect()
    begun = time.process_time()
    for _ in range(times):
        outcome(read, file)
    return (time.process_time() - begun) / times


def measured(file: File) -> tuple[float, float]:
    """Return the median seconds of ours and of theirs; theirs reads the largest files only once."""
    size = len(file.text)
    rounds, times = (1 if size > 500_000 else 3), max(1, 20_000 // size)
    turns = [
        (
            statistics.median(seconds(ours, file, times) for _ in range(3)),
            seconds(theirs, file, times),
        )
        for _ in range(rounds)
    ]
    mine, other = zip(*turns, strict=True)
    return statistics.median(mine), statistics.median(other)


def main() -> int:
    """Measure and print; return 1 if a bar is missed."""
    if not find_spec("json_repair"):
        print("Nothing to compare with: json_repair is not installed. pip install -e '.[bench]'")
        return 0
    lines, ratios, wrong = [], [], 0
    for file in files():
        mine, other = measured(file)
        outcomes = outcome(ours, file), outcome(theirs, file)
        wrong += outcomes[0] == "another"
        ratios.append(other / mine)
        times = f"{mine * 1000:.2f}", f"{other * 1000:.2f}", at_least(_EACH, ratios[-1])
        lines.append((f"{len(file.text) / 1000:.1f}", file.what, *times, *outcomes))
    head = "kB", "file", "ms, ours", "ms, json_repair", "times faster", "ours", "json_repair"
    table("Broken JSON, read by extract_json and by json_repair", head, *lines)
    median = statistics.median(ratios)
    print(
        f"  In the median {at_least(_MEDIAN, median)} times faster; {wrong} wrong values of ours (bar: none)."
    )
    return int(min(ratios) < _EACH or median < _MEDIAN or wrong > 0)


if __name__ == "__main__":
    sys.exit(main())
