"""In random runs, the reader rebuilds the requests that the model received; a replay is identical.

The runs are those of `random_use.py`: all dialects, the runner and chains, invalid replies, failing
tools, parallel calls, windows, aborts and cancellations.
"""

import asyncio
import json
from collections import Counter
from functools import partial

import pytest

from llm_stages import RunFile, read_runs
from llm_stages.runs.replay import replay
from stage0_gateway import ToolSpec
from stage3_tools import ToolLoopDeps
from tests.llm_stages.runs.run_files import schema_problems
from tests.stage3_tools.random_use import RandomRun, run_randomly

RUNS = [3, pytest.param(25, marks=pytest.mark.long)]  # of each entry point


class TracedRun(RandomRun):
    """A random run that is written to a file. `sent` contains the requests that arrived."""

    def __init__(self, path, entry_point, seed):
        super().__init__(entry_point, seed)
        self.sent = []
        self.trace = RunFile(path)
        self.chat = self.recording(self.chat)
        self.stream = self.stream and self.recording(self.stream)
        deps = self.deps
        self.deps = ToolLoopDeps(
            self.chat,
            self.engine,
            deps.output_controller,
            deps.tool_registry,
            self.stream,
            gateway=self.gateway,
        )

    def recording(self, send):
        def record(messages, **keywords):
            recorded = {name: keywords[name] for name in keywords if name != "cache_key"}
            self.sent.append(canonical(messages, recorded))  # the session is in the header
            return send(messages, **keywords)

        return record

    def options(self):
        return super().options() | {"trace": self.trace}

    def approving_options(self):
        return super().approving_options() | {"trace": self.trace}


def canonical(messages, keywords):
    """Return the text of a request."""
    plain = [each.to_dict() for each in messages]
    return json.dumps([plain, keywords], default=_plain)


def _plain(value):
    if isinstance(value, ToolSpec):
        return [value.name, value.description, value.parameters]
    return dict(value)


@pytest.mark.parametrize("count", RUNS)
@pytest.mark.parametrize("entry_point", ["prompt", "several", "native", "runner", "chain"])
def test_the_requests_of_random_runs_are_rebuilt_and_their_replay_is_identical(
    tmp_path, entry_point, count
):
    requests = calls = 0
    for seed in range(count):
        path = tmp_path / f"{seed}.jsonl"
        sent = run_randomly(entry_point, seed, partial(TracedRun, path)).sent
        if not path.exists():  # a limit of the cost was refused before the first request
            assert sent == [], seed
            continue
        assert schema_problems(path) == [], seed
        runs = read_runs(path)
        turns = [turn for run in runs for turn in run.turns]
        rebuilt = [
            turn.request for turn in turns if turn.request and (not turn.reply or turn.reply.sent)
        ]
        read = [canonical(request.messages, request.keywords) for request in rebuilt]
        assert Counter(read) == Counter(sent), seed
        for turn in turns:
            if turn.decision and turn.decision.calls:
                assert [each.id for each in turn.decision.calls] == [each.id for each in turn.calls]
        assert all(run.end is not None for run in runs if entry_point != "runner"), seed
        assert [text for run in runs for text in map(str, asyncio.run(replay(run)))] == [], seed
        requests, calls = requests + len(read), calls + sum(len(turn.calls) for turn in turns)
    assert min(requests, calls) >= count
