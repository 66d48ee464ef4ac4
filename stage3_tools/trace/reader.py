"""`read_runs` and `read_run`: rebuild the runs of a run file.

Every prefix of a run file can be read, because an incomplete last line is ignored. Other damage
and changed lines raise an error with the number of the line. The checksum of a line covers all
earlier lines of its run, and the hash of a message covers its content.
"""

import json
import os
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn, TypeVar
from zlib import crc32

from stage0_gateway import Message, ToolCall, Usage
from stage2_output import Issue, Repair
from stage3_tools.trace.difference import rebuild
from stage3_tools.trace.header import FORMAT_VERSION
from stage3_tools.trace.values import (
    Candidate,
    DroppedMessage,
    Run,
    RunApproval,
    RunCall,
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

V = TypeVar("V")

_RUN_FIELDS = (
    "version",
    "time",
    "entry",
    "model",
    "session_id",
    "dialect",
    "options",
    "packages",
)
_REPLY_FIELDS = (
    "finish_reason",
    "raw_finish_reason",
    "cost",
    "model",
    "request_id",
    "refusal",
    "block_reason",
)
_CHECK = re.compile(rb',"check":(\d+)\}')
_CONTENT = re.compile(rb'\{"type":"(message|tools)","run":"\w+","hash":"(\w+)","\1":')


class RunFileError(ValueError):
    """A file is not a run file, or a line of it was damaged or changed.

    Attributes:
        line: The number of the line, starting at 1.
    """

    def __init__(self, path: Path, line: int, problem: str) -> None:
        super().__init__(f"{path}, line {line}: {problem}")
        self.line = line


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
        ids = ", ".join(run.id for run in runs) or "none"
        raise ValueError(f"{path} contains no run {run_id or ''}. Its runs: {ids}.")
    return found[-1]


def read_runs(path: str | os.PathLike[str]) -> tuple[Run, ...]:
    """Return all runs of a file, in the order of their starts.

    Raises:
        RunFileError: A line was damaged or changed.
        OSError: The file cannot be read.
    """
    reader = _Reader(Path(path))
    lines = reader.path.read_bytes().split(b"\n")
    for number, line in enumerate(lines[:-1], 1):  # the last one is empty or incomplete
        reader.number = number
        reader.read(line)
    return tuple(run.value() for run in reader.runs.values())


@dataclass
class _Run:
    """A run while its lines are read."""

    run: Run
    check: int
    sent: list[str] = field(default_factory=list)
    turns: dict[int, RunTurn] = field(default_factory=dict)
    calls: dict[str, int] = field(default_factory=dict)  # the turn of each call
    end: RunEnd | None = None

    def turn(self, number: int) -> RunTurn:
        return self.turns.get(number, RunTurn(number))

    def value(self) -> Run:
        return replace(self.run, turns=tuple(self.turns.values()), end=self.end)

    def call(self, call_id: str) -> RunCall:
        return next(call for call in self.turns[self.calls[call_id]].calls if call.id == call_id)

    def change(self, changed: RunCall) -> None:
        """Replace a call by one with the same id."""
        turn = self.turns[self.calls[changed.id]]
        calls = tuple(changed if call.id == changed.id else call for call in turn.calls)
        self.turns[turn.number] = replace(turn, calls=calls)


class _Reader:
    """Reads the lines of a file one after the other."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.number = 0
        self.runs: dict[str, _Run] = {}
        self._messages: dict[str, Message] = {}
        self._tools: dict[str, tuple[RunTool, ...]] = {}

    def read(self, line: bytes) -> None:
        """Read a line.

        Raises:
            RunFileError: The line was damaged or changed.
        """
        try:
            fields = json.loads(line)
            kind, run_id = fields["type"], fields["run"]
            check = self._checked(line, kind, run_id, fields)
            if kind == "run":
                self.runs[run_id] = _Run(_header(fields), check)
            elif kind in ("message", "tools"):
                self._content(line, kind, fields)
            elif read := _KINDS.get(kind):
                read(self, self.runs[run_id], fields)
        except RunFileError:
            raise
        except RecursionError:
            self._fail("its values are nested too deeply.")
        except (ValueError, TypeError, KeyError, AttributeError, LookupError) as error:
            self._fail(f"it is damaged ({type(error).__name__}: {error}).")

    def _checked(self, line: bytes, kind: str, run_id: str, fields: Mapping[str, Any]) -> int:
        """Verify the checksum, and return it."""
        end = line.rindex(b',"check":')
        match = _CHECK.fullmatch(line, end)
        if kind == "run":
            if fields["version"] != FORMAT_VERSION:
                text = f"its format has version {fields['version']}; {FORMAT_VERSION} is supported."
                self._fail(text)
            before = 0
        elif run_id in self.runs:
            before = self.runs[run_id].check
        else:
            self._fail("its run has no header. The beginning of the file is missing.")
        check = crc32(line[:end] + b"}", before)
        if match is None or int(match[1]) != check:
            self._fail("it was changed, or a line before it is missing.")
        if kind != "run":
            self.runs[run_id].check = check
        return check

    def _content(self, line: bytes, kind: str, fields: Mapping[str, Any]) -> None:
        """Read a message or a list of tools, and verify its hash."""
        match = _CONTENT.match(line)
        text = line[match.end() : line.rindex(b',"check":')] if match else b""
        if sha256(text).hexdigest()[:16] != fields["hash"]:
            self._fail(f"its content does not have the hash {fields['hash']}.")
        if kind == "message":
            self._messages[fields["hash"]] = Message.from_dict(fields["message"])
        else:
            self._tools[fields["hash"]] = tuple(RunTool(**tool) for tool in fields["tools"])

    def _fail(self, problem: str) -> NoReturn:
        raise RunFileError(self.path, self.number, problem)

    # ---- the lines of a run

    def _request(self, run: _Run, fields: Mapping[str, Any]) -> None:
        hashes = rebuild(run.sent, fields["messages"])
        before, after = set(run.sent), set(hashes)
        options = dict(fields.get("options", {}))
        if "tools" in options:
            options["tools"] = self._tools[options["tools"]]
        request = RunRequest(
            at=fields["at"],
            messages=tuple(self._messages[each] for each in hashes),
            hashes=tuple(hashes),
            added=tuple(i for i, each in enumerate(hashes) if each not in before),
            removed=tuple(i for i, each in enumerate(run.sent) if each not in after),
            tools=self._tools[fields["tools"]] if "tools" in fields else (),
            options=options,
            dropped=tuple(
                DroppedMessage(self._messages[hash], reason)
                for hash, reason in fields.get("dropped", ())
            ),
            dropped_before=fields.get("dropped_before", 0),
        )
        run.sent = hashes
        turn = run.turn(fields["turn"])
        run.turns[turn.number] = replace(turn, request=request)

    def _reply(self, run: _Run, fields: Mapping[str, Any]) -> None:
        reply = RunReply(
            **_present(fields, "at", "duration", *_REPLY_FIELDS),
            message=self._messages[fields["message"]] if "message" in fields else None,
            usage=_optional(_usage, fields.get("usage")),
            attempts=tuple(fields.get("attempts", ())),
            error=_optional(_error, fields.get("error")),
        )
        turn = run.turn(fields["turn"])
        run.turns[turn.number] = replace(turn, reply=reply)

    def _decision(self, run: _Run, fields: Mapping[str, Any]) -> None:
        turn = run.turn(fields["turn"])
        candidates = tuple(Candidate(*each) for each in fields.get("candidates", ()))
        decision = RunDecision(
            **_present(fields, "at", "reply", "feedback"),
            text=fields.get("text", turn.reply.text if turn.reply else ""),
            calls=tuple(ToolCall(*each) for each in fields.get("calls", ())),
            issues=tuple(Issue(**each) for each in fields.get("issues", ())),
            repairs=tuple(Repair(*each) for each in fields.get("repairs", ())),
            candidates=candidates,
            selection=candidates[fields["selection"]] if "selection" in fields else None,
            unreadable=tuple(Unreadable(*each) for each in fields.get("unreadable", ())),
        )
        run.turns[turn.number] = replace(turn, decision=decision)

    def _call(self, run: _Run, fields: Mapping[str, Any]) -> None:
        turn = run.turn(fields["turn"])
        call = RunCall(**_present(fields, "at", "id", "name", "arguments", "effect"))
        run.turns[turn.number] = replace(turn, calls=(*turn.calls, call))
        run.calls[call.id] = turn.number

    def _approval(self, run: _Run, fields: Mapping[str, Any]) -> None:
        names = ("at", "verdict", "about", "reason", "arguments", "duration")
        approval, call = RunApproval(**_present(fields, *names)), run.call(fields["id"])
        run.change(replace(call, approvals=(*call.approvals, approval)))

    def _retry(self, run: _Run, fields: Mapping[str, Any]) -> None:
        retry = RunRetry(fields["at"], fields["attempt"], **fields["error"])
        call = run.call(fields["id"])
        run.change(replace(call, retries=(*call.retries, retry)))

    def _progress(self, run: _Run, fields: Mapping[str, Any]) -> None:
        progress, call = RunProgress(fields["at"], fields["value"]), run.call(fields["id"])
        run.change(replace(call, progress=(*call.progress, progress)))

    def _result(self, run: _Run, fields: Mapping[str, Any]) -> None:
        error = fields.get("error", {})
        names = ("at", "duration", "status", "attempts", "cached", "details", "variable", "output")
        result = RunResult(
            **_present(fields, *names),
            arguments=fields.get("arguments", run.call(fields["id"]).arguments),
            message=self._messages[fields["message"]],
            repairs=tuple(Repair(*each) for each in fields.get("repairs", ())),
            error_kind=error.get("kind"),
        )
        run.change(replace(run.call(fields["id"]), result=result))

    def _end(self, run: _Run, fields: Mapping[str, Any]) -> None:
        run.end = RunEnd(
            **_present(fields, "at", "status", "reason", "reply", "cost", "tool_rounds"),
            usage=_optional(_usage, fields.get("usage")),
            waiting=tuple(fields.get("waiting", ())),
            error=_optional(_error, fields.get("error")),
        )


_KINDS = {
    "request": _Reader._request,
    "reply": _Reader._reply,
    "decision": _Reader._decision,
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


def _optional(make: Callable[[Any], V], value: Any) -> V | None:
    return None if value is None else make(value)


def _usage(counts: Mapping[str, int]) -> Usage:
    return Usage(**counts)


def _error(fields: Mapping[str, Any]) -> RunError:
    return RunError(**fields)
