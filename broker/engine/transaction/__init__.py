"""Transactional messages: kept out of sight until their producer decides.

    half ──► RMQ_SYS_TRANS_HALF_TOPIC          what a producer may still take back
    commit ──► a copy on the real topic, then its offset in an op record
    rollback ──► its offset in an op record
    silence ──► checks: the producer is asked, at most so many times, then the message is parked

Read ``service.py`` first.
"""
