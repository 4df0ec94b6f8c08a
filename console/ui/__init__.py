"""What the console pages share: addresses, navigation, live updates, files, charts, saved views and snapshots."""
