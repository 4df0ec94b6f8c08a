"""The operations of people on a broker, one thing or many: preview, reason, confirmation, run, result, audit.

Pages and REST call the same functions of workflow.py: `draft`, `confirm` (or `start` for both), and `abort`.
"""
