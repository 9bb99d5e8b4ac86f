"""The two kinds of mistake that are the user's and not ours; see `command_line.run`."""


class InputError(ValueError):
    """Data, a file or a configuration is wrong. The message is one line; commands exit with 1."""


class UsageError(InputError):
    """A command was called wrongly. The message is one line with the flag; commands exit with 2."""
