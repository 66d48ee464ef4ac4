"""Models without a network: a scripted model, and a rule-based model with its server.

scripted         `ScriptedModel`: replays given replies
model            `OfflineModel`: the rule-based model as a transport
conversation     the tools, the question and the results in a request
tool_selection   selects a tool by shared words
arguments        fills arguments from the words of a question
replies          describes results, and answers without tools
teacher          the rules: the next tool call, or a reply
faults           wrong replies on purpose
service          answers HTTP requests, in the format of each request
local_server     the rule-based model on a port
"""
