"""Stage 1 as a program that speaks JSON lines: a state machine over messages, without classes.

It needs the standard library only: `python stage1_program.py`.
"""

import inspect
import json
import re
import sys

WORD = re.compile(r"[A-Za-z]+|[0-9]{1,3}|[^\sA-Za-z0-9]")
MARK = "[Correction by the program]"
FEEDBACK = (MARK, "[Feedback]")


class Problem(Exception):
    """An error that is reported with its kind."""

    def __init__(self, kind, text):
        super().__init__(text)
        self.kind = kind


# ---- messages


def messages(parts):
    made = []
    for kind, *texts in parts:
        if kind == "tool_result":
            made.append({"role": "tool", "tool_call_id": texts[0], "content": texts[1]})
        elif kind == "feedback":
            made.append({"role": "user", "content": f"{MARK}\n{texts[0]}"})
        else:
            made.append({"role": kind, "content": texts[0]})
    return made


def calls_in(message):
    return message.get("tool_calls") or []


# ---- count: a word has a token for each six letters, and other characters have one each


def count(message):
    texts = [message.get("content") or ""]
    for call in calls_in(message):
        texts.append(call["function"]["name"])
        texts.append(call["function"]["arguments"])
    return 4 + sum(-(-len(word) // 6) for text in texts for word in WORD.findall(text))


# ---- window: the position from which messages are sent moves back, one question at a time


def is_question(message):
    content = message.get("content") or ""
    return message["role"] == "user" and not content.startswith(FEEDBACK)


def window(messages, max_tokens=0, spare=None):
    tokens = [count(message) for message in messages]
    if spare is not None:
        max_tokens = sum(tokens) + spare
    is_system = [message["role"] == "system" for message in messages]
    used = sum(number for number, fixed in zip(tokens, is_system, strict=True) if fixed)
    start = end = len(messages)
    starts = [at for at, message in enumerate(messages) if is_question(message)]
    others = [at for at, fixed in enumerate(is_system) if not fixed]
    if others and others[0] not in starts:
        starts.insert(0, others[0])
    for at in reversed(starts):
        used += sum(tokens[each] for each in range(at, start) if not is_system[each])
        if used > max_tokens:
            break
        start = at
    if starts and start == end:
        raise Problem("too_small", f"{used} tokens are needed, {max_tokens} are available.")
    fixed = [message for at, message in enumerate(messages) if is_system[at]]
    return fixed + [message for message in messages[start:] if message["role"] != "system"]


# ---- repair: `waiting` holds the calls of the last message with calls, in their order


def repair(messages):
    repaired, later, waiting = [], [], {}

    def close():
        for call_id, result in waiting.items():
            repaired.append(result or interrupted(call_id))
        repaired.extend(later)
        waiting.clear()
        later.clear()

    for message in messages:
        if message["role"] == "tool":
            if waiting.get(message["tool_call_id"], message) is None:
                waiting[message["tool_call_id"]] = message
        elif calls_in(message):
            close()
            repaired.append(message)
            waiting.update({call["id"]: None for call in calls_in(message)})
        else:
            later.append(message)  # behind the results, which may still come
    close()
    return repaired


def interrupted(call_id):
    text = "No result: the program ended before. The action may have been performed."
    return {"role": "tool", "tool_call_id": call_id, "content": text}


# ---- store


def load(path):
    """Return the repaired messages of a file; a damaged line is an error, except the last one."""
    if path is None:
        return []
    found, good = [], 0
    with open(path, "a+b") as file:
        file.seek(0)
        for line in iter(file.readline, b""):
            if not line.endswith(b"\n"):
                break
            good = file.tell()
            try:
                found += [json.loads(line)] if line.strip() else []
            except ValueError as error:
                raise Problem("damaged", f"The line before byte {good}: {error}") from error
        file.truncate(good)
    return repair(found)


def store(path, known, message):
    if path is not None:
        with open(path, "ab", buffering=0) as file:
            file.write(json.dumps(message).encode("ascii") + b"\n")
    known.append(message)


def history(path=None, add=()):
    known = load(path)
    loaded = list(known)
    for message in add:
        store(path, known, message)
    return {"loaded": loaded, "messages": known, "loaded_again": load(path)}


def writers(path, add):
    sides = [load(path), load(path)]
    for number, message in enumerate(add):
        store(path, sides[number % 2], message)
    return {"loaded_again": load(path)}


COMMANDS = {
    "messages": messages,
    "count": count,
    "window": window,
    "repair": repair,
    "history": history,
    "writers": writers,
}


# ---- the protocol


def answer(request):
    command, arguments = COMMANDS.get(request["operation"]), request["input"]
    if command is None or not set(arguments) <= set(inspect.signature(command).parameters):
        text = f"{request['operation']} with {', '.join(arguments)} is unknown."
        return {"error": {"kind": "unsupported", "message": text}}
    try:
        return {"value": command(**arguments)}
    except Problem as error:
        return {"error": {"kind": error.kind, "message": str(error)}}
    except (AttributeError, KeyError, TypeError) as error:
        return {"error": {"kind": "unsupported", "message": f"The input is unknown: {error}"}}


if __name__ == "__main__":
    for text in sys.stdin:
        line = json.loads(text)
        sys.stdout.write(json.dumps({"id": line["id"], **answer(line)}) + "\n")
        sys.stdout.flush()
