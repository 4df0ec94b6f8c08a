"""The parts that the console pages share: addresses, navigation, live updates, files, charts and saved views."""
