"""Streams: from server-sent bytes to events and a reply.

sse             bytes to the data of server-sent events
partial         text that grows, and JSON whose end is missing
events          the events of a streamed reply
reply_builder   builds a reply from blocks of text, thinking and calls
stream          `MessageStream`: iterate over a reply, or wait for it
"""
