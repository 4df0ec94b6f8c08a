"""What people do to a broker, to one thing or many at once: preview, reason, confirmation, run, result, audit.

Pages and REST call the same functions of workflow.py: `draft`, `confirm` (or `start` for both), and `abort`.
"""
