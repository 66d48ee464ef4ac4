"""The wire formats in reverse: decode requests and encode replies, like a model server.

The models of `offline/` use this room. Tests use it to check `wire/`: each side decodes what the
other side encodes. The formats are pure.

    format            `ServerFormat`: the functions that each format has
    encoding          shared functions to encode replies
    openai            OpenAI's requests and replies
    anthropic         Anthropic's requests and replies
    gemini            Gemini's requests and replies
    gemini_spellings  the spellings that Google accepts, converted to one
    openai_responses  requests and replies in OpenAI's Responses format
    state             requests that refer to state of a server, which the offline model refuses
    routing           the format of a request, and whether its reply is a stream
    answer            `Answer`: an HTTP response as a value
    in_process        an `Answer` as a response of httpx
"""
