"""Write replies in words: the results of tools, and answers to questions without a tool.

A reply contains only information from the request, which makes a context window visible. The model
answers "What is my name?" only while the message with the name is sent.
"""

import re
from collections.abc import Sequence
from typing import Any

from stage0_gateway.json_fields import parse_json
from stage0_gateway.messages import Message
from stage0_gateway.offline.conversation import MAX_QUESTION, Conversation, Outcome, write_json

IDENTITY = (
    "I am the teacher: a set of rules that stands in for a language model, and not one myself. "
    "I match words; I understand nothing."
)

_RULES = "I am a set of rules, not a language model"
_WHO = re.compile(
    r"(?i)\b(?:who|what) are you\b|\bare you (?:an? )?(?:human|person|ai|bot|llm|language model)\b"
)
_GREETING = re.compile(
    r"(?i)\W*(?:hello|hi|hey|good (?:morning|afternoon|evening))(?: (?:there|teacher))?\W*"
)
_ABILITIES = re.compile(
    r"(?i)\bwhat (?:else )?can you do\b|\bwhat (?:tools|functions) (?:do you have|can you use)\b"
)
_MY = re.compile(r"(?i)\bwhat(?: is|['’]s) my ([\w ]{1,40})")
_SENTENCE_END = re.compile(r"(?<=[.?!])\s")
_MAX_SHOWN = 300
_MAX_DEPTH = 3


def describe_outcomes(conversation: Conversation) -> str:
    """Describe the result of each call, and the feedback on a rejected call."""
    outcomes = conversation.outcomes
    sentences = [_sentence(outcome) for outcome in outcomes if outcome.result is not None]
    rejected = [outcome for outcome in outcomes if outcome.result is None]
    if rejected and conversation.feedback is not None:
        sentences.append(f"I gave up on {_subject(rejected[-1])}: {_ended(conversation.feedback)}")
    return " ".join(sentences)


def ask_for(tool: str, missing: Sequence[str]) -> str:
    """Ask for the required arguments that the question does not contain."""
    names = " and which ".join(name.replace("_", " ") for name in missing)
    return f"Which {_shorten(names)} do you mean? I need it to call {tool}."


def answer_in_words(conversation: Conversation) -> str:
    """Answer a question for which no tool fits."""
    question = conversation.question
    system = " ".join(message.text for message in conversation.earlier if message.role == "system")
    if _WHO.search(question):
        return IDENTITY
    if _ABILITIES.search(question):
        return _abilities(conversation)
    if _GREETING.fullmatch(question):
        return f'Hello! {_RULES}. Ask "What can you do?" to see my tools.'
    if "summarize" in system.lower():
        return _summary(question)
    if found := _MY.search(question):
        return _fact(found[1].strip(), conversation.earlier)
    if conversation.tools:
        names = ", ".join(tool.name for tool in conversation.tools)
        return f"{_RULES}, and none of my tools ({names}) fits this question."
    count = len(conversation.earlier) + 1
    visible = f"I see {count} message{'' if count == 1 else 's'}"
    return f'You said: "{_shorten(question)}" {visible}. {_RULES}, so I only repeat it.'


def plain_text(value: Any, depth: int = 0) -> str:
    """Write a JSON value as words: {"temp": 22, "rain": false} is "temp 22, rain false"."""
    if depth > _MAX_DEPTH:
        return "…"
    match value:
        case dict():
            fields = ((name.replace("_", " "), field) for name, field in value.items())
            return ", ".join(f"{name} {plain_text(field, depth + 1)}" for name, field in fields)
        case list():
            return ", ".join(plain_text(item, depth + 1) for item in value)
        case str():
            return value
    return write_json(value)


def result_text(outcome: Outcome) -> str:
    """Write a tool result as words, without the fields that repeat an argument."""
    result = outcome.result or ""
    value = parse_json(result)
    if isinstance(value, dict):
        known = [argument for argument in outcome.arguments.values() if isinstance(argument, str)]
        value = {name: field for name, field in value.items() if field not in known}
    return result if value is None else plain_text(value)


def _sentence(outcome: Outcome) -> str:
    result = outcome.result or ""
    if outcome.is_error:
        return f"{_subject(outcome, 'failed')}: {_ended(result)}"
    return f"{_subject(outcome, 'says')}: {_ended(result_text(outcome) or 'nothing')}"


def _subject(outcome: Outcome, verb: str = "") -> str:
    about = plain_text(list(outcome.arguments.values()))
    return " ".join(filter(None, (outcome.tool, verb, f"for {_shorten(about)}" if about else "")))


def _abilities(conversation: Conversation) -> str:
    """List the tools, each with the first sentence of its description."""
    if not conversation.tools:
        return f"{_RULES}, and I have no tools here, so I only repeat what you say."
    tools = []
    for tool in conversation.tools:
        first = _SENTENCE_END.split(tool.description.strip())[0]
        tools.append(f"{tool.name} ({first.rstrip('.')})" if first else tool.name)
    rest = f"{_RULES}, so ask with words of these descriptions"
    return f"I can call these tools: {_shorten(', '.join(tools))}. {rest}."


def _fact(what: str, earlier: Sequence[Message]) -> str:
    pattern = re.compile(rf"(?i)\bmy {re.escape(what)} is ([^.,;?!\n\"]{{1,100}})")
    for message in reversed(earlier):
        if found := pattern.search(message.text[:MAX_QUESTION]):
            return f"Your {what} is {found[1]}: you said so in this conversation."
    return f"I do not know your {what}: no message that I was sent says it."


def _summary(question: str) -> str:
    """Summarize lines of JSON messages: the first sentence of each user message."""
    sentences = []
    for line in question.splitlines():
        message = parse_json(line)
        if line.startswith("Summary: "):
            sentences.append(line.removeprefix("Summary: "))
        elif isinstance(message, dict) and message.get("role") == "user":
            sentences.append(_SENTENCE_END.split(str(message.get("content")))[0])
    return "Summary: " + " ".join(sentences)


def _shorten(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MAX_SHOWN else f"{text[:_MAX_SHOWN]} …"


def _ended(text: str) -> str:
    text = _shorten(text)
    return text if text.endswith((".", "!", "?", "…")) else f"{text}."
