"""Stage 3: does the model want a tool, which, and what happens then?

    question ─▶ run_tool_loop ─▶ run_turn ─▶ model ─▶ decision ─┬─▶ tool ─▶ result ─▶ run_turn again
                                                                └─▶ reply
Knows nothing of HTTP.

Reading order:
    errors         failures for the model, failures for the developer
    kinds          from an exception to a kind of failure
    result         output for the model, details for people
    context        what a tool may know of its call
    callables      what can be known of a function
    docstring      what a docstring says
    signature      from a function to a JSON Schema
    threads        run a plain function without stopping the event loop
    deadline       a time limit that holds even if cancellation is ignored
    tool           Tool: name, description, schema, function
    decorator      @tool: a Tool out of a function
    arguments      from a model's text to arguments that fit
    registry       ToolRegistry: tools by name
    registry_view  some tools of a registry, or one more
    attempts       again, where a second time does no harm
    execution      how calls are executed
    outcome        completed, failed, cut off
    approval       somebody is asked first
    cache          what read tools said before
    executor       one call, one honest result
    batch          several calls: together, in order
    events         what the loop tells whoever watches
    repeats        the same call again and again
    placement      where a decision is in a reply
    decision       the decision a model writes as JSON text
    dialect        the seam: describe, render, read
    forgery        a line that imitates ours
    prompt         PromptDialect: tools by text
    native         NativeDialect: the provider's own tool calls
    abort          stop a run, from wherever
    limits         time, tokens and money of a run
    options        what a run works with, and how it is to go
    long_values    long results as variables
    run            a run in progress, and its counts
    answers        the calls of a message, and each result written down
    asking         one request: windowed, rendered, sent
    turn           run_turn: one model call and the tools it asks for
    stopping       stop a run from outside
    ending         when a run is over
    loop_result    what became of a question
    resume         calls that an earlier run left open
    loop           run_turns, the one loop; run_tool_loop: one question, one result
    runner_params  what a runner is to do, and edits of it
    stepping       a run that stops whenever the model has replied
    runner         ToolRunner: step by step
    flow           a chain of calls as one text
    chain_options  how a chain is to go
    chain          execute_tool_chain: from a reply with calls on
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
from stage3_tools.execution.one_call import execute_tool_call
from stage3_tools.execution.settings import ExecutionSettings
from stage3_tools.execution.several_calls import execute_tool_calls
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
