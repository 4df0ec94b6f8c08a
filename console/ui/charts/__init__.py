"""Charts as SVG, made by pure functions: classes and presentation attributes only, a text alternative each."""
