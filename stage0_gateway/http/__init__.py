"""HTTP: one request to a model server, and its reply. Only this room and the transports use httpx.

redaction            removes secrets from texts, errors and replies
known_secrets        `KnownSecrets`: the secrets of all gateways of the program
endpoint             `ModelEndpoint`: "provider:name" to URL, headers and wire format
encode               `EncodedRequest`: the body, joined from cached encodings
response             `HttpResponse`: a response, read within its limits
pool                 the httpx connections
fast                 the aiohttp connections of the extra `[fast]`
client               `HttpClient`: posts a body, and selects the transport
receive              reads a whole reply, and error responses
streaming_response   `StreamingResponse`: reads a streamed reply
"""
