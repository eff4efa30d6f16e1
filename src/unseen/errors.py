"""The one exception that a user's mistake raises."""


class UnseenError(Exception):
    """Something the user can mend. The message says what was wrong, where, and what to do."""
