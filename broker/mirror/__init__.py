"""The parts of the mirror: what changed, how it is asked, what is kept, how it is written and told."""
