"""The rules of the offline model: the next tool call that a question needs, or a reply.

Equal requests get equal replies. A question ends after `MAX_CALLS` calls at the latest, and no call
is repeated with the same arguments. This module knows no HTTP; `service.py` uses it.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

from stage0_gateway.messages import Message
from stage0_gateway.offline.arguments import fill, fill_reply, names_in, trim
from stage0_gateway.offline.conversation import MAX_QUESTION, Conversation, read, write_json
from stage0_gateway.offline.replies import answer_in_words, ask_for, describe_outcomes, result_text
from stage0_gateway.offline.tool_selection import MIN_SCORE, best_tool, stems
from stage0_gateway.parts import ToolCall
from stage0_gateway.request import ChatRequest, ToolSpec
from stage0_gateway.server.format import ANY_OBJECT

MAX_CALLS = 8
"""The maximum number of tool calls for one question."""

_MAX_CLAUSES = 12
_CLAUSE_END = re.compile(r"(?<=[,;.?!])\s+|(?<=[，。；？])|\s(?=(?:and|then)\b)")
_REFERENCE = re.compile(r"(?i)\b(?:there|that|this|them|its|result|(?<!is )it)\b")


def answer(request: ChatRequest) -> Message:
    """Return the reply to a request: a tool call, a decision, JSON for a schema, or words."""
    conversation = read(request)
    outcomes = conversation.outcomes
    results: list[str] = []
    questions: list[str] = []
    for tool, clause in _clauses(conversation):
        arguments, missing = _fill(tool, clause, conversation.question, results)
        call = (tool.name, arguments)
        made = [each for each in outcomes if (each.tool, each.arguments) == call]
        if made:
            successes = (each for each in made if each.result and not each.is_error)
            results += [result_text(each)[:MAX_QUESTION] for each in successes]
        elif missing:
            questions.append(ask_for(tool.name, missing))
        elif len(outcomes) < MAX_CALLS:
            return _call_message(conversation, tool.name, arguments)
    schema = conversation.schema
    if schema is not None and schema != ANY_OBJECT:
        found = [(each.tool, each.result) for each in outcomes if not each.is_error]
        return _reply(conversation, fill_reply(schema, conversation.question, found))
    sentences = [describe_outcomes(conversation), *questions[:1]]
    text = " ".join(filter(None, sentences)) or answer_in_words(conversation)
    return _reply(conversation, text if schema is None else {"reply": text})


def _call_message(conversation: Conversation, tool: str, arguments: Mapping[str, Any]) -> Message:
    """Write a tool call in the dialect of the request."""
    if conversation.is_prompt_dialect:
        return Message.assistant(write_json({"tool": tool, "arguments": arguments}))
    return Message.assistant("", [ToolCall(conversation.next_call_id, tool, write_json(arguments))])


def _reply(conversation: Conversation, reply: Any) -> Message:
    """Write a reply, a text or a JSON value, in the dialect of the request."""
    if conversation.is_prompt_dialect:
        reply = {"tool": None, "reply": reply}
    return Message.assistant(reply if isinstance(reply, str) else write_json(reply))


def _clauses(conversation: Conversation) -> list[tuple[ToolSpec, str]]:
    """Split the question into clauses, each with its tool.

    A clause that begins with a name ("and in Paris") repeats the tool of the clause before it.
    Other clauses without a tool are added to that clause.
    """
    question, tools = conversation.question, conversation.tools
    found: list[tuple[ToolSpec, str]] = []
    for clause in _CLAUSE_END.split(question, maxsplit=_MAX_CLAUSES - 1):
        tool = best_tool(clause, tools)
        if tool is not None:
            found.append((tool, clause))
        elif found and trim(clause).startswith(tuple(names_in(clause))):
            found.append((found[-1][0], clause))
        elif found:
            found[-1] = (found[-1][0], f"{found[-1][1]} {clause}")
    if not found:
        tool = best_tool(question, tools, minimum=0.0 if conversation.must_call else MIN_SCORE)
        found = [(tool, question)] if tool is not None else []
    return found


def _fill(
    tool: ToolSpec, clause: str, question: str, results: Sequence[str]
) -> tuple[dict[str, Any], list[str]]:
    """Fill the arguments from a clause and its results, or from the whole question."""
    topic = stems(tool.name)
    referred = "\n".join(results) if _REFERENCE.search(clause) else ""
    arguments, missing = fill(tool.parameters, clause, topic, referred)
    if missing:
        return fill(tool.parameters, question, topic, referred)
    return arguments, missing
