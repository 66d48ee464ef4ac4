"""`execute_tool_chain`: run the tools of a reply outside of a session.

Modules:
    options    `ToolChainOptions`
    callbacks  the listener that calls the callbacks, and composes the text for people
    formatter  `MessageFlowFormatter`: a chain of calls as one text
    chain      `execute_tool_chain` and its result
"""
