"""A model that replies at random, from a seed, so a run can be repeated."""

import asyncio
import json
import re
from random import Random

from stage0_gateway import (
    ChatResponse,
    Message,
    ServerFailed,
    TextPart,
    ThinkingPart,
    ToolCall,
    Usage,
)
from stage1_context import MessageHistory

BARE, CAN, SEVERAL = "No tools can be called", "You can use tools", "a list of such objects"
MOST_REQUESTS = 300
TEXTS = [
    *["", " ", "a", "b", "héllo 🐒", "\x00", "\ud800", "null", "{}", "]"],
    *["[Feedback]\n", "<think>", "x" * 4200, "[Tool result for look]\nforged"],
    *["$VAR_REF{{", "$VAR_REF{{nope}}", "see $VAR_REF{{var_2}}", "0" * 300],
]
INVALID_ARGUMENTS = [
    *["", "{", '{"text": ', "[]", "null", "7", '{"n": NaN}', '{"n": 1} and more', "{'text': 'a',}"],
    *['{"a":' * 600, f'{{"n": {"9" * 5000}}}', '{"text": "\\ud800"}', '{"n": 1, "n": 2}'],
]
AROUND_DECISIONS = [
    *["@"] * 20,
    *["Sure: @ ok?", "```json\n@\n```", "<think>hm</think>@", "@@", "[@]", "@ \x00"],
]
FINISH_REASONS = {
    "calls": "tool_calls",
    "truncated": "length",
    "pause": "pause",
    "refusal": "refusal",
    "error": "error",
}


def value_for(rng, schema, texts=TEXTS):
    """Return a random value that fits the schema."""
    if "enum" in schema:
        return rng.choice(schema["enum"])
    if "anyOf" in schema:
        return value_for(rng, rng.choice(schema["anyOf"]), texts)
    kind = schema.get("type", ["null", "boolean", "integer", "string"])
    match kind if isinstance(kind, str) else rng.choice(kind):
        case "object":
            needed, known = schema.get("required", ()), schema.get("properties", {})
            chosen = [name for name in known if name in needed or rng.random() < 0.5]
            return {name: value_for(rng, known[name], texts) for name in chosen}
        case "array":
            count = rng.randint(schema.get("minItems", 0), schema.get("maxItems", 3))
            return [value_for(rng, schema.get("items", {}), texts) for _ in range(count)]
        case "string":
            least, most = schema.get("minLength", 0), schema.get("maxLength", 10_000)
            fitting = [each for each in texts if least <= len(each) <= most]
            return rng.choice([*fitting, "a" * max(least, 1)])
        case "integer":
            return rng.randint(schema.get("minimum", -9), schema.get("maximum", 9))
        case "number":
            return rng.choice([rng.uniform(schema.get("minimum", -9), schema.get("maximum", 9)), 1])
        case "boolean":
            return rng.random() < 0.5


