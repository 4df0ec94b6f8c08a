"""Transactions: half and op messages, decisions, checks."""
