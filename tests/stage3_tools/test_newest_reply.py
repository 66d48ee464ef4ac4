from stage0_gateway import Gateway, Message, ScriptedModel
from stage3_tools.newest_reply import NewestReply


def states(reply):
    return reply.whole, reply.failed


def test_before_the_first_reply_nothing_is_left_to_do():
    reply = NewestReply.none()
    assert (reply.turn, reply.told, reply.given, reply.edited) == (None, True, True, True)
    assert states(reply) == (True, False)


async def test_a_reply_is_whole_when_it_was_told_or_its_stream_was_read_to_its_end():
    async with Gateway("openai:m", transport=ScriptedModel(["hello"])) as gateway:
        stream, reply = gateway.stream([Message.user("hi")]), NewestReply(None)
        reply.listen(stream)
        assert states(reply) == (False, False)
        await stream.final_message()
        assert states(reply) == (True, False)
    assert states(NewestReply(None, told=True)) == (True, False)


async def test_a_reply_whose_stream_is_aborted_has_failed_unless_it_was_told():
    async with Gateway("openai:m", transport=ScriptedModel(["hello"])) as gateway:
        stream, reply = gateway.stream([Message.user("hi")]), NewestReply(None)
        reply.listen(stream)
        await anext(stream)
        await stream.aclose()
        assert states(reply) == (False, True)
        reply.told = True
        assert states(reply) == (True, False)
