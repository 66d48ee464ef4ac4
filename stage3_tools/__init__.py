"""Stage 3: does the model want a tool, which one, and what happens next?

    question ─▶ run_tool_loop ─▶ run_turn ─▶ model ─▶ decision ─┬─▶ tool ─▶ result ─▶ run_turn
                                                                └─▶ reply

This stage does not know HTTP.

Reading order:
    errors    `ToolError` for the model, `RegistrationError` for the developer
    result    the result of a call: output for the model, details for people
    events    one value for each step of a run
    context   data about the current call for a tool's function
    abort     stop a run from any thread
    tool      `Tool` and `@tool`: name, description, schema, function
    registry  `ToolRegistry`: the tools that a model may call, by name
    decision  the JSON text with which a model calls a tool or replies
    options   the dependencies and the options of a run
    turn      one turn: request, read, act
    loop      turns until a stop policy ends the run; `run_tool_loop`

Rooms:
    schema/     a function's description and JSON Schema
    execution/  run calls: arguments, approval, retries, cache, time limits
    dialects/   tools in the system prompt, or the provider's own tool calls
    variables/  long results and arguments, stored as variables
    run/        the state of a run, its stop policy, its cancellation
    resume/     calls that an earlier run left without results
    runner/     `ToolRunner`: a run step by step
    chain/      `execute_tool_chain`: a run that starts at an existing reply
"""

from stage3_tools.abort import Abort, RunStopped
from stage3_tools.chain.chain import (
    ChainMessages,
    ChainStats,
    ChainStatus,
    ToolChainResult,
    execute_tool_chain,
)
from stage3_tools.chain.formatter import MessageFlowFormatter
from stage3_tools.chain.options import ToolChainOptions
from stage3_tools.context import ToolContext
from stage3_tools.decision import (
    TOOL_DECISION_SCHEMA,
    ToolDecision,
    parse_tool_decision,
    parse_tool_decisions,
)
from stage3_tools.dialects.native import NativeDialect
from stage3_tools.dialects.prompt import PromptDialect, build_tool_system_prompt
from stage3_tools.dialects.protocol import (
    LAST_REQUEST,
    Dialect,
    FinalReply,
    InvalidReply,
    ReplyInterpretation,
    RequestParts,
    ToolCalls,
)
from stage3_tools.errors import RegistrationError, Retry, ToolError
from stage3_tools.events import (
    ApprovalPending,
    DecisionMade,
    FeedbackGiven,
    LoopEnded,
    LoopEvent,
    ReplyStreamed,
    ToolAnswered,
    ToolCalled,
    ToolProgressed,
    ToolRetried,
    TurnEnded,
    TurnStarted,
)
from stage3_tools.execution.approval import (
    Always,
    ApprovalRequest,
    Approve,
    Edit,
    Later,
    Reject,
    Verdict,
)
from stage3_tools.execution.cache import ResultCache
from stage3_tools.execution.settings import ExecutionSettings
from stage3_tools.execution.several_calls import execute_tool_call, execute_tool_calls
from stage3_tools.loop import LoopStats, ToolLoopResult, run_tool_loop
from stage3_tools.options import RequestInfo, RunLimits, ToolLoopDeps, ToolLoopOptions
from stage3_tools.registry import ToolRegistry
from stage3_tools.result import ToolCallRecord, ToolOutput, ToolResult
from stage3_tools.run.state import RunState, Turn
from stage3_tools.run.stop_policy import LoopStatus
from stage3_tools.runner.params import RunnerParams
from stage3_tools.runner.runner import ToolRunner
from stage3_tools.tool import Tool, tool
from stage3_tools.turn import run_turn

__all__ = [
    "Abort",
    "Always",
    "ApprovalPending",
    "ApprovalRequest",
    "Approve",
    "ChainMessages",
    "ChainStats",
    "ChainStatus",
    "DecisionMade",
    "Dialect",
    "Edit",
    "ExecutionSettings",
    "FeedbackGiven",
    "FinalReply",
    "InvalidReply",
    "LAST_REQUEST",
    "Later",
    "LoopEnded",
    "LoopEvent",
    "LoopStats",
    "LoopStatus",
    "MessageFlowFormatter",
    "NativeDialect",
    "PromptDialect",
    "RegistrationError",
    "Reject",
    "ReplyInterpretation",
    "ReplyStreamed",
    "RequestInfo",
    "RequestParts",
    "ResultCache",
    "Retry",
    "RunLimits",
    "RunState",
    "RunStopped",
    "RunnerParams",
    "TOOL_DECISION_SCHEMA",
    "Tool",
    "ToolAnswered",
    "ToolCallRecord",
    "ToolCalled",
    "ToolCalls",
    "ToolChainOptions",
    "ToolChainResult",
    "ToolContext",
    "ToolDecision",
    "ToolError",
    "ToolLoopDeps",
    "ToolLoopOptions",
    "ToolLoopResult",
    "ToolOutput",
    "ToolProgressed",
    "ToolRegistry",
    "ToolResult",
    "ToolRetried",
    "ToolRunner",
    "Turn",
    "TurnEnded",
    "TurnStarted",
    "Verdict",
    "build_tool_system_prompt",
    "execute_tool_call",
    "execute_tool_calls",
    "execute_tool_chain",
    "parse_tool_decision",
    "parse_tool_decisions",
    "run_tool_loop",
    "run_turn",
    "tool",
]
