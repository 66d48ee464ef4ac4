"""The options of a run as keywords, for type checkers and editors.

They repeat `ToolLoopOptions`, and a test compares them. Used by the loop and by `ask`.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any, TypedDict

from stage0_gateway import Reasoning
from stage3_tools.abort import Abort
from stage3_tools.context import ParentRun
from stage3_tools.dialects.protocol import Dialect
from stage3_tools.execution.approval import Approver
from stage3_tools.execution.cache import ResultCache
from stage3_tools.execution.error_kinds import Classify
from stage3_tools.options import BeforeSend, Listener, RunLimits


class AskKeywords(TypedDict, total=False):
    """The options of `ToolLoopOptions` as keywords, except `model`: `ask` has its own."""

    max_tool_rounds: int | None
    max_parse_retries: int
    temperature: float | None
    max_tokens: int | None
    stop: str | Sequence[str]
    reasoning: Reasoning | None
    provider_options: Mapping[str, Any] | None
    tool_choice: str | None
    dialect: Dialect | None
    output_type: Any
    max_parallel_tools: int
    approve: Approver | None
    approve_all: bool
    approve_result: Approver | None
    abort: Abort | asyncio.Event | None
    limits: RunLimits | None
    cache: ResultCache | None
    classify: Classify | None
    variables_over: int | None
    before_send: BeforeSend | None
    on_event: Listener | Sequence[Listener] | None
    trace: Listener | None
    parent: ParentRun


class LoopKeywords(AskKeywords, total=False):
    """The options of `ToolLoopOptions` as keywords, with the model."""

    model: str | None
