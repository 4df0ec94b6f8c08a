"""The first page: what needs somebody, what happens next, how much flows."""
