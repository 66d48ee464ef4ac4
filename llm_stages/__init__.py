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

# The form `Name as Name` exports a name, also for type checkers.
from llm_stages.runs.compare import ComparedPart as ComparedPart
from llm_stages.runs.compare import ComparedTurn as ComparedTurn
from llm_stages.runs.compare import compare_runs as compare_runs
from llm_stages.runs.export.atif import to_atif as to_atif
from llm_stages.runs.export.otel import to_otel as to_otel
from llm_stages.runs.fork import Fork as Fork
from llm_stages.runs.fork import fork_run as fork_run
from llm_stages.runs.page.html import write_page as write_page
from llm_stages.runs.problem import RunFileError as RunFileError
from llm_stages.runs.reader import read_run as read_run
from llm_stages.runs.reader import read_runs as read_runs
from llm_stages.runs.replay import CannotReplay as CannotReplay
from llm_stages.runs.replay import Difference as Difference
from llm_stages.runs.replay import replay as replay
from llm_stages.runs.run_file import RunFile as RunFile
from llm_stages.runs.values import Candidate as Candidate
from llm_stages.runs.values import DroppedMessage as DroppedMessage
from llm_stages.runs.values import Run as Run
from llm_stages.runs.values import RunApproval as RunApproval
from llm_stages.runs.values import RunCall as RunCall
from llm_stages.runs.values import RunCompaction as RunCompaction
from llm_stages.runs.values import RunDecision as RunDecision
from llm_stages.runs.values import RunEnd as RunEnd
from llm_stages.runs.values import RunError as RunError
from llm_stages.runs.values import RunParent as RunParent
from llm_stages.runs.values import RunProgress as RunProgress
from llm_stages.runs.values import RunReply as RunReply
from llm_stages.runs.values import RunRequest as RunRequest
from llm_stages.runs.values import RunResult as RunResult
from llm_stages.runs.values import RunRetry as RunRetry
from llm_stages.runs.values import RunTool as RunTool
from llm_stages.runs.values import RunTurn as RunTurn
from llm_stages.runs.values import Unreadable as Unreadable
from stage0_gateway import Gateway as Gateway
from stage0_gateway import GatewayError as GatewayError
from stage0_gateway import Message as Message
from stage0_gateway import OfflineModel as OfflineModel
from stage0_gateway import ScriptedModel as ScriptedModel
from stage0_gateway import Usage as Usage
from stage1_context import CompactionPolicy as CompactionPolicy
from stage1_context import ContextEngine as ContextEngine
from stage1_context import KeepSystemAndRecent as KeepSystemAndRecent
from stage2_output import OutputController as OutputController
from stage2_output import extract_json as extract_json
from stage3_tools import Abort as Abort
from stage3_tools import Always as Always
from stage3_tools import ApprovalRequest as ApprovalRequest
from stage3_tools import Approve as Approve
from stage3_tools import Edit as Edit
from stage3_tools import Later as Later
from stage3_tools import LoopEvent as LoopEvent
from stage3_tools import NativeDialect as NativeDialect
from stage3_tools import PromptDialect as PromptDialect
from stage3_tools import Redact as Redact
from stage3_tools import Reject as Reject
from stage3_tools import RunLimits as RunLimits
from stage3_tools import RunnerParams as RunnerParams
from stage3_tools import Tool as Tool
from stage3_tools import ToolContext as ToolContext
from stage3_tools import ToolError as ToolError
from stage3_tools import ToolLoopDeps as ToolLoopDeps
from stage3_tools import ToolLoopOptions as ToolLoopOptions
from stage3_tools import ToolLoopResult as ToolLoopResult
from stage3_tools import ToolOutput as ToolOutput
from stage3_tools import ToolRegistry as ToolRegistry
from stage3_tools import ToolRunner as ToolRunner
from stage3_tools import ask as ask
from stage3_tools import ask_sync as ask_sync
from stage3_tools import run_events as run_events
from stage3_tools import run_tool_loop as run_tool_loop
from stage3_tools import tool as tool

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
