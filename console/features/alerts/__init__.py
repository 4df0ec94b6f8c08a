"""Rules that watch, alerts that were raised, and who is told."""
