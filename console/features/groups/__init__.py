"""Consumer groups: lag, members, offsets, and receiving in their name by REST."""
