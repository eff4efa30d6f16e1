"""The one exception that a user's mistake raises."""


class UnseenError(Exception):
    """Something the user can mend. The message says what was wrong, where, and what to do.

    `arguments` are the Python arguments that the message names, spelled as in the message: `"overwrite=True"`, or
    `"validation"`. The command line puts its own options in their place.
    """

    def __init__(self, message: str, *arguments: str):
        super().__init__(message)
        self.arguments = arguments
