"""The Django project: settings, addresses, processes of the web, and the way to the brokers."""
