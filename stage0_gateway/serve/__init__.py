"""The reverse direction: decode a request and encode a reply, as a model server does.

`serve/openai.py` mirrors `wire/openai.py`, and `serve/tcp.py` puts the embedded model behind a real port.
Knows nothing of what a good reply is. Spoken by the embedded teaching model (`offline/`) and by the
scripted one (`scripted.py`), so that both are asked over the same wire as a real server.
"""
