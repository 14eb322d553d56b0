"""Changes in the header of a file that `segcertify.storage.archive` wrote."""

import json
import struct


def rewrite_header(path, change):
    """Change what the header says, in place; or write the text that ``change`` returns instead."""
    raw = path.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8 : 8 + length])
    about = json.loads(header["__metadata__"]["segcertify"])
    header["__metadata__"]["segcertify"] = change(about) or json.dumps(about)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + raw[8 + length :])
