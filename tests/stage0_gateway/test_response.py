from stage0_gateway import ChatResponse, Message, TextPart, ThinkingPart, ToolCall, Usage


def test_a_response_has_the_text_the_calls_and_the_thinking_of_its_message():
    call = ToolCall("1", "f")
    response = ChatResponse(Message.assistant((ThinkingPart("hm"), TextPart("yes")), [call]))
    assert (response.content, response.tool_calls, response.thinking) == ("yes", (call,), "hm")


def test_the_raw_body_is_neither_compared_nor_in_the_repr():
    message = Message.assistant("yes")
    assert ChatResponse(message, raw={"a": 1}) == ChatResponse(message, raw={"b": 2})
    assert "raw=" not in repr(ChatResponse(message, raw={"a": 1}))


def test_fields_that_a_server_does_not_report_are_unknown():
    response = ChatResponse(Message.assistant(""))
    assert (response.finish_reason, response.usage, response.cost) == ("unknown", None, None)


def test_usages_are_added_number_by_number():
    assert Usage(1, 2, 3, 4, 5) + Usage(10, 20, 30, 40, 50) == Usage(11, 22, 33, 44, 55)


def test_a_number_of_only_one_usage_is_kept_and_a_number_of_neither_stays_unknown():
    assert Usage(input_tokens=5) + Usage(output_tokens=2) == Usage(5, 2, None, None, None)
    assert Usage(cache_write_tokens=5) + Usage() == Usage(cache_write_tokens=5)


def test_zero_is_a_known_number():
    assert Usage(0) + Usage(3) == Usage(3)
    assert (Usage(0) + Usage()).input_tokens == 0
