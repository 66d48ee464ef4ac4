"""Requests that other clients send get the expected answers of the rule-based model.

`client_requests.jsonl` contains requests as these clients sent them; `client` names the version.
"""

import json
from pathlib import Path
from typing import Any

from stage0_gateway.offline.service import answer_http
from stage0_gateway.server.answer import Answer
from stage0_gateway.server.routing import format_of
from tests.stage0_gateway.replies import WIRE_BY_NAME, read_stream
from tests.tables import for_each

ROWS = [
    json.loads(line)
    for line in Path(__file__).with_name("client_requests.jsonl").read_text().splitlines()
]


def read(path: str, answer: Answer) -> dict[str, Any]:
    """Return the status, and the reply or the text of the error."""
    form = format_of(path)
    assert form is not None
    if answer.status != 200:
        error = json.loads(answer.body)["error"]["message"]
        assert json.loads(answer.body) == form.encode_error(answer.status, error)
        return {"status": answer.status, "error": error}
    wire = WIRE_BY_NAME[form.NAME]
    is_stream = answer.is_stream
    reply = read_stream(wire, answer.chunks) if is_stream else wire.decode(json.loads(answer.body))
    calls = [[call.name, json.loads(call.arguments)] for call in reply.tool_calls]
    return {"status": 200, "text": reply.content, "calls": calls}


@for_each("row", ROWS)
def test_a_request_of_another_client_is_answered_or_refused(row: dict[str, Any]) -> None:
    answer = answer_http("POST", row["path"], json.dumps(row["body"]).encode())
    assert read(row["path"], answer) == row["answer"]
