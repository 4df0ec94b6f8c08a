"""Access to the console: sign-on, roles, topic permissions and masks of users, tokens of programs."""
