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

# The form `Name as Name` exports a name, also for type checkers.
from stage3_tools.abort import Abort as Abort
from stage3_tools.abort import RunStopped as RunStopped
from stage3_tools.ask import ask as ask
from stage3_tools.ask import ask_sync as ask_sync
from stage3_tools.ask import run_events as run_events
from stage3_tools.chain.chain import ChainMessages as ChainMessages
from stage3_tools.chain.chain import ChainStats as ChainStats
from stage3_tools.chain.chain import ChainStatus as ChainStatus
from stage3_tools.chain.chain import ToolChainResult as ToolChainResult
from stage3_tools.chain.chain import execute_tool_chain as execute_tool_chain
from stage3_tools.chain.formatter import MessageFlowFormatter as MessageFlowFormatter
from stage3_tools.chain.options import ToolChainOptions as ToolChainOptions
from stage3_tools.context import ParentRun as ParentRun
from stage3_tools.context import ToolContext as ToolContext
from stage3_tools.decision import TOOL_DECISION_SCHEMA as TOOL_DECISION_SCHEMA
from stage3_tools.decision import DecisionRules as DecisionRules
from stage3_tools.decision import ToolDecision as ToolDecision
from stage3_tools.decision import parse_tool_decision as parse_tool_decision
from stage3_tools.decision import parse_tool_decisions as parse_tool_decisions
from stage3_tools.dialects.named import dialect_of as dialect_of
from stage3_tools.dialects.native import NativeDialect as NativeDialect
from stage3_tools.dialects.prompt import PromptDialect as PromptDialect
from stage3_tools.dialects.prompt import build_tool_system_prompt as build_tool_system_prompt
from stage3_tools.dialects.protocol import LAST_REQUEST as LAST_REQUEST
from stage3_tools.dialects.protocol import Dialect as Dialect
from stage3_tools.dialects.protocol import FinalReply as FinalReply
from stage3_tools.dialects.protocol import InvalidReply as InvalidReply
from stage3_tools.dialects.protocol import ReplyInterpretation as ReplyInterpretation
from stage3_tools.dialects.protocol import RequestParts as RequestParts
from stage3_tools.dialects.protocol import ToolCalls as ToolCalls
from stage3_tools.errors import RegistrationError as RegistrationError
from stage3_tools.errors import Retry as Retry
from stage3_tools.errors import ToolError as ToolError
from stage3_tools.errors import exception_text as exception_text
from stage3_tools.events import ApprovalDecided as ApprovalDecided
from stage3_tools.events import ApprovalPending as ApprovalPending
from stage3_tools.events import Compacted as Compacted
from stage3_tools.events import DecisionMade as DecisionMade
from stage3_tools.events import FeedbackGiven as FeedbackGiven
from stage3_tools.events import LoopEnded as LoopEnded
from stage3_tools.events import LoopEvent as LoopEvent
from stage3_tools.events import ReplyReceived as ReplyReceived
from stage3_tools.events import ReplyStreamed as ReplyStreamed
from stage3_tools.events import ReplyText as ReplyText
from stage3_tools.events import RequestFailed as RequestFailed
from stage3_tools.events import RequestSent as RequestSent
from stage3_tools.events import RunStarted as RunStarted
from stage3_tools.events import ToolAnswered as ToolAnswered
from stage3_tools.events import ToolCalled as ToolCalled
from stage3_tools.events import ToolProgressed as ToolProgressed
from stage3_tools.events import ToolRetried as ToolRetried
from stage3_tools.events import TurnEnded as TurnEnded
from stage3_tools.events import TurnStarted as TurnStarted
from stage3_tools.execution.approval import Always as Always
from stage3_tools.execution.approval import ApprovalRequest as ApprovalRequest
from stage3_tools.execution.approval import Approve as Approve
from stage3_tools.execution.approval import Approver as Approver
from stage3_tools.execution.approval import Edit as Edit
from stage3_tools.execution.approval import Later as Later
from stage3_tools.execution.approval import Redact as Redact
from stage3_tools.execution.approval import Reject as Reject
from stage3_tools.execution.approval import Verdict as Verdict
from stage3_tools.execution.cache import ResultCache as ResultCache
from stage3_tools.execution.settings import ExecutionSettings as ExecutionSettings
from stage3_tools.execution.several_calls import execute_tool_call as execute_tool_call
from stage3_tools.execution.several_calls import execute_tool_calls as execute_tool_calls
from stage3_tools.loop import run_to_end as run_to_end
from stage3_tools.loop import run_tool_loop as run_tool_loop
from stage3_tools.loop import run_turns as run_turns
from stage3_tools.options import Listener as Listener
from stage3_tools.options import RequestInfo as RequestInfo
from stage3_tools.options import RunLimits as RunLimits
from stage3_tools.options import ToolLoopDeps as ToolLoopDeps
from stage3_tools.options import ToolLoopOptions as ToolLoopOptions
from stage3_tools.registry import Registrable as Registrable
from stage3_tools.registry import ToolRegistry as ToolRegistry
from stage3_tools.result import LoopStats as LoopStats
from stage3_tools.result import LoopStatus as LoopStatus
from stage3_tools.result import ToolCallRecord as ToolCallRecord
from stage3_tools.result import ToolLoopResult as ToolLoopResult
from stage3_tools.result import ToolOutput as ToolOutput
from stage3_tools.result import ToolResult as ToolResult
from stage3_tools.result import plain_data as plain_data
from stage3_tools.resume.open_calls import last_question as last_question
from stage3_tools.run.state import RunState as RunState
from stage3_tools.run.state import Turn as Turn
from stage3_tools.run.stop_policy import Ending as Ending
from stage3_tools.run.stop_policy import StopPolicy as StopPolicy
from stage3_tools.runner.params import RunnerParams as RunnerParams
from stage3_tools.runner.runner import ToolRunner as ToolRunner
from stage3_tools.tool import FunctionTool as FunctionTool
from stage3_tools.tool import Tool as Tool
from stage3_tools.tool import tool as tool
from stage3_tools.turn import EMPTY_REPLY_FEEDBACK as EMPTY_REPLY_FEEDBACK
from stage3_tools.turn import run_turn as run_turn
from stage3_tools.variables.long_values import READ_VARIABLE as READ_VARIABLE
from stage3_tools.variables.long_values import Values as Values
from stage3_tools.variables.long_values import json_value as json_value

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
