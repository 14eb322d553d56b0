"""``python -m segcertify``: the command line, also for torchrun."""

import os
import sys

if __name__ == "__main__":
    if not sys.flags.safe_path and sys.path[0] in ("", os.getcwd()):
        del sys.path[0]  # the working folder: `python -m` puts it first, and any file there could replace a package
    from segcertify.cli import main

    main()
