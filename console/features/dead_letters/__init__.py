"""Messages that their groups gave up."""