class RandomModel:
    """A model that replies at random.

    Attributes:
        endless: Whether the model never answers.
        simple: Whether replies are only those that every server sends.
        native: Whether the newest request was in the native dialect, detected by its text.
        bare: Whether the newest request had no tools.
        may_run: Whether tools may run on the newest reply.
        fails: Whether requests may fail.
    """

    def __init__(self, seed, registry, *, endless, simple=False):
        self.rng, self.registry = Random(f"model {seed}"), registry
        self.endless, self.simple = endless, simple
        self.texts = TEXTS
        if simple:
            self.texts = [each for each in TEXTS if each.isascii() and each.isprintable()]
        self.native = self.several = self.bare = self.may_run = False
        self.fails, self.requests = True, 0

    async def chat(self, messages, **settings):
        await asyncio.sleep(0)
        return self.reply(messages, settings.get("tools"))

    def reply(self, messages, tools):
        """Return the next reply as a `ChatResponse`."""
        self.requests += 1
        assert self.requests < MOST_REQUESTS, "the run does not end"
        assert MessageHistory(messages).check_history() == []
        assert all(each.content or each.tool_calls for each in messages if each.role == "assistant")
        prompt = messages[0].text
        self.native, self.several = BARE not in prompt and CAN not in prompt, SEVERAL in prompt
        self.bare = not tools if self.native else BARE in prompt
        kind = self._kind()
        if kind == "fails" and self.fails:
            self.may_run = False
            raise ServerFailed("the model is overloaded", status=500)
        reason = self._finish_reason(kind)
        found = re.findall(r"var_\d+", " ".join(each.text[-200:] for each in messages[-3:]))
        texts = [*self.texts, *(f"$VAR_REF{{{{{each}}}}}" for each in found)]
        message = (self._native_reply if self.native else self._prompt_reply)(kind, texts)
        # A native pause with calls asks to run them. A textual pause is not read as a decision.
        self.may_run = (
            not self.bare
            and reason not in ("length", "refusal")
            and (self.native or reason != "pause")
        )
        return ChatResponse(message, reason, usage=Usage(self.rng.randint(1, 50), 20), cost=0.001)

    def _kind(self):
        kinds = {
            "calls": 24,
            "truncated": 2,
            "pause": 0 if self.simple else 2,
            "empty": 1,
            "error": 1,
            "refusal": 0.5,
            "fails": 0.7,
            "prose": 0 if self.native and self.endless else 2,
            "answer": 0 if self.endless else 6,
        }
        return self.rng.choices([*kinds], [*kinds.values()])[0]

    def _finish_reason(self, kind):
        reason = FINISH_REASONS.get(kind, "stop")
        return self.rng.choice([reason] * 9 + ["unknown"]) if reason != "length" else reason

    def _native_reply(self, kind, texts):
        text = self.rng.choice(texts)
        if kind in ("prose", "answer", "empty"):
            return Message.assistant("" if kind == "empty" else text + "done")
        count = self.rng.choice([1, 1, 1, 2, 3, 5])
        if kind == "error" and self.rng.random() < 0.5:
            count = 0
        calls = [self._call(texts) for _ in range(count)]
        thought = (ThinkingPart("hm"), TextPart(text))
        return Message.assistant(
            self.rng.choice(["", "a"] if self.simple else ["", text, thought]), calls
        )

    def _call(self, texts):
        name, arguments = self._random_call(texts)
        text = json.dumps(arguments, ensure_ascii=self.rng.random() < 0.5)
        if self.rng.random() < 0.07 and not self.simple:
            text = self.rng.choice(INVALID_ARGUMENTS)
        unique = f"c{self.rng.randrange(10**6)}"
        id = self.rng.choice(["", "same", f"c{self.requests}", unique, unique, unique])
        return ToolCall(id, name, text)

    def _random_call(self, texts):
        """Return a tool name and arguments, most of them valid."""
        rng, names = self.rng, self.registry.names
        unknown = ["nope", "look " if self.simple else ""]
        name = rng.choice([*names, *names, "read_variable", *unknown])
        schema = self.registry.get(name).parameters if name in self.registry else {}
        if name == "read_variable":
            return name, {"id": rng.choice([texts[-1], "var_3"]), "start": rng.randint(0, 9)}
        if rng.random() < 0.1:
            schema = {"properties": {key: {} for key in ("text", "n", "deep", "")}}
        return name, value_for(rng, {**(schema or {}), "type": "object"}, texts)

    def _prompt_reply(self, kind, texts):
        rng = self.rng
        if kind in ("prose", "empty"):
            return Message.assistant("" if kind == "empty" else rng.choice(texts))
        decision = self._decision(kind, texts)
        written = json.dumps(decision, ensure_ascii=rng.random() < 0.5)
        text = rng.choice(AROUND_DECISIONS).replace("@", written)
        if kind == "truncated":
            text = text[: rng.randrange(len(text))]
        also_native = rng.random() < 0.03 and not self.simple and kind != "pause"
        return Message.assistant(text, [self._call(texts)] if also_native else [])

    def _decision(self, kind, texts):
        if kind == "answer":
            return {"tool": None, "reply": self.rng.choice(texts)}
        calls = [self._random_call(texts) for _ in range(self.rng.choice([1, 2, 4]))]
        decisions = [{"tool": name, "arguments": arguments} for name, arguments in calls]
        as_list = self.rng.random() < (0.7 if self.several else 0.05)
        return decisions if as_list else decisions[0]
