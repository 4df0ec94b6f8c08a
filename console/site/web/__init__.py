"""The web process itself: what it takes from strangers before any page or address is asked (docs/SETTINGS.md)."""
