"""Single messages: found, shown with all their records, sent, sent again."""
