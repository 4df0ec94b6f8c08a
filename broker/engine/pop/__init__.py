"""POP consumption: messages handed out for a while, and given out again unless they are acknowledged in time."""
