"""The commit log: appending, syncing, recovering, and what of it may go."""
