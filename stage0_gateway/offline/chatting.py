"""What the teacher says when there is nothing to call: who it is, what was said earlier, a summary.

It answers only from the messages it was sent, and says so when they do not hold the answer; that is what
makes a context window visible. Knows nothing of tools but their names. Used by `teacher.py`.
"""

import re
from collections.abc import Sequence

from stage0_gateway.messages import Message
from stage0_gateway.offline.outcomes import is_host_note, read_json
from stage0_gateway.offline.reading import SCANNED, Reading
from stage0_gateway.offline.telling import shorten

IDENTITY = (
    "I am the teacher: a set of rules that stands in for a language model, and not one myself. "
    "I match words; I understand nothing."
)

_WHO = re.compile(
    r"(?i)\b(?:who|what) (?:exactly )?are you(?=[\s?!.,]*(?:$|\?|and\b|exactly|really))"
    r"|\bare you (?:an? |really )*(?:\w+ )?(?:language model|llm|ai|bot|human|robot|person|chatgpt|real)\b"
    r"|\bwhat (?:language )?model (?:are you|is this)\b|你是谁|你是什么"
)
_MY = re.compile(
    r"(?i)\b(?:what(?:['’]s| is| was)|do you (?:know|remember)|tell me) my ([\w ]{1,40}?)\s*(?:[?.!]|$)"
)
_FIRST = re.compile(
    r"(?i)\bwhat (?:did|have) i (?:say|said|ask|asked|tell|told)(?: you)?(?: \w+)? (first|last|before|earlier)"
    r"|\bwhat was my (first|last) (?:message|question)|\bwhat did i (first) (?:say|ask|tell)"
)
_SUMMARY = re.compile(r"(?i)\bsummar(?:y|i[sz]e|ies)|总结|摘要")
_HELLO = re.compile(r"(?i)^\W*(?:hello|hi|hey|good (?:morning|evening|day)|你好)\b")
_SENTENCE = re.compile(r"[^.!?。！？\n]{1,200}[.!?。！？]?")


def asks_who(question: str) -> bool:
    """Whether the person wants to know what is answering."""
    return _WHO.search(question) is not None


def chat(reading: Reading) -> str:
    """A reply in words to a question that no tool answers."""
    if asks_who(reading.question):
        return IDENTITY
    earlier = [one for one in reading.messages[: max(reading.asked_at, 0)] if not is_host_note(one)]
    reply = _remembered(reading.question, earlier) or _summary(reading, earlier)
    offered = reading.tools and reading.choice != "none"
    return reply or (_no_tool(reading) if offered else _echo(reading))


def ask_for(tool: str, missing: Sequence[str]) -> str:
    """Ask for what a tool needs and the question does not say."""
    names = " and which ".join(name.replace("_", " ") for name in missing)
    return f"Which {shorten(names, 200)} do you mean? I need it to call {tool}."


def _no_tool(reading: Reading) -> str:
    names = ", ".join(tool.name for tool in reading.tools[:10])
    more = ", …" if len(reading.tools) > 10 else ""
    hello = "Hello! " if _HELLO.search(reading.question) else ""
    rules = "I am a set of rules, not a language model"
    return f"{hello}{rules}, and none of my tools ({names}{more}) fits this question."


def _echo(reading: Reading) -> str:
    count = len(reading.messages)
    seen = f"I see {count} message{'' if count == 1 else 's'}"
    if not reading.question:
        return f"You asked nothing. {seen}. I am a set of rules, not a language model."
    hello = "Hello! " if _HELLO.search(reading.question) else ""
    said = shorten(reading.question, 200)
    rules = "I am a set of rules, not a language model, so I only repeat it."
    stop = "" if said.endswith((".", "!", "?", "…", "。", "？")) else "."
    return f'{hello}You said: "{said}"{stop} {seen}. {rules}'


def _remembered(question: str, earlier: Sequence[Message]) -> str | None:
    if asked := _FIRST.search(question):
        said = [one.text for one in earlier if one.role == "user"]
        if not said:
            return "I see no earlier message of yours in what I was sent."
        which = next(group for group in asked.groups() if group).lower()
        which, text = ("first", said[0]) if which == "first" else ("last", said[-1])
        return f'The {which} thing you said that I can see is: "{shorten(text, 200)}"'
    asked = _MY.search(question)
    return _fact(asked[1].strip(), earlier) if asked else None


def _fact(what: str, earlier: Sequence[Message]) -> str:
    own = rf"\bmy {re.escape(what)}(?:'s| is| was|:)\s+([^.!?,;\n”\"]{{1,100}})"
    name = r"|\b(?i:i am called|call me)\s+([^.!?,;\n”\"]{1,60})|\bI(?:'m| am) ([A-Z]\w{1,40})"
    pattern = re.compile(f"(?i:{own}){name}" if what.lower() == "name" else f"(?i:{own})")
    for message in reversed(earlier):
        if found := pattern.search(message.text[:SCANNED]):
            value = next(group for group in found.groups() if group)
            return f"Your {what} is {value.strip()}: you said so in this conversation."
    return f"I do not know your {what}: no message that I was sent says it."


def _summary(reading: Reading, earlier: Sequence[Message]) -> str | None:
    instructions = [one.text[:SCANNED] for one in earlier if one.role == "system"]
    system = any(_SUMMARY.search(text) for text in instructions if not text.startswith("Summary of"))
    if not (system or _SUMMARY.search(reading.question[:1000])):
        return None
    talk = [one for one in earlier if one.role in ("user", "assistant") and one.text]
    said = [f"{one.role}: {_first_sentence(one.text)}" for one in talk]
    if record := [told for line in reading.question.splitlines() if (told := _recorded(line))]:
        return "Summary: " + " ".join(record)
    lines = [_first_sentence(line) for line in reading.question.splitlines() if line.strip()]
    if len(lines) > 1:  # the conversation stands in the request itself
        said += lines if system else lines[1:]
    elif system and not _SUMMARY.search(reading.question[:1000]):
        said += [f"user: {line}" for line in lines]
    return "Summary: " + " ".join(said[:100]) if said else "I see no earlier message to summarize."


def _recorded(line: str) -> str:
    """What a line says of a conversation: an earlier summary, or what the person said, as a message in JSON."""
    if line.startswith("Summary: "):
        return shorten(line.removeprefix("Summary: "), 1000)
    message = read_json(line) if line.startswith("{") else None
    if not isinstance(message, dict) or message.get("role") != "user":
        return ""
    return _first_sentence(str(message.get("content")))


def _first_sentence(text: str) -> str:
    found = _SENTENCE.search(text[:SCANNED].strip())
    return found[0].strip() if found else ""
