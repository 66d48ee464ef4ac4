"""Wire formats: requests to a provider's JSON, and its replies to a `ChatResponse`.

All functions are pure: they accept and return values, open no connections and do not wait.

    format                  `WireFormat`: the functions that each format has
    names                   tool names and call ids as providers accept them
    surrogates              halves of surrogate pairs, which servers reject
    provider_data           data that is stored for one provider and sent back to it
    reasoning               the setting `reasoning` as the fields of each format
    error_body              errors in the body of a response or in a stream
    reader                  `ReplyReader`: decodes a reply, whole or event by event
    openai_reply            decodes the replies of OpenAI and most other servers
    call_deltas             assigns pieces of a stream to tool calls
    openai                  encodes requests in OpenAI's format
    mistral                 OpenAI's format with the call ids that Mistral accepts
    cache_marks             marks for the prompt cache of Anthropic's server
    anthropic_reply         decodes Anthropic's replies
    anthropic               encodes requests in Anthropic's format
    gemini_reply            decodes Gemini's replies
    gemini                  encodes requests in Gemini's format
    openai_responses_reply  decodes replies in OpenAI's Responses format
    openai_responses        encodes requests in OpenAI's Responses format
"""
