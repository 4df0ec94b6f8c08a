"""People of the console, their roles, and their tokens of REST."""
