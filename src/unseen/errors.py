"""The one exception that a user's mistake raises."""


class UnseenError(Exception):
    """Something the user can mend.

    Args:
        message: What was wrong, where, and what to do.
        arguments: The Python arguments that the message names, spelled as in the message: `"overwrite=True"`, or
            `"validation"`. The command line puts its own options in their place.

    >>> import unseen
    >>> try:
    ...     unseen.Taxonomy.load("animals.csv")
    ... except unseen.UnseenError as error:
    ...     print(error)
    animals.csv: cannot be read: No such file or directory.
    """

    def __init__(self, message: str, *arguments: str):
        super().__init__(message)
        self.arguments = arguments
