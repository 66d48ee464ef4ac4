"""Stage 3: does the model want a tool, which, and what happens then?

    question ─▶ run_tool_loop ─▶ run_turn ─▶ model ─▶ decision ─┬─▶ tool ─▶ result ─▶ run_turn again
                                                                └─▶ reply
Knows nothing of HTTP.

Reading order:
    errors      failures for the model, failures for the developer
    result      output for the model, details for people
    signature   from a function to a JSON Schema
    threads     run a plain function without stopping the event loop
    tool        Tool and @tool
    arguments   from a model's text to arguments that fit
    registry    ToolRegistry: tools by name
    events      what the loop tells whoever watches
    executor    one call, one honest result
    limits      what keeps a run from going on for ever
    decision    the decision a model writes as JSON text
    dialect     the seam: describe, render, read
    prompt      PromptDialect: tools by text
    run         what a run works with, and its counts
    turn        run_turn: one model call and the tools it asks for
    loop        run_tool_loop: turn after turn, until there is a reply
"""

from stage3_tools.decision import TOOL_DECISION_SCHEMA, ToolDecision, parse_tool_decision
from stage3_tools.dialect import Calls, Dialect, FinalReply, Reading, RequestParts, Unusable
from stage3_tools.errors import RegistrationError, ToolError, ToolErrorKind
from stage3_tools.events import (
    DecisionMade,
    FeedbackGiven,
    LoopEnded,
    LoopEvent,
    ToolAnswered,
    ToolCalled,
    TurnEnded,
    TurnStarted,
)
from stage3_tools.executor import execute_tool_call
from stage3_tools.loop import LoopStats, LoopStatus, ToolLoopResult, run_tool_loop
from stage3_tools.prompt import PromptDialect, build_tool_system_prompt
from stage3_tools.registry import ToolRegistry
from stage3_tools.result import ToolCallRecord, ToolOutput, ToolResult
from stage3_tools.run import Run, ToolLoopDeps, ToolLoopOptions
from stage3_tools.tool import Effect, Tool, tool
from stage3_tools.turn import Turn, run_turn

__all__ = [
    "Calls",
    "DecisionMade",
    "Dialect",
    "Effect",
    "FeedbackGiven",
    "FinalReply",
    "LoopEnded",
    "LoopEvent",
    "LoopStats",
    "LoopStatus",
    "PromptDialect",
    "Reading",
    "RegistrationError",
    "RequestParts",
    "Run",
    "TOOL_DECISION_SCHEMA",
    "Tool",
    "ToolAnswered",
    "ToolCallRecord",
    "ToolCalled",
    "ToolDecision",
    "ToolError",
    "ToolErrorKind",
    "ToolLoopDeps",
    "ToolLoopOptions",
    "ToolLoopResult",
    "ToolOutput",
    "ToolRegistry",
    "ToolResult",
    "Turn",
    "TurnEnded",
    "TurnStarted",
    "Unusable",
    "build_tool_system_prompt",
    "execute_tool_call",
    "parse_tool_decision",
    "run_tool_loop",
    "run_turn",
    "tool",
]
