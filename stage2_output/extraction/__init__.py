"""Find JSON values in a text.

This room knows no schemas and does not choose between the values. Modules:
    lookaround   rules about the text around a bracket
    thinking     thinking blocks: their tags, and the text without them
    markup       code fences, thinking tags and tool tags
    candidates   all JSON values of a text, and the parts that cannot be read
"""
