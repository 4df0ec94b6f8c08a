"""The Django project: console pages, REST, websockets, and the house that runs every process."""
