"""The names, notes and documented decisions of the libraries on the page.

This module needs none of the libraries.
"""

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True)
class Decision:
    """A documented decision of a library against the rule of some cases.

    Attributes:
        cases: The ids of the cases.
        text: The decision in one sentence.
        link: The page or the source code that states it.
    """

    cases: tuple[str, ...]
    text: str
    link: str


@dataclass(frozen=True)
class Library:
    """A library, and the part of it that is graded.

    Attributes:
        module: The adapter, a module of this package.
        title: What runs.
        packages: The packages whose versions are listed.
        note: The functions that are called, and everything that the adapter sets or converts.
        decisions: The documented decisions.
    """

    module: str
    title: str
    packages: tuple[str, ...]
    note: str
    decisions: Sequence[Decision] = ()

    def decision(self, id: str) -> Decision | None:
        """Return the documented decision about a case."""
        return next((each for each in self.decisions if id in each.cases), None)


AGENTS = (
    "https://github.com/openai/openai-agents-python/blob/7f7a44f8dc0650296bd5ab6c745c9bcbaa6ac3b7"
)
PYDANTIC = "https://github.com/pydantic/pydantic-ai"

LIBRARIES = (
    Library(
        "openai_client",
        "openai SDK, client",
        ("openai",),
        "`chat.completions.create` of `AsyncOpenAI`, and `chat.completions.stream` for streams. Cases that "
        "were seen at servers of other providers are not applicable. The suite adds the fields `id`, "
        "`object`, `created`, `model` and the type of a call, which the cases leave out. Any exception of "
        "the SDK counts as an error.",
        (
            Decision(
                ("G-172",),
                "Each answer with the status 429 is retried; `max_retries` changes this.",
                "https://github.com/openai/openai-python/blob/"
                "e43b422412a9e96c9cc5192c61fffbe2d7e04836/README.md#retries",
            ),
        ),
    ),
    Library(
        "anthropic_runner",
        "anthropic SDK, tool_runner",
        ("anthropic",),
        "`client.beta.messages.tool_runner` of `AsyncAnthropic`. The adapter sets `thread=False`, because "
        "the default keeps the conversation on the server, and the required `max_tokens`. The runner "
        "accepts async functions only, so a plain function is wrapped in one that runs it in a thread. "
        "The runner returns the last message; its stop reasons `refusal` and `max_tokens` count as "
        "reported errors.",
        (
            Decision(
                ("L-192",),
                "The runner loops until a message without a call; `max_iterations` sets a limit.",
                "https://platform.claude.com/docs/en/agents-and-tools/tool-use/tool-runner",
            ),
        ),
    ),
    Library(
        "pydantic_ai_agent",
        "pydantic-ai, Agent.run",
        ("pydantic-ai-slim", "openai"),
        "`Agent.run` with `OpenAIChatModel`. The adapter sets nothing, except the time limit of a tool in "
        "the case about it. The finish reason `content_filter` of the last reply counts as a reported "
        "refusal, and too many retries of an output as a limit.",
        (
            Decision(
                ("L-173", "L-178"),
                "An exception of a tool propagates out of the run; `ModelRetry` and `ToolFailed` are sent to "
                "the model.",
                f"{PYDANTIC}/blob/4fda38988f2939fa6ea9cdefcf120693e10ef491/docs/tools-advanced.md"
                "?plain=1#L540",
            ),
            Decision(
                ("L-264",),
                "Calls of a reply that share an id are refused, because their results are matched by the "
                "id. The linked change introduced this for deferred calls; "
                "`pydantic_ai/_tool_execution.py` states the same for all calls.",
                f"{PYDANTIC}/pull/6241",
            ),
        ),
    ),
    Library(
        "openai_agents",
        "openai-agents, Runner.run",
        ("openai-agents", "openai"),
        "`Runner.run` with `OpenAIChatCompletionsModel` and tools of `function_tool`. The only "
        "setting of the adapter switches tracing off, because it needs a network.",
        (
            Decision(
                ("L-174",),
                "A call of an unknown tool raises `ModelBehaviorError`; `tool_not_found_behavior` changes "
                "this.",
                f"{AGENTS}/docs/running_agents.md?plain=1#L197",
            ),
            Decision(
                ("L-178",),
                "The default error function reports to the model that an error occurred, but does not expose the "
                "exception; `failure_error_function` changes this.",
                f"{AGENTS}/docs/tools.md?plain=1#L580",
            ),
            Decision(
                ("L-200", "L-264"),
                "A repeated call id must not execute twice.",
                f"{AGENTS}/.agents/references/tool-execution-lifecycle.md?plain=1#L11",
            ),
            Decision(
                ("L-265",),
                "Call ids are preserved as the provider supplied them.",
                f"{AGENTS}/.agents/references/tool-identity.md?plain=1#L53",
            ),
            Decision(
                ("L-205",),
                "Open calls are removed from the history of the runner only; the input of the caller is "
                "preserved.",
                f"{AGENTS}/.agents/references/run-item-lifecycle.md?plain=1#L50",
            ),
        ),
    ),
    Library(
        "langchain_agent",
        "langchain, create_agent",
        ("langchain", "langgraph", "langchain-openai", "openai"),
        "`create_agent` with `ChatOpenAI` and without middleware. The only setting of the adapter "
        "switches tracing off, because it needs a network. Middleware of the library changes some of these "
        "results, for example `ToolErrorMiddleware`, `ToolCallLimitMiddleware` and "
        "`ModelCallLimitMiddleware`. `ChatOpenAI` is documented for OpenAI's own API, so calls without an "
        "id, or with the same id, are not applicable. The finish reason `content_filter` of the last "
        "message counts as a reported refusal.",
        (
            Decision(
                ("L-173", "L-178"),
                "An exception of a tool halts the run; `ToolErrorMiddleware` converts it into a result.",
                "https://docs.langchain.com/oss/langchain/middleware/built-in",
            ),
            Decision(
                ("L-192", "L-195"),
                "`create_agent` sets a limit of 9,999 steps, more than the requests of a case. The "
                "configuration `recursion_limit` changes it.",
                "https://github.com/langchain-ai/langchain/pull/36351",
            ),
        ),
    ),
    Library(
        "smolagents_agent",
        "smolagents, ToolCallingAgent",
        ("smolagents", "openai"),
        "`ToolCallingAgent` with `OpenAIModel`. The adapter switches the log off and asks for the full "
        "result. The library writes earlier calls and results as text and adds a system prompt, so cases "
        "about the form of messages are not applicable. It expects the answer as a call of its tool "
        "`final_answer`, so a text of the model is converted to such a call. The state "
        "`max_steps_error` counts as a limit.",
    ),
    Library(
        "openai_loop",
        "Loop of this project around the openai SDK",
        ("openai",),
        "This loop is not a part of the SDK. It is code of this project, as programs with "
        "function calls usually have it. It asks, runs the calls one after the other, and asks again until a "
        "reply has no calls. Its failures show what a program has to add. The SDK also has a runner for the Responses "
        "API, which is not graded, because the replies of the cases are in the chat format. The finish "
        "reason `content_filter` counts as a reported refusal.",
    ),
)
"""In the order of the page."""
