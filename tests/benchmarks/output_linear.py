"""Reading the text of a model takes linear time, even for hostile text: 1 MB compared with 100 kB.

    python tests/benchmarks/output_linear.py [part of a name ...]

Each text is a beginning and a repeated unit. The bars are the CPU time for 1 MB relative to 100 kB
(where it is measurable), the absolute time, and the traced peak memory relative to the text. Only
`ExtractionError` may be raised. Afterwards, real objects of 1 MB are compared with `json.loads` in
the same run. With arguments, only texts whose names contain one of them are used.
"""

import gc
import json
import random
import statistics
import sys
import time
import tracemalloc
from collections.abc import Callable, Iterator
from functools import partial
from itertools import product
from typing import Any

from loopback import at_most, table

from stage2_output import ExtractionError, OutputController, extract_json, parse_partial
from stage3_tools import parse_tool_decisions

_TINY, _SMALL, _LARGE = 10_000, 100_000, 1_000_000
_GROWTH, _SECONDS, _MEMORY = 12.0, 5.0, 150.0
_MEASURABLE = 0.01
_LONGEST = {_TINY: 0.5, _SMALL: 1.0, _LARGE: _SECONDS}
_BARE, _WRAPPED, _ROUNDS = 2.5, 3.0, 9
_SCHEMA = {"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}

# ---- texts
# ----------------------------------------------------------------------------------------------


def _spelled(units: str) -> list[str]:
    return [
        unit.replace("␣", " ").replace("⏎", "\n").replace("␟", "\ud83d") for unit in units.split()
    ]


_UNITS = _spelled(r"""
    {  [  }  ]  `  "  '  \  \"  "\  '\  ,  :  <  /  -  9  ␣  ⏎  a  é  😀  ␟  “  ，  ….  (
    {}  []  {},  [],  [{  {[  [}  }{  ][  [[]]  {␣  [⏎  x{}  {"  ["  {'  {a
    {"a"  {"a":  {"a":[  {"a":{}  {"a":1,  {"a":"  {"a":"x",  {"a":1}  {a:  {a:1,  {'a':'  {“a”:
    [1,  [1␣  [1]  [[1]  ["a",  ["a"␣  [...  "a"␣  "a":  "a",  "a":1␣  'a':  a:  1,  1␣  "a"b"  ",  "}
    //  //⏎  /*  /**/  #⏎  //␣{⏎  ...  <!--  <think>  </think>  <think></think>  <think>{  </think>{  </
    <tool_call>{  <tool_call>{}</tool_call>  <|  ```  ```json⏎  ```json⏎{  ```json⏎{}⏎```⏎  ~~~⏎  {"a":"```  ```a␣
    NaN  NaN,  True,  None␣  null,  tr  1e  1e9,  -1.  {\"  \"a\":␣  \u  \ud83d  "\n",  {"\
    {"a":NaN}  {"a":1,}  {'a':1}  {"a":1␣"b":2}  {"a":1,"a":2}  {"a":"x"␣y"}  {"a":tru  {"a":1}␣{b}␣
    [1]␣{"a":␣  {name}␣  He␣said␣"{"␣  it's␣{  "a":␣{"b":␣
""")
_BEGINNINGS = _spelled(r"""  <b>␣x␣  {"a":[  {"a":"  {'a':'  {  ```json⏎{  <think>  {"b":1}␣  """)
_THEN = _spelled(
    r"""  {  [  "  '  \"  ,  :  //  a␣  1␣  {}  "a"␣  "a":  “  `  ⏎  NaN␣  …1  ":␣"  ",␣"  ',  ...  "}␣  it's␣  """
)
# Texts that were slow in the past: a beginning and a unit.
_ONCE_SLOW = [
    ("x ", "`{"),
    ("", '{"a":1}`['),
    ("x ", "}{"),
    ("x ", "{｝"),
    ("", "```js\n{'a: 1\n```\n"),
    ("[", "\n‘"),
    ("[[", "‘\n//1"),
    ("[[", "…11."),
    ("[", "，é"),
    ('{"a": ', "`"),
    ("x ", "{a:‚\n</a>"),
    ("x ", '{"b":‚a\n```\n'),
    ("x ", r"[\"\"] "),
    ("<b> x ", "{} "),
    ("{", "a:1,"),
    (r"{\"a\":1", r",\"a\":1"),
]


Make = Callable[[int], str]
"""Creates a text of a given number of characters, the same in every run."""


def texts() -> Iterator[tuple[str, Make]]:
    """Generate all kinds of texts with their names."""
    for beginning, unit in (
        [("", unit) for unit in _UNITS] + _ONCE_SLOW + list(product(_BEGINNINGS, _THEN))
    ):
        yield (
            f"{beginning!r} + {unit!r}" if beginning else repr(unit),
            partial(_repeated, beginning, unit),
        )
    for signs in ("{}[]\",:'\\`<>/*-+.e019tfn \n", '{}[]",:1', "{'\":,}", '"\\', "[]{}"):
        yield f"dice: {signs!r}", partial(_diced, signs)
    yield "a real object in prose", lambda size: f"So it is:\n\n{real_object(size)}\n\nThat is all."
    yield "a real object, cut", lambda size: real_object(size)[:-2]
    yield "a real object, its first key twice", lambda size: '{"items": 0, ' + real_object(size)[1:]
    yield "real objects", lambda size: (real_object(1000) + "\n") * (size // 1000)


def _repeated(beginning: str, unit: str, size: int) -> str:
    return (beginning + unit * (size // len(unit) + 1))[:size]


def _diced(signs: str, size: int) -> str:
    return "".join(random.Random(signs).choices(signs, k=size))


def real_object(size: int) -> str:
    """Return an object of records with about this number of characters."""
    dice = random.Random(size)
    records: list[Any] = []
    while size > 0:
        number = len(records)
        lines = [
            f"{number} High Street",
            f'the "{dice.choice(["red", "blue"])}" door\nbehind the yard',
        ]
        records.append(
            {
                "id": number,
                "name": f"customer {number}",
                "active": dice.random() < 0.5,
                "address": {"city": dice.choice(["Oslo", "Quito", "São Paulo"]), "lines": lines},
                "scores": [round(dice.uniform(-100, 100), 3) for _ in range(4)],
            }
        )
        size -= len(json.dumps(records[-1])) + 2
    return json.dumps({"items": records})


# ---- measurements
# ------------------------------------------------------------------------------------------

_CONTROLLER = OutputController()


def _validate(text: str) -> Any:
    return _CONTROLLER.parse_and_validate(text, _SCHEMA)


_WAYS: dict[str, Callable[[str], Any]] = {
    "extract_json": extract_json,
    "parse_partial": parse_partial,
    "parse_and_validate": _validate,
    "parse_tool_decisions": partial(parse_tool_decisions, _CONTROLLER),
}


def outcome(way: Callable[[str], Any], text: str) -> str:
    """Return a short outcome of a text; forbidden outcomes are in capitals."""
    try:
        found = way(text)
    except ExtractionError as error:
        return f"error: {str(error)[:70]}"
    except Exception as error:
        return f"RAISED {type(error).__name__}"
    return f"{type(found).__name__}" + ("" if getattr(found, "complete", True) else ", incomplete")


def seconds(way: Callable[[str], Any], text: str) -> tuple[float, str]:
    """Return the least CPU seconds of up to three attempts, and the outcome; garbage collection is
    off, as in `timeit`."""
    least = float("inf")
    for _ in range(3):
        gc.collect()
        gc.disable()
        begun = time.process_time()
        result = outcome(way, text)
        least = min(least, time.process_time() - begun)
        gc.enable()
        if least > 0.3:
            break
    return least, result


def peak(way: Callable[[str], Any], text: str) -> float:
    """Return the traced peak memory as a multiple of the text's length."""
    gc.collect()
    tracemalloc.start()
    try:
        outcome(way, text)
        return tracemalloc.get_traced_memory()[1] / len(text)
    finally:
        tracemalloc.stop()


def judged(name: str, way: Callable[[str], Any], make: Make) -> tuple[str, ...]:
    """Return a table row; its last cell lists the missed bars."""
    times: list[float] = []
    for size, longest in _LONGEST.items():
        took, result = seconds(way, make(size))
        times.append(took)
        if took > longest:  # larger texts are skipped
            return (name, *_milliseconds(times), "", "", "", "MISSED: time")
    growth = times[2] / times[1]
    memory = peak(way, make(_TINY))  # tracing is very slow
    missed = [
        *(["growth"] if growth > _GROWTH and times[2] > _MEASURABLE else []),
        *(["memory"] if memory > _MEMORY else []),
        *(["raised"] if "RAISED" in result else []),
    ]
    wrong = f"MISSED: {', '.join(missed)}" if missed else ""
    return (name, *_milliseconds(times), f"{growth:.1f}", f"{memory:.1f}", result, wrong)


def _milliseconds(times: list[float]) -> list[str]:
    return [f"{each * 1000:.1f}" for each in times[1:]] + ["-"] * (
        len(_LONGEST) - max(1, len(times))
    )


def hostile(parts: list[str]) -> int:
    """Print a table for each variant and return the number of missed bars."""
    every = [each for each in texts() if not parts or any(part in each[0] for part in parts)]
    missed = 0
    for title, way in _WAYS.items():
        # The controller adds the handling of many values, and texts of one unit show it sufficiently.
        is_whole = parts or title in ("extract_json", "parse_partial")
        kinds = every if is_whole else [each for each in every if " + " not in each[0]]
        lines = [judged(name, way, make) for name, make in kinds]
        missed += sum(line[-1] != "" for line in lines)
        head = "text", "ms, 100 kB", "ms, 1 MB", "times as much", "memory / text", "outcome", ""
        bars = f"at most {_GROWTH:g} times the time, {_SECONDS:g} s, {_MEMORY:g} times the text in memory"
        table(f"{title}: {len(lines)} hostile texts ({bars})", head, *lines)
        print(f"  {sum(line[-1] != '' for line in lines)} missed.", flush=True)
    return missed


def real() -> int:
    """Print the cost of real objects relative to `json.loads` and return the number of missed bars."""
    text = real_object(_LARGE)
    places = {
        "bare": text,
        "in prose": f"So:\n\n{text}\n\nThat is all.",
        "fenced": f"```json\n{text}\n```",
    }
    ratios: dict[str, list[float]] = {place: [] for place in places}
    took: dict[str, float] = {}
    for _ in range(_ROUNDS):
        for place, whole in places.items():
            base, took[place] = seconds(json.loads, text)[0], seconds(extract_json, whole)[0]
            ratios[place].append(took[place] / base)
    lines, missed = [], 0
    for place, figures in ratios.items():
        figure, bar = statistics.median(figures), _BARE if place == "bare" else _WRAPPED
        missed += figure > bar
        lines.append((place, f"{took[place] * 1000:.1f}", at_most(bar, figure)))
    title = f"A real object of 1 MB, extract_json beside json.loads, medians of {_ROUNDS} rounds"
    table(title, ("", "ms", "times json.loads"), *lines)
    return missed


def main(parts: list[str]) -> int:
    """Measure and print; return 1 if a bar is missed."""
    missed = hostile(parts)
    return int(missed + (0 if parts else real()) > 0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
