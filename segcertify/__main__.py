"""``python -m segcertify`` and the command ``segcertify``: the command line, also for torchrun."""

import os
import sys


def main() -> None:
    """Load the command line and run it; a signal meanwhile ends it with a line, not with a traceback."""
    from segcertify.storage.interruption import Stop, stoppable

    with stoppable():
        try:
            from segcertify.cli import main as run
        except Stop as stop:
            sys.stderr.write(f"stopped by {stop.signal}: give the same command again\n")
            raise
    run()


if __name__ == "__main__":
    if not sys.flags.safe_path and sys.path[0] in ("", os.getcwd()):
        del sys.path[0]  # the working folder: `python -m` puts it first, and any file there could replace a package
    main()
