"""`manage.py run`: embedded PostgreSQL and Valkey, and the supervisor that runs every process on one machine."""
