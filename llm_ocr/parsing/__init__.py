"""Parse documents into records: schemas, validation, and the evidence for each value."""
