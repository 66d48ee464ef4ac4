"""The ways to describe tools to a model and to interpret its replies.

Modules:
    protocol  the `Dialect` protocol and its values
    escaping  escape text that imitates a header of the framework; feedback messages
    prompt    `PromptDialect`: tools in the system prompt, decisions as JSON text
    native    `NativeDialect`: the tool calls of the provider
    named     a dialect by the name of its class
"""
