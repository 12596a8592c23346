"""Pages whose text, order and structure are known, because they were written here."""
