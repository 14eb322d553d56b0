"""Changes in the header of a file that `segcertify.storage.archive` wrote."""

import json
import struct

from segcertify.errors import InputError
from segcertify.storage import archive


def rewrite_header(path, change):
    """Change what the header says, in place; or write the text that ``change`` returns instead.

    The integrity digest, unless ``change`` removed it, is made again: the file is as another program would write it.
    """
    raw = path.read_bytes()
    length = struct.unpack("<Q", raw[:8])[0]
    header = json.loads(raw[8 : 8 + length])
    about = json.loads(header["__metadata__"]["segcertify"])
    text = change(about)

    def write(text):
        header["__metadata__"]["segcertify"] = text
        content = json.dumps(header).encode()
        path.write_bytes(struct.pack("<Q", len(content)) + content + raw[8 + length :])

    write(text or json.dumps(about))
    if text is None and "digest" in about:
        try:
            about["digest"] = archive.read_content(path).expected_digest
        except InputError:
            return  # a header that cannot be read has no digest
        write(json.dumps(about))
