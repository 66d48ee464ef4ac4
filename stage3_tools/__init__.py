"""Stage 3: does the model want a tool, which one, and what happens next?

    question ─▶ run_tool_loop ─▶ run_turn ─▶ model ─▶ decision ─┬─▶ tool ─▶ result ─▶ run_turn
                                                                └─▶ reply

This stage does not know HTTP.

Reading order:
    errors    `ToolError` for the model, `RegistrationError` for the developer
    result    the result of a call: output for the model, details for people
    abort     stop a run from any thread
    context   data about the current call for a tool's function
    tool      `Tool` and `@tool`: name, description, schema, function
    registry  `ToolRegistry`: the tools that a model may call, by name
    decision  the JSON text with which a model calls a tool or replies
    events    one value for each step of a run
    options   the dependencies and the options of a run
    turn      one turn: request, read, act
    loop      turns until a stop policy ends the run; `run_tool_loop`
    ask       shorter entries to the loop: `ask`, `ask_sync` and `run_events`

Rooms:
    schema/     a function's description and JSON Schema
    execution/  run calls: arguments, approval, retries, cache, time limits
    reading/    the position and the keys of a decision
    dialects/   tools in the system prompt, or the provider's own tool calls
    variables/  long results and arguments, stored as variables
    run/        the state of a run, its stop policy, its cancellation
    resume/     calls that an earlier run left without results
    runner/     `ToolRunner`: a run step by step
    chain/      `execute_tool_chain`: a run that starts at an existing reply
"""

from stage3_tools.abort import Abort, RunStopped
from stage3_tools.ask import ask, ask_sync, run_events
from stage3_tools.chain.chain import (
    ChainMessages,
    ChainStats,
    ChainStatus,
    ToolChainResult,
    execute_tool_chain,
)
from stage3_tools.chain.formatter import MessageFlowFormatter
from stage3_tools.chain.options import ToolChainOptions
from stage3_tools.context import ParentRun, ToolContext
from stage3_tools.decision import (
    TOOL_DECISION_SCHEMA,
    DecisionRules,
    ToolDecision,
    parse_tool_decision,
    parse_tool_decisions,
)
from stage3_tools.dialects.named import dialect_of
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
from stage3_tools.errors import RegistrationError, Retry, ToolError, exception_text
from stage3_tools.events import (
    ApprovalDecided,
    ApprovalPending,
    Compacted,
    DecisionMade,
    FeedbackGiven,
    LoopEnded,
    LoopEvent,
    ReplyReceived,
    ReplyStreamed,
    ReplyText,
    RequestFailed,
    RequestSent,
    RunStarted,
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
    Approver,
    Edit,
    Later,
    Redact,
    Reject,
    Verdict,
)
from stage3_tools.execution.cache import ResultCache
from stage3_tools.execution.settings import ExecutionSettings
from stage3_tools.execution.several_calls import execute_tool_call, execute_tool_calls
from stage3_tools.loop import run_to_end, run_tool_loop, run_turns
from stage3_tools.options import Listener, RequestInfo, RunLimits, ToolLoopDeps, ToolLoopOptions
from stage3_tools.registry import Registrable, ToolRegistry
from stage3_tools.result import (
    LoopStats,
    LoopStatus,
    ToolCallRecord,
    ToolLoopResult,
    ToolOutput,
    ToolResult,
    plain_data,
)
from stage3_tools.resume.open_calls import last_question
from stage3_tools.run.state import RunState, Turn
from stage3_tools.run.stop_policy import Ending, StopPolicy
from stage3_tools.runner.params import RunnerParams
from stage3_tools.runner.runner import ToolRunner
from stage3_tools.tool import FunctionTool, Tool, tool
from stage3_tools.turn import EMPTY_REPLY_FEEDBACK, run_turn
from stage3_tools.variables.long_values import READ_VARIABLE, Values, json_value

__all__ = [
    "EMPTY_REPLY_FEEDBACK",
    "LAST_REQUEST",
    "READ_VARIABLE",
    "TOOL_DECISION_SCHEMA",
    "Abort",
    "Always",
    "ApprovalDecided",
    "ApprovalPending",
    "ApprovalRequest",
    "Approve",
    "Approver",
    "ChainMessages",
    "ChainStats",
    "ChainStatus",
    "Compacted",
    "DecisionMade",
    "DecisionRules",
    "Dialect",
    "Edit",
    "Ending",
    "ExecutionSettings",
    "FeedbackGiven",
    "FinalReply",
    "FunctionTool",
    "InvalidReply",
    "Later",
    "Listener",
    "LoopEnded",
    "LoopEvent",
    "LoopStats",
    "LoopStatus",
    "MessageFlowFormatter",
    "NativeDialect",
    "ParentRun",
    "PromptDialect",
    "Redact",
    "Registrable",
    "RegistrationError",
    "Reject",
    "ReplyInterpretation",
    "ReplyReceived",
    "ReplyStreamed",
    "ReplyText",
    "RequestFailed",
    "RequestInfo",
    "RequestParts",
    "RequestSent",
    "ResultCache",
    "Retry",
    "RunLimits",
    "RunStarted",
    "RunState",
    "RunStopped",
    "RunnerParams",
    "StopPolicy",
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
    "Values",
    "Verdict",
    "ask",
    "ask_sync",
    "build_tool_system_prompt",
    "dialect_of",
    "exception_text",
    "execute_tool_call",
    "execute_tool_calls",
    "execute_tool_chain",
    "json_value",
    "last_question",
    "parse_tool_decision",
    "parse_tool_decisions",
    "plain_data",
    "run_events",
    "run_to_end",
    "run_tool_loop",
    "run_turn",
    "run_turns",
    "tool",
]
