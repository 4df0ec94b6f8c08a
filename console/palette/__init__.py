"""The palette: what a few letters, a key or a verb may mean, in all features."""
