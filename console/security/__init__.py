"""Who may see and do what: sign-on, roles, topic permissions and masks of users, tokens of programs."""
