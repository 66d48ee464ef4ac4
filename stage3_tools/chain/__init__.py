"""`execute_tool_chain`: run the tools of a reply outside of a session.

Modules:
    options    `ToolChainOptions`, and its callbacks
    formatter  `MessageFlowFormatter`: a chain of calls as one text
    chain      `execute_tool_chain` and its result
"""
