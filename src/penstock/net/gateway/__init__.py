"""The gateway: a thin HTTP face of one broker.

Every request acts through a client connection of the broker, so that what a token allows is checked in one
place, there and not here.

ports        what the gateway needs: a connector to the broker, a configuration, limits
formats      JSON in and out
cloudevents  CloudEvents to events and back, without HTTP
problems     errors as problem details
tokens       where a request carries its token
guard        what holds for every request and response: hosts, origins, headers
bodies       from the body of a request to events
publishers   the connections that requests publish through
context      what all endpoints share
sse          a subscription as server-sent events
receiving    events as the answer to one request
websocket    a connection as JSON messages over a WebSocket
metrics      the broker's status for Prometheus
endpoints    the answers to requests
table        all endpoints, once: routes and documentation are both made of it
schemas      the shapes of what goes in and out
openapi      the table as an OpenAPI document
docs         the same as a page
app          all of it as one ASGI application
door         how many connections there are, and which make room for others
protocols    uvicorn's protocols, with bounds on connections that ask nothing
server       the application on a socket
"""
