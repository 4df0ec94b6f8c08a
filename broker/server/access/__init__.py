"""Access control of the broker: users, their signatures and their policies (RocketMQ's ACL 2.0).

The words, the rule that decides and what each request needs are those of Apache RocketMQ 5.5.0, so that its clients and
`mqadmin` notice no difference. Where RocketMQ asks for nothing (changing the configuration, reading a record by its
position) a permission is needed here: demands.py says which.
"""
