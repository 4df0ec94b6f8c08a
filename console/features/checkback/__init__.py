"""Check-back by HTTP: producers that use REST are asked at an address that was registered for their group.

`rows` and `registry` keep the addresses, `allowed` says where one may lead, `asking` asks one, `answering` is a
producer of one group that passes the broker's questions on, `worker` keeps one for each address
(`manage.py checkback_http`).
"""
