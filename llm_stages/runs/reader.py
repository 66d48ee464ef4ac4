"""`read_runs` and `read_run`: rebuild the runs of a run file.

Every prefix of a run file can be read, because an incomplete last line is ignored. Other damage
and changed lines raise an error with the number of the line. The checksum of a line covers all
earlier lines of its run, and the hash of a message covers its content.
"""

import os
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import blake2b
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from zlib import crc32

from llm_stages.runs.difference import Part, rebuild
from llm_stages.runs.interpretation import interpretation, is_json_in_text
from llm_stages.runs.problem import RunFileError
from llm_stages.runs.validation import parse_line, validate_line
from llm_stages.runs.values import (
    FORMAT_VERSION,
    REPLY_FIELDS,
    Candidate,
    DroppedMessage,
    Run,
    RunApproval,
    RunCall,
    RunCompaction,
    RunDecision,
    RunEnd,
    RunError,
    RunParent,
    RunProgress,
    RunReply,
    RunRequest,
    RunResult,
    RunRetry,
    RunTool,
    RunTurn,
    Unreadable,
)
from stage0_gateway import (
    Message,
    ToolCall,
    Usage,
)
from stage2_output import (
    Issue,
    Repair,
)

V = TypeVar("V")

_RUN_FIELDS = (
    "parent_run",
    "parent_call",
    "version",
    "rules",
    "time",
    "entry",
    "model",
    "session_id",
    "dialect",
    "options",
    "packages",
)
_MAX_LISTED = 10_000_000
"""The maximum number of messages in all requests of a file, as of 3,000 turns without a window."""

_CONTENT = re.compile(rb'\{"type":"\w+","hash":"\w+","\w+":(.*)\}', re.DOTALL)


def read_run(path: str | os.PathLike[str], run_id: str | None = None) -> Run:
    """Return one run of a file: the one with this id, or the newest one.

    Raises:
        RunFileError: A line was damaged or changed.
        ValueError: The file contains no such run.
        OSError: The file cannot be read.
    """
    runs = read_runs(path)
    found = [run for run in runs if run_id in (None, run.id)]
    if not found:
        if not runs:
            raise ValueError(f"{path} contains no run.")
        ids = ", ".join(run.id for run in runs)
        raise ValueError(f"{path} contains no run {run_id!r}. Its runs: {ids}.")
    return found[-1]


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
    return reader.values()


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
    end: RunEnd | None = None

    def value(self) -> Run:
        """The run that was read so far."""
        return replace(self.run, turns=tuple(self.turns.values()), end=self.end)

    def change_turn(self, number: int, **changes: Any) -> None:
        """Change a turn."""
        self.turns[number] = replace(self.turns.get(number, RunTurn(number)), **changes)

    def add_calls(self, number: int, at: float, calls: Iterable[ToolCall]) -> None:
        """Add calls to a turn."""
        effects = {tool.name: tool.effect for tool in self.tools}
        added = [
            RunCall(at, call.id, call.name, call.arguments, effects.get(call.name))
            for call in calls
        ]
        earlier = self.turns[number].calls if number in self.turns else ()
        self.change_turn(number, calls=(*earlier, *added))
        self.calls |= {call.id: number for call in added}

    def add_compaction(self, number: int, compaction: RunCompaction) -> None:
        """Add a compaction to a turn."""
        earlier = self.turns[number].compactions if number in self.turns else ()
        self.change_turn(number, compactions=(*earlier, compaction))

    def call(self, call_id: str) -> RunCall:
        """The call with this id."""
        return next(call for call in self.turns[self.calls[call_id]].calls if call.id == call_id)

    def change_call(self, call_id: str, **changes: Any) -> None:
        """Change a call."""
        turn = self.turns[self.calls[call_id]]
        calls = [replace(call, **changes) if call.id == call_id else call for call in turn.calls]
        self.change_turn(turn.number, calls=tuple(calls))


