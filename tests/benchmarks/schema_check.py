"""What it costs to find nothing wrong with a value, beside `jsonschema` and faster libraries where they are.

    python tests/benchmarks/schema_check.py [rounds]

An order with an address and four lines, 25 plain values in all, against a closed schema with limits, patterns and an
enum. Each library has compiled the schema before. Judged by CPU time and by the best round: noise of the
machine only ever adds. Ends with 1 where `CompiledSchema` misses its bar. `fastjsonschema`, which writes Python
code, and `jsonschema_rs`, which is Rust, are no dependencies; they say how much further one could go.
"""

import asyncio
import sys
from collections.abc import Callable
from importlib import import_module
from importlib.util import find_spec
from typing import Any

from loopback import Cost, Way, at_most, ratio, rounds_asked_for, table, take_turns

from stage2_output import CompiledSchema

_BAR = 15.0
_TIMES = 300
_OURS, _THEIRS = "CompiledSchema.fits", "jsonschema"
_MAKERS = {"fastjsonschema": "compile", "jsonschema_rs": "validator_for"}


def closed(*optional: str, **properties: Any) -> dict[str, Any]:
    """The schema of an object with these properties and no others."""
    needed = [name for name in properties if name not in optional]
    return {"type": "object", "properties": properties, "required": needed, "additionalProperties": False}


_TEXT = {"type": "string", "minLength": 1, "maxLength": 80}
SCHEMA = closed(
    "note",
    id={"type": "integer", "minimum": 1},
    customer=_TEXT,
    email={"type": "string", "pattern": "^[^@ ]+@[^@ ]+$"},
    status={"enum": ["open", "paid", "sent", "returned"]},
    total={"type": "number", "minimum": 0},
    note={"type": ["string", "null"]},
    address=closed("zip", street=_TEXT, city=_TEXT, zip={"type": "string", "pattern": "^[0-9]{5}$"}),
    lines={
        "type": "array",
        "minItems": 1,
        "items": closed(
            "gift",
            article={"type": "string"},
            count={"type": "integer", "minimum": 1, "maximum": 1000},
            price={"type": "number", "exclusiveMinimum": 0},
            gift={"type": "boolean"},
        ),
    },
)
VALUE = {
    "id": 4711,
    "customer": "Ada Lovelace",
    "email": "ada@example.com",
    "status": "paid",
    "total": 86.4,
    "note": None,
    "address": {"street": "12 St James's Square", "city": "London", "zip": "12345"},
    "lines": [
        {"article": name, "count": count, "price": price, "gift": count == 1}
        for name, count, price in [("pen", 2, 3.2), ("ink", 1, 8), ("paper", 500, 0.14), ("chair", 1, 2.5)]
    ],
}


def checks() -> dict[str, Callable[[Any], object]]:
    """What judges a value, by the library's name; each has compiled the schema."""
    import jsonschema

    found: dict[str, Callable[[Any], object]] = {
        _OURS: CompiledSchema(SCHEMA).fits,
        _THEIRS: jsonschema.Draft202012Validator(SCHEMA).is_valid,
    }
    for name, make in _MAKERS.items():
        if find_spec(name):
            made = getattr(import_module(name), make)(SCHEMA)
            found[name] = getattr(made, "is_valid", made)
    return found


def way(check: Callable[[Any], object]) -> Way:
    """Many checks as one thing to measure."""

    async def many() -> None:
        for _ in range(_TIMES):
            check(VALUE)

    return many


def best(costs: list[Cost]) -> float:
    """Microseconds of one check in the best round."""
    return min(cost.cpu for cost in costs) / _TIMES * 1e6


def main(rounds: int) -> int:
    """Measure and print; 1 if the bar was missed."""
    assert all(check(VALUE) for check in checks().values())
    measured = asyncio.run(take_turns({name: way(check) for name, check in checks().items()}, rounds))
    lines = []
    for name, costs in measured.items():
        figure = at_most(_BAR, best(costs)) if name == _OURS else f"{best(costs):.2f}"
        lines.append((name, figure, f"{ratio(measured[_THEIRS], costs, lambda each: each.cpu):.1f}"))
    title = f"One valid value, best of {rounds} rounds of {_TIMES} checks"
    table(title, ("", "us CPU, a check", f"times faster than {_THEIRS}"), *lines)
    for name in _MAKERS:
        if name not in measured:
            print(f"  {name} is not installed.")
    return int(best(measured[_OURS]) > _BAR)


if __name__ == "__main__":
    sys.exit(main(rounds_asked_for(15)))
