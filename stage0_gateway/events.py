"""What a gateway reports while it works: one frozen value for each thing that happened.

Pass a function as `on_event` and it is called with these, in this order for each request:

    request ─▶ response                         all went well
    request ─▶ retry ─▶ request ─▶ response     the first try failed and may be repeated
    request ─▶ fallback ─▶ request ─▶ response  another model is asked instead

An error that ends the request is raised, not reported. No event holds a key, a header or a query
string, so all of them may be printed. The values know nothing of who listens.
"""

from dataclasses import dataclass
from typing import ClassVar, Literal

from stage0_gateway.errors import GatewayError
from stage0_gateway.finish_reasons import FinishReason
from stage0_gateway.usage import Usage


@dataclass(frozen=True, slots=True)
class RequestEvent:
    """A request is about to be sent.

    Attributes:
        model: The model's name as the server knows it.
        url: Where it is sent: scheme, host and path only.
        messages: How many messages it carries.
        tools: How many tools it carries.
        attempt: 1 for the first try.
    """

    name: ClassVar[Literal["request"]] = "request"
    model: str
    url: str
    messages: int
    tools: int
    attempt: int


@dataclass(frozen=True, slots=True)
class ResponseEvent:
    """A reply arrived and was understood.

    Attributes:
        model: The model that answered, as the server names it.
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
    """A try failed, and the request will be sent again.

    Attributes:
        error: What went wrong.
        attempt: Which try failed; 1 for the first.
        wait: Seconds the server asked us to wait, or None where our own backoff decides.
    """

    name: ClassVar[Literal["retry"]] = "retry"
    error: GatewayError
    attempt: int
    wait: float | None


@dataclass(frozen=True, slots=True)
class FallbackEvent:
    """A model did not answer, and the next one is asked.

    Attributes:
        error: Why it did not.
        model: The model that did not.
        next_model: The one that is asked now.
    """

    name: ClassVar[Literal["fallback"]] = "fallback"
    error: GatewayError
    model: str
    next_model: str


@dataclass(frozen=True, slots=True)
class WarningEvent:
    """A reply came, but something about it is wrong.

    Attributes:
        model: The model that was asked.
        text: What, and what to do about it.
    """

    name: ClassVar[Literal["warning"]] = "warning"
    model: str
    text: str


GatewayEvent = RequestEvent | ResponseEvent | RetryEvent | FallbackEvent | WarningEvent
