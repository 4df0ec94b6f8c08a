"""What people do to a broker, one or many at once: preview, reason, confirm, run, result, audit.

Pages and REST call the same three functions: `desk.draft`, `desk.confirm` (or `desk.start` for both) and `desk.abort`.
"""
