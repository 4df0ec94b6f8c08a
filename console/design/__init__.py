"""Samples of the shapes that the pages read, for the page that shows every component: nothing of them is real."""
