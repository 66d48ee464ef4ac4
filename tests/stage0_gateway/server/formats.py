"""The four server formats, each with the wire format that it reverses."""

import json
from typing import NamedTuple

from stage0_gateway.server import anthropic, gemini, openai, openai_responses
from stage0_gateway.server.format import ServerFormat
from stage0_gateway.wire import anthropic as anthropic_wire
from stage0_gateway.wire import gemini as gemini_wire
from stage0_gateway.wire import openai as openai_wire
from stage0_gateway.wire import openai_responses as openai_responses_wire
from stage0_gateway.wire.format import WireFormat
from tests.stage0_gateway.replies import read_stream, split


class Format(NamedTuple):
    """A server format and its wire format."""

    server: ServerFormat
    wire: WireFormat

    def __repr__(self):
        return self.wire.NAME

    @property
    def path(self):
        """Return the path of a request to the model "m"."""
        return "/v1" + self.wire.path("m")

    def read_body(self, reply):
        """Return a reply as a client reads it from a whole body."""
        return self.wire.decode(json.loads(json.dumps(self.server.encode_reply(reply))))

    def read_stream(self, reply, piece=8):
        """Return a reply as a client reads it from a stream; both sides use pieces of this size."""
        return read_back(self.wire, self.server.encode_stream(reply, piece=piece), piece)


OPENAI = Format(openai, openai_wire)
ANTHROPIC = Format(anthropic, anthropic_wire)
GEMINI = Format(gemini, gemini_wire)
OPENAI_RESPONSES = Format(openai_responses, openai_responses_wire)
FORMATS = (OPENAI, ANTHROPIC, GEMINI, OPENAI_RESPONSES)
FORMAT_BY_NAME = {form.wire.NAME: form for form in FORMATS}


def read_back(wire, events, size=8):
    """Return the reply of these events, whose bytes arrive in chunks of this size."""
    return read_stream(wire, split("".join(events).encode(errors="backslashreplace"), size))
