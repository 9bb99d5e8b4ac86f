"""The two kinds of mistake that are the user's and not ours; see `command_line.run`."""


class InputError(ValueError):
    """Data, a file or a configuration is wrong. The message is one line; commands exit with 1."""


class UsageError(InputError):
    """A command was called wrongly. The message is one line with the flag; commands exit with 2."""


def printable(name: str) -> str:
    """A name from a user's file as an error of one line shows it: quoted where it has to be."""
    return name if name.isprintable() else repr(name)
