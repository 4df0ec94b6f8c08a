"""Console pages, one module a page family."""
