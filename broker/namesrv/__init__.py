"""The name service, as far as it needs no broker: registrations (registration.py), the table of routes made of them
(routes.py), and the requests that are answered from it (requests.py). No sockets and no clock: time comes in.

It runs beside our broker, which then is one of its registrations (broker/server/processors/namesrv.py), or in a process
of its own (broker/server/namesrv.py).
"""
