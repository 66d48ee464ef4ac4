"""The command `llm-stages`: questions, conversations, tools and run files in a terminal.

Modules:
    main       the commands and their options; the exit status
    terminal   output: colors, tables and Markdown with `rich` if it is installed, else plain text
    tool_file  the tools of a Python file
    live       show the events of a run: text while it arrives, calls, results; ask for approval
    ask        answer one question
    chat       a conversation, stored in SQLite
    tools      what the model sees of the tools of a file; problems in their descriptions
    sessions   stored conversations
    inspect    a run file as an HTML page
    replay     repeat a run, continue it with a change, compare two runs
    export     a run for another program
    doctor     the configuration, the extras, and whether the model answers
    serve      the rule-based model as a server

A command is a function of its options; it returns the exit status.
"""
