"""Headers of single requests, read without a table of all their fields."""
