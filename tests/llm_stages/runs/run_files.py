"""Read, check and change run files."""

import json
from hashlib import blake2b
from importlib.resources import files
from zlib import crc32

from jsonschema_rs import Draft202012Validator

from llm_stages import Gateway, RunFile, ScriptedModel, Tool, ToolContext, ask
from tests.stage3_tools.conversation import answer, call

_DEFINITIONS = json.loads((files("llm_stages") / "runs" / "run.schema.json").read_text())["$defs"]
_LINES = {
    kind.removesuffix("_line"): Draft202012Validator({**schema, "$defs": _DEFINITIONS})
    for kind, schema in _DEFINITIONS.items()
    if kind.endswith("_line")
}
NUMBER = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]}
"""The parameters of a tool, or an output type: an object with the integer `n`."""


# ---- requests


def sent(conversation):
    """Return the messages of each request that the scripted model received."""
    return [
        [each.to_dict() for each in request.messages] for request in conversation.model.requests
    ]


def requests_of(run):
    """Return the messages of each request of a run."""
    return [[each.to_dict() for each in turn.request.messages] for turn in run.turns]


# ---- files


def lines_of(path):
    """Return the lines of a file as values."""
    return [json.loads(line) for line in path.read_text().splitlines()]


def schema_problems(path):
    """Return the lines of a file that the JSON Schema rejects, with the reasons."""
    return [
        f"{number} ({line['type']}): {error.message}"
        for number, line in enumerate(lines_of(path), 1)
        for error in _LINES[line["type"]].iter_errors(line)
    ]


def forge(path, lines):
    """Write lines with new hashes and checksums, as an attacker can."""
    names, checks, content, written = {}, {}, b"", b""

    def renamed(value):
        if isinstance(value, list):
            return [renamed(each) for each in value]
        if isinstance(value, dict):
            return {name: renamed(each) for name, each in value.items()}
        return names.get(value, value) if isinstance(value, str) else value

    for line in lines:
        if (kind := line["type"]) in ("message", "tools"):
            body = json.dumps(line[kind], separators=(",", ":"))
            names[line["hash"]] = hash = blake2b(body.encode(), digest_size=8).hexdigest()
            content += f'{{"type":"{kind}","hash":"{hash}","{kind}":{body}}}\n'.encode()
            continue
        fields = renamed({name: value for name, value in line.items() if name != "check"})
        text = json.dumps(fields, separators=(",", ":")).encode()
        before = 0 if kind == "run" else checks[line["run"]]
        checks[line["run"]] = check = crc32(content + text, before)
        written += content + text[:-1] + b',"check":%d}\n' % check
        content = b""
    path.write_bytes(written)


async def write_sub_run(path):
    """Write a run whose tool `research` makes a run of its own."""
    inner = Gateway("openai:m", transport=ScriptedModel([answer("Cats sleep.")]))
    outer = Gateway("openai:m", transport=ScriptedModel([call("research"), answer("Fine.")]))

    async def research(arguments, context: ToolContext):
        return (await ask("What do cats do?", model=inner, **context.sub_run)).reply

    tools = [Tool("research", execute=research, effect="read")]
    await ask("Ask.", model=outer, tools=tools, trace=RunFile(path))
