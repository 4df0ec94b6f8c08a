"""What the pages are given: frozen values, one module a page family."""
