"""The features of the console: what it shows and does, in one folder or module for each."""
