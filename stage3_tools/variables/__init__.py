"""Store long results and arguments as variables of the session.

Modules:
    long_values  previews, references, and the tool `read_variable`
"""
