"""What people do to a broker, one or many at once: preview, reason, confirm, run, result, audit.

Pages and REST call the same functions of workflow.py: `draft`, `confirm` (or `start` for both), and `abort`.
"""
