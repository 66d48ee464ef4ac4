"""`read_runs` and `read_run`: rebuild the runs of a run file.

Every prefix of a run file can be read, because an incomplete last line is ignored. Other damage
and changed lines raise an error with the number of the line. The checksum of a line covers all
earlier lines of its run, and the hash of a message covers its content.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, fields, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from zlib import crc32

from llm_stages.runs import values
from llm_stages.runs.difference import Part, rebuild
from llm_stages.runs.interpretation import interpretation, is_json_in_text
from llm_stages.runs.problem import RunFileError
from llm_stages.runs.validation import parse_line, validate_line
from llm_stages.runs.values import Run, RunCall, RunTool, RunTurn
from stage0_gateway import Message, ToolCall, Usage
from stage2_output import Issue, Repair

V = TypeVar("V")
Line = Mapping[str, Any]

_MAX_LISTED = 10_000_000
"""The maximum number of messages in all requests of a file, as of 3,000 turns without a window."""

_CONTENT = re.compile(rb'\{"type":"\w+","hash":"\w+","\w+":(.*)\}', re.DOTALL)


def read_run(path: str | os.PathLike[str], run_id: str | None = None) -> Run:
    """Return one run of a file.

    Args:
        path: The run file.
        run_id: The id of the run. None selects the newest one that no tool of another run made.

    Raises:
        RunFileError: A line was damaged or changed.
        ValueError: The file contains no such run.
        OSError: The file cannot be read.
    """
    runs = read_runs(path)
    if not runs:
        raise ValueError(f"{path} contains no run.")
    if run_id is None:
        return runs[values.newest(runs)]
    found = {run.id: run for run in runs}
    if run_id not in found:
        raise ValueError(f"{path} contains no run {run_id!r}. Its runs: {', '.join(found)}.")
    return found[run_id]


def read_runs(path: str | os.PathLike[str]) -> tuple[Run, ...]:
    """Return all runs of a file, in the order of their starts.

    Raises:
        RunFileError: A line was damaged or changed.
        OSError: The file cannot be read.
    """
    reader = _Reader(Path(path))
    lines = reader.path.read_bytes().split(b"\n")
    for line in lines[:-1]:  # the last one is empty or incomplete
        reader.read(line)
    return reader.all_runs()


@dataclass
class _Run:
    """A run while its lines are read."""

    run: Run
    check: int = 0
    sent: list[str] = field(default_factory=list)
    stored: list[str] = field(default_factory=list)
    dialect: Mapping[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)
    tools: tuple[RunTool, ...] = ()
    turns: dict[int, RunTurn] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)  # the turn of each call

    def turn(self, number: int) -> RunTurn:
        """The turn with this number, as it was read so far."""
        return self.turns.get(number, RunTurn(number))

    def change_turn(self, number: int, **changes: Any) -> None:
        """Change a turn."""
        self.turns[number] = replace(self.turn(number), **changes)

    def add_calls(self, number: int, at: float, calls: Iterable[ToolCall]) -> None:
        """Add calls to a turn."""
        effects = {tool.name: tool.effect for tool in self.tools}
        added = [
            RunCall(at, call.id, call.name, call.arguments, effects.get(call.name))
            for call in calls
        ]
        self.change_turn(number, calls=(*self.turn(number).calls, *added))
        self.calls |= {call.id: number for call in added}

    def add_compaction(self, number: int, compaction: values.RunCompaction) -> None:
        """Add a compaction to a turn."""
        self.change_turn(number, compactions=(*self.turn(number).compactions, compaction))

    def call(self, call_id: str) -> RunCall:
        """The call with this id."""
        return next(call for call in self.turns[self.calls[call_id]].calls if call.id == call_id)

    def change_call(self, call_id: str, **changes: Any) -> None:
        """Change a call."""
        turn = self.turns[self.calls[call_id]]
        calls = [replace(call, **changes) if call.id == call_id else call for call in turn.calls]
        self.change_turn(turn.number, calls=tuple(calls))

    def add_to_call(self, call_id: str, name: str, part: object) -> None:
        """Add a part to one of the tuples of a call."""
        self.change_call(call_id, **{name: (*getattr(self.call(call_id), name), part)})


class _Reader:
    """Reads the lines of a file one after the other: a method `_read_<type>` reads a line."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._runs: dict[str, _Run] = {}
        self._number = 0
        self._listed = 0  # messages in all requests
        self._content = b""  # lines that the checksum of the next line covers, too
        self._messages: dict[str, Message] = {}
        self._tools: dict[str, tuple[RunTool, ...]] = {}
        self._conversions: dict[str, Callable[[Any], Any]] = {
            "parent": lambda fields: values.RunParent(**fields),
            "usage": lambda counts: Usage(**counts),
            "error": lambda fields: values.RunError(**fields),
            "message": self._messages.__getitem__,
            "after": self._messages.__getitem__,
            "before": self._find_messages,
            "calls": lambda calls: tuple(ToolCall(**each) for each in calls),
            "issues": lambda issues: tuple(Issue(**each) for each in issues),
            "repairs": lambda repairs: tuple(Repair(*each) for each in repairs),
            "candidates": lambda found: tuple(values.Candidate(*each) for each in found),
            "unreadable": lambda found: tuple(values.Unreadable(*each) for each in found),
            "waiting": tuple,
        }

    def read(self, line: bytes) -> None:
        """Read a line.

        Raises:
            RunFileError: The line was damaged or changed.
        """
        self._number += 1
        try:
            found = parse_line(line)
            if found["type"] == "run" and found.get("version") != values.FORMAT_VERSION:
                supported = f"{found.get('version')!r:.20}; {values.FORMAT_VERSION} is supported"
                self._fail(f"the format has version {supported}.")
            validate_line(found)
            if found["type"] in ("message", "tools"):
                self._add_content(line, found)
            else:
                self._read_record(line, found)
        except RunFileError:
            raise
        except KeyError as error:
            self._fail(f"it is damaged: The file does not contain {error}, to which it refers.")
        except (ValueError, TypeError) as error:
            self._fail(f"it is damaged: {error}")

    def all_runs(self) -> tuple[Run, ...]:
        """The runs of the file, each with the runs that its tools made."""
        runs: dict[str, Run] = {}
        for read in reversed(self._runs.values()):  # a run starts before those of its tools
            inner = [each for each in runs.values() if each.parent_run == read.run.id]
            turns = tuple(read.turns.values())
            runs[read.run.id] = replace(read.run, turns=turns, sub_runs=tuple(reversed(inner)))
        return tuple(reversed(runs.values()))

    def _add_content(self, line: bytes, found: Line) -> None:
        """Read a message or a list of tools, and verify its hash."""
        match = _CONTENT.fullmatch(line)
        hash = found["hash"]
        if match is None or blake2b(match[1], digest_size=8).hexdigest() != hash:
            self._fail(f"it was changed: its content does not have the hash {hash}.")
        self._content += line + b"\n"
        if found["type"] == "message":
            self._messages[hash] = Message.from_dict(found["message"])
        else:
            self._tools[hash] = tuple(RunTool(**tool) for tool in found["tools"])

    def _read_record(self, line: bytes, found: Line) -> None:
        """Read a line of a run, and verify its checksum."""
        if found["type"] == "run":
            header = self._value(Run, found, id=found["run"])
            self._runs[header.id] = _Run(header, dialect=header.dialect)
        elif found["run"] not in self._runs:
            self._fail("the header of its run is missing.")
        run = self._runs[found["run"]]
        head, _, check = line.rpartition(b',"check":')
        run.check = crc32(self._content + head + b"}", run.check)
        if check != b"%d}" % run.check:
            self._fail("it was changed, or a line before it is missing.")
        self._content = b""
        if found["type"] != "run":
            getattr(self, f"_read_{found['type']}")(run, found)

    def _value(self, kind: type[V], found: Line, **given: Any) -> V:
        """A value of a class: its attributes are the fields of a line with the same names."""
        names = {each.name for each in fields(kind)}  # type: ignore[arg-type]  # a dataclass
        for name in names & found.keys() - given.keys():
            convert, value = self._conversions.get(name), found[name]
            given[name] = value if convert is None or value is None else convert(value)
        return kind(**given)

    def _fail(self, problem: str) -> NoReturn:
        raise RunFileError(self.path, problem, self._number)

    # ---- the lines of a run

    def _read_request(self, run: _Run, found: Line) -> None:
        hashes, added, removed = self._rebuild(run.sent, found["messages"])
        stored = self._rebuild(run.stored, found["stored"])[0] if "stored" in found else hashes
        run.sent, run.stored = hashes, stored
        run.tools = self._find_tools(run, found)
        run.dialect = found.get("dialect", run.dialect)
        if "options" in found:
            run.options = {**found["options"]}
            if "tools" in run.options:
                run.options["tools"] = self._tools[run.options["tools"]]
        request = values.RunRequest(
            at=found["at"],
            messages=self._find_messages(hashes),
            hashes=tuple(hashes),
            added=added,
            removed=removed,
            tools=run.tools,
            options=run.options,
            dialect=run.dialect,
            stored=self._find_messages(stored),
            dropped=tuple(
                values.DroppedMessage(self._messages[hash], reason, hash)
                for hash, reason in found.get("dropped", ())
            ),
        )
        for summary in found.get("summaries", ()):  # an earlier form of the compaction line
            defaults = {"at": found["at"], "usage": {}}
            compaction = self._value(values.RunCompaction, {**defaults, **summary})
            run.add_compaction(found["turn"], compaction)
        run.change_turn(found["turn"], request=request)

    def _find_messages(self, hashes: Iterable[str]) -> tuple[Message, ...]:
        return tuple(map(self._messages.__getitem__, hashes))

    def _find_tools(self, run: _Run, found: Line) -> tuple[RunTool, ...]:
        """The tools of a line; those of the line before if it names none."""
        return self._tools[found["tools"]] if "tools" in found else run.tools

    def _rebuild(
        self, before: list[str], parts: list[Part]
    ) -> tuple[list[str], tuple[int, ...], tuple[int, ...]]:
        """Rebuild a list of messages. Repeated slices could double it with each line."""
        sizes = (1 if isinstance(part, str) else max(0, part[1] - part[0]) for part in parts)
        self._listed += sum(sizes)
        if self._listed > _MAX_LISTED:
            raise ValueError(f"The requests up to here list more than {_MAX_LISTED:,} messages.")
        return rebuild(before, parts)

    def _read_reply(self, run: _Run, found: Line) -> None:
        reply = None
        if "duration" in found:
            attempts = tuple(found.get("attempts", ()))
            reply = self._value(values.RunReply, {"message": None, **found}, attempts=attempts)
            run.change_turn(found["turn"], reply=reply)
        if "decision" in found:
            self._read_decision(run, found, reply)

    def _read_decision(self, run: _Run, found: Line, reply: values.RunReply | None) -> None:
        message = reply.message if reply else None
        written = {"text": reply.text if reply else "", **found["decision"], "at": found["at"]}
        decision = self._value(values.RunDecision, written, selection=None)
        if not written.keys() & {"calls", "reply", "feedback"} and message:
            decision = replace(decision, calls=message.tool_calls)
        is_found = "candidates" in written or "feedback" in written
        if not is_found and is_json_in_text(decision.text, decision.reply, message):
            calls = decision.calls
            names = [call.name for call in calls]
            written |= interpretation(decision.text, names, decision.repairs)
            decision = self._value(values.RunDecision, written, calls=calls, selection=None)
        if (index := written.get("selection")) is not None:
            if index >= len(decision.candidates):
                raise ValueError(f"It has no candidate {index}.")
            decision = replace(decision, selection=decision.candidates[index])
        run.tools = self._find_tools(run, written)
        run.change_turn(found["turn"], decision=decision)
        run.add_calls(found["turn"], found["at"], decision.calls)

    def _read_call(self, run: _Run, found: Line) -> None:
        run.tools = self._find_tools(run, found)
        call = ToolCall(found["id"], found["name"], found["arguments"])
        run.add_calls(found["turn"], found["at"], [call])
        if "effect" in found:
            run.change_call(call.id, effect=found["effect"])

    def _read_compaction(self, run: _Run, found: Line) -> None:
        run.add_compaction(found["turn"], self._value(values.RunCompaction, found))

    def _read_approval(self, run: _Run, found: Line) -> None:
        run.add_to_call(found["id"], "approvals", self._value(values.RunApproval, found))

    def _read_retry(self, run: _Run, found: Line) -> None:
        retry = values.RunRetry(found["at"], found["attempt"], **found["error"])
        run.add_to_call(found["id"], "retries", retry)

    def _read_progress(self, run: _Run, found: Line) -> None:
        run.add_to_call(found["id"], "progress", self._value(values.RunProgress, found))

    def _read_result(self, run: _Run, found: Line) -> None:
        written = {"arguments": run.call(found["id"]).arguments, **found}
        kind = found.get("error", {}).get("kind")
        result = self._value(values.RunResult, written, error_kind=kind)
        run.change_call(found["id"], result=result)

    def _read_end(self, run: _Run, found: Line) -> None:
        run.run = replace(run.run, end=self._value(values.RunEnd, found))
