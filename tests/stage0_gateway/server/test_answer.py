import json

from stage0_gateway.messages import Message
from stage0_gateway.response import ChatResponse
from stage0_gateway.server import openai
from stage0_gateway.server.answer import EVENT_STREAM, Answer, json_answer, reply_answer
from tests.stage0_gateway.replies import events_of

REPLY = ChatResponse(Message.assistant("Tea \ud83d for 两位"), model="m")


def test_a_json_value_is_one_chunk_of_ascii():
    answer = json_answer(404, {"text": "\ud83d"})
    assert answer == Answer(404, (b'{"text": "\\ud83d"}',))
    assert (answer.is_stream, answer.body) == (False, b'{"text": "\\ud83d"}')


def test_a_whole_reply_is_encoded_in_the_wire_format():
    answer = reply_answer(openai, REPLY, stream=False)
    assert (answer.status, json.loads(answer.body)) == (200, openai.encode_reply(REPLY))


def test_a_streamed_reply_has_one_chunk_per_event():
    answer = reply_answer(openai, REPLY, stream=True, piece=3)
    assert (answer.status, answer.content_type, answer.is_stream) == (200, EVENT_STREAM, True)
    events = [events_of([chunk]) for chunk in answer.chunks]
    assert [len(each) for each in events] == [1] * len(answer.chunks)
    deltas = [json.loads(data)["choices"] for (data,) in events[:-1]]
    texts = [choice["delta"].get("content") or "" for choices in deltas for choice in choices]
    assert [piece for piece in texts if piece] == ["Tea", " \ud83d ", "for", " 两位"]
