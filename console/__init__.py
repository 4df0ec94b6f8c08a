"""The Django project: console pages, REST, websockets, and the supervisor that runs every process."""
