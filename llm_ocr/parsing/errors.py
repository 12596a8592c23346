"""What can be wrong with what a user gives to Parse."""


class SchemaError(ValueError):
    """There is no schema where one was said to be; the message says what to do."""
