"""`UnseenError`: what a user can cause and correct."""


class UnseenError(Exception):
    """Something the user can mend: what was wrong, where, and what to do.

    >>> import unseen
    >>> try:
    ...     unseen.Hierarchy.load("animals.csv")
    ... except unseen.UnseenError as error:
    ...     print(error)
    animals.csv: cannot be read: No such file or directory.
    """

    def __init__(self, message: str):
        super().__init__(message)
