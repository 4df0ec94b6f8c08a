"""An app of the tests' project that handles its orders."""
