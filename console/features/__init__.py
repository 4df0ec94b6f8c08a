"""What the console shows and does, one folder a feature."""
