"""Events of the gateway: one frozen value for each step of a request.

Pass a function as `on_event`. The gateway calls it with these values, in this order:

    request ─▶ response                         success
    request ─▶ retry ─▶ request ─▶ response     the first attempt failed and was retried
    request ─▶ fallback ─▶ request ─▶ response  another model was tried

An error that ends the request is raised, not reported. Events contain no key, header or query
string, so all of them may be printed.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from stage0_gateway.errors import GatewayError
from stage0_gateway.response import FinishReason, Usage


@dataclass(frozen=True, slots=True)
class RequestEvent:
    """The gateway is about to send a request.

    Attributes:
        model: The model's name on its server.
        url: The URL: scheme, host and path only.
        messages: The number of messages.
        tools: The number of tools.
        attempt: The number of the attempt, starting at 1.
    """

    name: ClassVar[Literal["request"]] = "request"
    model: str
    url: str
    messages: int
    tools: int
    attempt: int


@dataclass(frozen=True, slots=True)
class ResponseEvent:
    """The gateway received and decoded a reply.

    Attributes:
        model: The model's name as reported by the server.
        finish_reason: Why the model stopped.
        usage: The server's token counts, or None.
        duration: Seconds from sending to the last byte.
    """

    name: ClassVar[Literal["response"]] = "response"
    model: str | None
    finish_reason: FinishReason
    usage: Usage | None
    duration: float


@dataclass(frozen=True, slots=True)
class RetryEvent:
    """An attempt failed, and the gateway sends the request again.

    Attributes:
        error: The error of the attempt.
        attempt: The number of the failed attempt, starting at 1.
        wait: Seconds until the next attempt: as the server requests, or else the gateway's own
            growing wait, to which it adds up to 0.5 s at random.
    """

    name: ClassVar[Literal["retry"]] = "retry"
    error: GatewayError
    attempt: int
    wait: float


@dataclass(frozen=True, slots=True)
class FallbackEvent:
    """A model failed, and the gateway sends the request to the next model.

    Attributes:
        error: The error of the failed model.
        model: The failed model.
        next_model: The next model.
    """

    name: ClassVar[Literal["fallback"]] = "fallback"
    error: GatewayError
    model: str
    next_model: str


@dataclass(frozen=True, slots=True)
class WarningEvent:
    """A reply arrived, but the request was not processed completely.

    Attributes:
        model: The requested model.
        text: The problem and its fix.
    """

    name: ClassVar[Literal["warning"]] = "warning"
    model: str
    text: str


GatewayEvent = RequestEvent | ResponseEvent | RetryEvent | FallbackEvent | WarningEvent
