"""Check-back by HTTP: producers that use REST are asked at an address that was registered for their group.

`models` and `registry` keep the addresses, `allowed` says where one may lead, `request` asks one, and `worker` keeps,
for each address, a producer of its group that passes the broker's questions on (`manage.py checkback_http`).
"""