class _Reader:
    """Reads the lines of a file one after the other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.runs: dict[str, _Run] = {}
        self._number = 0
        self._listed = 0  # messages in all requests
        self._content = b""  # lines that the checksum of the next line covers, too
        self._messages: dict[str, Message] = {}
        self._tools: dict[str, tuple[RunTool, ...]] = {}

    def read(self, line: bytes) -> None:
        """Read a line.

        Raises:
            RunFileError: The line was damaged or changed.
        """
        self._number += 1
        try:
            fields = parse_line(line)
            if fields["type"] == "run" and fields.get("version") != FORMAT_VERSION:
                supported = f"{fields.get('version')!r:.20}; {FORMAT_VERSION} is supported"
                self._fail(f"the format has version {supported}.")
            validate_line(fields)
            if fields["type"] in ("message", "tools"):
                self._read_content(line, fields)
            else:
                self._read_record(line, fields)
        except RunFileError:
            raise
        except KeyError as error:
            self._fail(f"it is damaged: The file does not contain {error}, to which it refers.")
        except (ValueError, TypeError) as error:
            self._fail(f"it is damaged: {error}")

    def values(self) -> tuple[Run, ...]:
        """The runs of the file, each with the runs that its tools made."""
        runs: dict[str, Run] = {}
        for read in reversed(self.runs.values()):  # a run starts before those of its tools
            run = read.value()
            inner = [each for each in runs.values() if each.parent_run == run.id]
            runs[run.id] = replace(run, sub_runs=tuple(reversed(inner)))
        return tuple(reversed(runs.values()))

    def _read_content(self, line: bytes, fields: Mapping[str, Any]) -> None:
        """Read a message or a list of tools, and verify its hash."""
        match = _CONTENT.fullmatch(line)
        hash = fields["hash"]
        if match is None or blake2b(match[1], digest_size=8).hexdigest() != hash:
            self._fail(f"it was changed: its content does not have the hash {hash}.")
        self._content += line + b"\n"
        if fields["type"] == "message":
            self._messages[hash] = Message.from_dict(fields["message"])
        else:
            self._tools[hash] = tuple(RunTool(**tool) for tool in fields["tools"])

    def _read_record(self, line: bytes, fields: Mapping[str, Any]) -> None:
        """Read a line of a run, and verify its checksum."""
        if fields["type"] == "run":
            self.runs[fields["run"]] = _Run(_header(fields), dialect=fields["dialect"])
        elif fields["run"] not in self.runs:
            self._fail("the header of its run is missing.")
        run = self.runs[fields["run"]]
        head, _, check = line.rpartition(b',"check":')
        run.check = crc32(self._content + head + b"}", run.check)
        if check != b"%d}" % run.check:
            self._fail("it was changed, or a line before it is missing.")
        self._content = b""
        if read := _KINDS.get(fields["type"]):
            read(self, run, fields)

    def _fail(self, problem: str) -> NoReturn:
        raise RunFileError(self.path, problem, self._number)

    # ---- the lines of a run

    def _request(self, run: _Run, fields: Mapping[str, Any]) -> None:
        hashes, added, removed = self._rebuild(run.sent, fields["messages"])
        run.stored = (
            self._rebuild(run.stored, fields["stored"])[0] if "stored" in fields else hashes
        )
        self._find_tools(run, fields)
        run.dialect = fields.get("dialect", run.dialect)
        if "options" in fields:
            run.options = dict(fields["options"])
            if "tools" in run.options:
                run.options["tools"] = self._tools[run.options["tools"]]
        request = RunRequest(
            at=fields["at"],
            messages=tuple(self._messages[each] for each in hashes),
            hashes=tuple(hashes),
            added=added,
            removed=removed,
            tools=run.tools,
            options=run.options,
            dialect=run.dialect,
            stored=tuple(self._messages[each] for each in run.stored),
            dropped=tuple(
                DroppedMessage(self._messages[hash], reason, hash)
                for hash, reason in fields.get("dropped", ())
            ),
        )
        for summary in fields.get("summaries", ()):  # an earlier form of the compaction line
            usage = Usage(**summary.get("usage", {}))
            run.add_compaction(
                fields["turn"], RunCompaction(fields["at"], usage, summary.get("cost"))
            )
        run.sent = hashes
        run.change_turn(fields["turn"], request=request)

    def _rebuild(
        self, before: list[str], parts: list[Part]
    ) -> tuple[list[str], tuple[int, ...], tuple[int, ...]]:
        """Rebuild a list of messages. Repeated slices could double it with each line."""
        sizes = (1 if isinstance(part, str) else max(0, part[1] - part[0]) for part in parts)
        self._listed += sum(sizes)
        if self._listed > _MAX_LISTED:
            raise ValueError(f"The requests up to here list more than {_MAX_LISTED:,} messages.")
        return rebuild(before, parts)

    def _find_tools(self, run: _Run, fields: Mapping[str, Any]) -> None:
        if "tools" in fields:
            run.tools = self._tools[fields["tools"]]

    def _reply(self, run: _Run, fields: Mapping[str, Any]) -> None:
        reply = None
        if "duration" in fields:
            reply = RunReply(
                **_present(fields, "at", "duration", "cost", "sent", *REPLY_FIELDS),
                message=_optional(self._messages.__getitem__, fields.get("message")),
                usage=_optional(_usage, fields.get("usage")),
                attempts=tuple(fields.get("attempts", ())),
                error=_optional(_error, fields.get("error")),
            )
            run.change_turn(fields["turn"], reply=reply)
        if "decision" in fields:
            self._decision(run, fields, reply)

    def _decision(self, run: _Run, fields: Mapping[str, Any], reply: RunReply | None) -> None:
        written: dict[str, Any] = {"text": reply.text if reply else "", **fields["decision"]}
        calls = tuple(ToolCall(**each) for each in written.get("calls", ()))
        if not written.keys() & {"calls", "reply", "feedback"} and reply and reply.message:
            calls = reply.message.tool_calls
        repairs = tuple(Repair(*each) for each in written.get("repairs", ()))
        found, is_found = written, "candidates" in written or "feedback" in written
        message = reply.message if reply else None
        if not is_found and is_json_in_text(written["text"], written.get("reply"), message):
            found = interpretation(written["text"], [call.name for call in calls], repairs)
        candidates = tuple(Candidate(*each) for each in found.get("candidates", ()))
        decision = RunDecision(
            at=fields["at"],
            **_present(written, "text", "reply", "feedback"),
            calls=calls,
            issues=tuple(Issue(**each) for each in written.get("issues", ())),
            repairs=repairs,
            candidates=candidates,
            selection=_selected(candidates, found.get("selection")),
            unreadable=tuple(Unreadable(*each) for each in found.get("unreadable", ())),
        )
        self._find_tools(run, written)
        run.change_turn(fields["turn"], decision=decision)
        run.add_calls(fields["turn"], fields["at"], calls)

    def _call(self, run: _Run, fields: Mapping[str, Any]) -> None:
        self._find_tools(run, fields)
        call = ToolCall(fields["id"], fields["name"], fields["arguments"])
        run.add_calls(fields["turn"], fields["at"], [call])
        if "effect" in fields:
            run.change_call(call.id, effect=fields["effect"])

    def _compaction(self, run: _Run, fields: Mapping[str, Any]) -> None:
        compaction = RunCompaction(
            **_present(fields, "at", "cost", "reason"),
            usage=Usage(**fields["usage"]),
            before=tuple(self._messages[hash] for hash in fields["before"]),
            after=_optional(self._messages.__getitem__, fields.get("after")),
            error=_optional(_error, fields.get("error")),
        )
        run.add_compaction(fields["turn"], compaction)

    def _approval(self, run: _Run, fields: Mapping[str, Any]) -> None:
        names = ("at", "verdict", "about", "reason", "arguments", "duration")
        earlier = run.call(fields["id"]).approvals
        approval = RunApproval(**_present(fields, *names))
        run.change_call(fields["id"], approvals=(*earlier, approval))

    def _retry(self, run: _Run, fields: Mapping[str, Any]) -> None:
        earlier = run.call(fields["id"]).retries
        retry = RunRetry(fields["at"], fields["attempt"], **fields["error"])
        run.change_call(fields["id"], retries=(*earlier, retry))

    def _progress(self, run: _Run, fields: Mapping[str, Any]) -> None:
        earlier = run.call(fields["id"]).progress
        progress = RunProgress(fields["at"], fields["value"])
        run.change_call(fields["id"], progress=(*earlier, progress))

    def _result(self, run: _Run, fields: Mapping[str, Any]) -> None:
        error = fields.get("error", {})
        names = ("at", "duration", "status", "attempts", "cached", "details", "variable", "output")
        result = RunResult(
            **_present(fields, *names),
            message=self._messages[fields["message"]],
            arguments=fields.get("arguments", run.call(fields["id"]).arguments),
            repairs=tuple(Repair(*each) for each in fields.get("repairs", ())),
            error_kind=error.get("kind"),
        )
        run.change_call(fields["id"], result=result)

    def _end(self, run: _Run, fields: Mapping[str, Any]) -> None:
        run.end = RunEnd(
            **_present(fields, "at", "status", "reason", "reply", "cost", "tool_rounds"),
            usage=Usage(**fields["usage"]),
            waiting=tuple(fields.get("waiting", ())),
            error=_optional(_error, fields.get("error")),
        )


_KINDS = {
    "compaction": _Reader._compaction,
    "request": _Reader._request,
    "reply": _Reader._reply,
    "call": _Reader._call,
    "approval": _Reader._approval,
    "retry": _Reader._retry,
    "progress": _Reader._progress,
    "result": _Reader._result,
    "end": _Reader._end,
}


def _header(fields: Mapping[str, Any]) -> Run:
    parent = _optional(lambda value: RunParent(**value), fields.get("parent"))
    return Run(fields["run"], **_present(fields, *_RUN_FIELDS), parent=parent)


def _present(fields: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: fields[name] for name in names if name in fields}


def _selected(candidates: tuple[Candidate, ...], index: int | None) -> Candidate | None:
    if index is None:
        return None
    if index >= len(candidates):
        raise ValueError(f"It has no candidate {index}.")
    return candidates[index]


def _optional(make: Callable[[Any], V], value: Any) -> V | None:
    return None if value is None else make(value)


def _usage(counts: Mapping[str, int | None]) -> Usage:
    return Usage(**counts)


def _error(fields: Mapping[str, Any]) -> RunError:
    return RunError(**fields)
