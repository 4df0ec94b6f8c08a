"""What the pages showed at earlier moments: taken every minute, kept for a while, looked at again, compared."""
