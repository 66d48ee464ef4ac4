from stage0_gateway import ChatResponse, Message, TextPart, ThinkingPart, ToolCall


def test_a_response_shows_the_text_the_calls_and_the_thinking_of_its_message():
    call = ToolCall("1", "f")
    response = ChatResponse(Message.assistant((ThinkingPart("hm"), TextPart("yes")), [call]))
    assert (response.content, response.tool_calls, response.thinking) == ("yes", (call,), "hm")


def test_the_raw_body_takes_no_part_in_comparing_and_printing():
    message = Message.assistant("yes")
    assert ChatResponse(message, raw={"a": 1}) == ChatResponse(message, raw={"b": 2})
    assert "raw=" not in repr(ChatResponse(message, raw={"a": 1}))


def test_what_a_server_does_not_say_is_unknown():
    response = ChatResponse(Message.assistant(""))
    assert (response.finish_reason, response.usage, response.cost) == ("unknown", None, None)
