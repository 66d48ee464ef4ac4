from stage0_gateway import ChatResponse, Message, TextPart, ThinkingPart, ToolCall, Usage


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


def test_usages_add_up_number_by_number():
    assert Usage(1, 2, 3, 4, 5) + Usage(10, 20, 30, 40, 50) == Usage(11, 22, 33, 44, 55)


def test_what_only_one_report_knows_is_kept_and_what_none_knows_stays_unknown():
    assert Usage(input_tokens=5) + Usage(output_tokens=2) == Usage(5, 2, None, None, None)
    assert Usage(cache_write_tokens=5) + Usage() == Usage(cache_write_tokens=5)


def test_zero_is_a_number_and_not_unknown():
    assert Usage(0) + Usage(3) == Usage(3)
    assert (Usage(0) + Usage()).input_tokens == 0
