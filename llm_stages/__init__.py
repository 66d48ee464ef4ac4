"""The tools around the four stages, and the names that most programs need.

    from llm_stages import Gateway, RunFile, ask, tool

The stages do not know this package. It imports them through their faces only, so a program could
contain each of its rooms.

Reading order:
    __main__  `python -m llm_stages`: the command `llm-stages`

Rooms:
    runs/      `RunFile`: everything about a run in a file; its page, replay, comparison, export
    cli/       the command `llm-stages`
    testing/   tests of the promises that a store, a wire format or a dialect makes
"""

from llm_stages.runs.compare import ComparedPart, ComparedTurn, compare_runs
from llm_stages.runs.export.atif import to_atif
from llm_stages.runs.export.otel import to_otel
from llm_stages.runs.fork import Fork, fork_run
from llm_stages.runs.page.html import write_page
from llm_stages.runs.problem import RunFileError
from llm_stages.runs.reader import read_run, read_runs
from llm_stages.runs.replay import CannotReplay, Difference, replay
from llm_stages.runs.run_file import RunFile
from llm_stages.runs.values import (
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
from stage0_gateway import Gateway, GatewayError, Message, OfflineModel, ScriptedModel, Usage
from stage1_context import CompactionPolicy, ContextEngine, KeepSystemAndRecent
from stage2_output import OutputController, extract_json
from stage3_tools import (
    Abort,
    Always,
    ApprovalRequest,
    Approve,
    Edit,
    Later,
    LoopEvent,
    NativeDialect,
    PromptDialect,
    Redact,
    Reject,
    RunLimits,
    RunnerParams,
    Tool,
    ToolContext,
    ToolError,
    ToolLoopDeps,
    ToolLoopOptions,
    ToolLoopResult,
    ToolOutput,
    ToolRegistry,
    ToolRunner,
    ask,
    ask_sync,
    run_events,
    run_tool_loop,
    tool,
)

__all__ = [
    "Abort",
    "Always",
    "ApprovalRequest",
    "Approve",
    "Candidate",
    "CannotReplay",
    "CompactionPolicy",
    "ComparedPart",
    "ComparedTurn",
    "ContextEngine",
    "Difference",
    "DroppedMessage",
    "Edit",
    "Fork",
    "Gateway",
    "GatewayError",
    "KeepSystemAndRecent",
    "Later",
    "LoopEvent",
    "Message",
    "NativeDialect",
    "OfflineModel",
    "OutputController",
    "PromptDialect",
    "Redact",
    "Reject",
    "Run",
    "RunApproval",
    "RunCall",
    "RunCompaction",
    "RunDecision",
    "RunEnd",
    "RunError",
    "RunFile",
    "RunFileError",
    "RunLimits",
    "RunParent",
    "RunProgress",
    "RunReply",
    "RunRequest",
    "RunResult",
    "RunRetry",
    "RunTool",
    "RunTurn",
    "RunnerParams",
    "ScriptedModel",
    "Tool",
    "ToolContext",
    "ToolError",
    "ToolLoopDeps",
    "ToolLoopOptions",
    "ToolLoopResult",
    "ToolOutput",
    "ToolRegistry",
    "ToolRunner",
    "Unreadable",
    "Usage",
    "ask",
    "ask_sync",
    "compare_runs",
    "extract_json",
    "fork_run",
    "read_run",
    "read_runs",
    "replay",
    "run_events",
    "run_tool_loop",
    "to_atif",
    "to_otel",
    "tool",
    "write_page",
]
