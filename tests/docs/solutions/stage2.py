"""One way to solve the exercises of stage 2."""

from dataclasses import replace as _replace

from stage2_output import CompiledSchema as _CompiledSchema
from stage2_output import ExtractionError as _ExtractionError
from stage2_output import OutputController as _OutputController
from stage2_output import extract_json as _extract_json
from stage2_output import feedback as _feedback


def all_that_fit(text, schema):
    compiled, found = _CompiledSchema(schema), []
    while True:
        try:
            each = _extract_json(text)
        except _ExtractionError:
            break
        found.append(each)
        text = text[: each.start] + " " * (each.end - each.start) + text[each.end :]
    in_order = sorted(found, key=lambda each: each.start)
    return [each.value for each in in_order if not compiled.issues(each.value)]


def one_or_many(text, schema, most=3):
    many = {"type": "array", "items": schema, "minItems": 1, "maxItems": most}
    result = _OutputController().parse_and_validate(text, {"anyOf": [schema, many]})
    if not result.success or isinstance(result.data, list):
        return result
    return _replace(result, data=[result.data])


async def ask_with_hints(chat, question, schema, hints):
    controller = _OutputController()
    talk = [{"role": "user", "content": question}]
    for attempt, hint in enumerate([*hints, None], 1):
        reply = await chat(talk)
        cut = reply.finish_reason == "length"
        result = controller.parse_and_validate(reply.content, schema, truncated=cut)
        result = _replace(result, attempts=attempt)
        if result.success or hint is None:
            break
        talk = [
            *talk,
            {"role": "assistant", "content": reply.content},
            {"role": "user", "content": f"{_feedback(result)}\n{hint}"},
        ]
    return result
