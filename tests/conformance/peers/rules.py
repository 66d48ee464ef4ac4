"""Which places of an outcome a rule is about.

A library fails a case at places of its outcome. The page shows the rule of the case only for failures at
the places that are listed here. A case also looks at places that show whether its situation occurred: if
such a check fails, nothing is known about the rule, and the case is not applicable.
"""

from dataclasses import dataclass, field
from fnmatch import fnmatchcase

from tests.conformance.case import Case


@dataclass(frozen=True)
class Rule:
    """The places of a rule.

    Attributes:
        places: The JSON pointers that show whether the rule is followed; `*` matches any text.
        needs: The JSON pointers that show whether the situation of the rule occurred, each with the
            reason of a case that is not applicable.
    """

    places: tuple[str, ...]
    needs: dict[str, str] = field(default_factory=dict)

    def shows(self, place: str) -> bool:
        """Whether a failure at this place is a failure of the rule."""
        return any(fnmatchcase(place, pattern) for pattern in self.places)


NO_REQUEST = {"/requests/0": "a run that ended before its first request"}
NO_SECOND_REQUEST = {"/requests/1": "a run that ended before its second request"}

RULES = {
    "An error in an answer with status 200 is an error.": Rule(("/error/*",)),
    "A stream that ends without a finish reason is an error.": Rule(("/error/kind",)),
    "A quota that is used up is not retried.": Rule(("/error/kind", "/requests")),
    "Other choices of a stream are not mixed with the first one.": Rule(
        ("/message/content", "/finish_reason"),
        {
            "/message": "a stream with a choice that was cut off, which the library reports as an error"
        },
    ),
    "A byte order mark before the first event is skipped.": Rule(("/message/content",)),
    "A failing call does not affect the other calls of its reply.": Rule(
        ("/ran", "/requests/1/messages*", "/answer")
    ),
    "A call with wrong arguments does not run; the model is asked again, and can correct it.": Rule(
        ("/ran", "/requests", "/answer")
    ),
    "The result of a failing tool contains the reason, and the model is asked again.": Rule(
        ("/answer", "/requests/1/messages/*")
    ),
    "A reply that was cut off runs no call.": Rule(("/ran",), NO_REQUEST),
    "A reply that the provider stopped runs no call.": Rule(("/ran",), NO_REQUEST),
    "After a reply that was cut off, the model is asked again.": Rule(("/requests", "/answer")),
    "An empty reply is not an answer; the model is asked again.": Rule(
        ("/answer", "/requests*", "/error/kind")
    ),
    "No request contains an empty message of the assistant.": Rule(
        ("/requests/1/messages/1/*",),
        {"/requests/1": "the request after an empty reply, without such a request"},
    ),
    "A model that never answers is stopped, with an error.": Rule(
        ("/error/kind",), NO_SECOND_REQUEST
    ),
    "At the limit, each stored call has its result.": Rule(
        ("/messages*",), {"/error/kind": "the messages at a limit, without a limit"}
    ),
    "Ids that are used again in a later reply do not mix the results.": Rule(
        ("/requests/2/messages*", "/answer")
    ),
    "No request contains a call without a result.": Rule(
        ("/requests/?", "/requests/?/messages*"),
        {"/requests/0": "a history with an open call, which the library rejects"},
    ),
    "The calls of one reply run at the same time, also plain functions.": Rule(
        ("/together",), {"/ran": "a run without all calls", "/answer": "a run without an answer"}
    ),
    "Async and plain functions run at the same time.": Rule(
        ("/together",), {"/requests/1/messages/*": "a run without all results"}
    ),
    "Results are in the order of the calls, whichever call ends first.": Rule(
        ("/requests/1/messages*",),
        {"/together": "the order of calls that run at the same time, without such calls"},
    ),
    "A call that was repeated often is refused.": Rule(("/ran/5",), NO_SECOND_REQUEST),
    "Two calls with the same id both keep their result, under different ids.": Rule(
        ("/ran", "/requests/1/messages*", "/answer")
    ),
    "Calls without an id get one.": Rule(("/ran", "/requests/1/messages*")),
    "A refusal of the provider ends the loop, with an error.": Rule(("/requests", "/error/kind")),
}
"""The rules that at least one library does not follow."""


def unmet(case: Case, places: list[str]) -> str:
    """Return why these failures show nothing about the rule of a case; empty if they do."""
    needs = RULES[case.rule].needs if case.rule in RULES else {}
    return next((needs[name] for name in needs for each in places if fnmatchcase(each, name)), "")


def own_places(case: Case, places: list[str]) -> list[str]:
    """The places at which the rule of a case failed; all places if the rule is not listed."""
    rule = RULES.get(case.rule, Rule(("*",)))
    return [place for place in places if rule.shows(place)]
