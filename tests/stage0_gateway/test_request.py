from stage0_gateway import ChatRequest, Message, ToolSpec


def test_options_that_are_not_set_are_left_open():
    request = ChatRequest("m", (Message.user("hi"),))
    assert (request.tools, request.tool_choice, request.temperature, request.max_tokens) == (
        (),
        None,
        None,
        None,
    )
    assert (request.response_schema, request.stop, request.provider_options) == (None, (), None)


def test_a_tool_without_parameters_has_an_empty_object_schema():
    assert ToolSpec("f", "does it").parameters == {"type": "object", "properties": {}}
