"""Pages in headless Chromium: their output, what a script finds in them, and their tags without a browser."""

import base64
import hashlib
import html.parser
import itertools
import json
import os
import re
import shutil
import subprocess
import time
import zlib

import numpy as np
import pytest

BROWSER = next(filter(None, map(shutil.which, ("chromium", "chromium-browser", "google-chrome"))), None)
in_browser = pytest.mark.skipif(BROWSER is None, reason="no Chromium here: apt-get install chromium")


class Elements(html.parser.HTMLParser):
    """The tags of a page, and the text of its scripts."""

    def __init__(self, text):
        super().__init__()
        self.tags, self.scripts = [], []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.tags.append(tag)
        assert not {"src", "href", "onerror"} & dict(attrs).keys()
        if tag == "script":
            self.scripts.append("")

    def handle_data(self, data):
        if self.tags[-1:] == ["script"]:
            self.scripts[-1] += data


def data_of(page):
    """The data that a page holds."""
    return json.loads(Elements(page.read_text("utf-8")).scripts[0])


def unpacked(packed, shape=(-1,)):
    """Integers that a page holds."""
    raw = zlib.decompress(base64.b64decode(packed["bytes"]))
    return np.frombuffer(raw, f"<{packed['kind']}").reshape(shape).astype(int)


def browse(page, *options, fragment=""):
    """Chromium's output for a page, after asserting that its console shows only what the graphics driver says."""
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-dev-shm-usage", "--enable-unsafe-swiftshader"]
    command += ["--virtual-time-budget=3000", "--enable-logging=stderr", f"--user-data-dir={page.parent / 'profile'}"]
    command += ["--window-size=900,600", "--host-resolver-rules=MAP * ~NOTFOUND", *options, page.as_uri() + fragment]
    done = subprocess.run(command, capture_output=True, timeout=120, check=True)
    console = [line for line in done.stderr.decode().splitlines() if ":CONSOLE" in line]
    assert [line for line in console if "GL Driver Message" not in line] == []
    return done.stdout.decode()


def asked(page, script):
    """What a script returns, asked of a page in real time: by Chromium's debugging protocol, on two pipes."""
    (hears, ask), (answer, says) = os.pipe(), os.pipe()
    command = [BROWSER, "--headless", "--no-sandbox", "--disable-dev-shm-usage", "--enable-unsafe-swiftshader"]
    command += ["--window-size=1400,900", "--remote-debugging-pipe", f"--user-data-dir={page.parent / 'asked'}"]
    joined = ["bash", "-c", f'exec "$@" 3<&{hears} 4>&{says}', "bash", *command]
    chromium = subprocess.Popen(joined, pass_fds=(hears, says), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    os.close(hears)
    os.close(says)

    numbers = itertools.count(1)

    def call(method, session=None, **params):
        number = next(numbers)
        message = {"id": number, "method": method, "params": params} | ({"sessionId": session} if session else {})
        os.write(ask, json.dumps(message).encode() + b"\0")
        while True:
            found = json.loads(b"".join(iter(lambda: os.read(answer, 1) or b"\0", b"\0")))
            if found.get("id") == number:
                return found["result"]

    def evaluated(expression):
        options = {"awaitPromise": True, "returnByValue": True}
        found = call("Runtime.evaluate", session, expression=expression, **options)
        assert "exceptionDetails" not in found, found
        return found["result"]["value"]

    try:
        target = call("Target.createTarget", url=page.as_uri())["targetId"]
        session = call("Target.attachToTarget", targetId=target, flatten=True)["sessionId"]
        while not evaluated("location.protocol === 'file:' && document.readyState === 'complete'"):
            time.sleep(0.05)
        return evaluated(f"(async () => {{ {script} }})()")
    finally:
        chromium.kill()
        chromium.wait()
        os.close(ask)
        os.close(answer)


DRAWN = """
    const hop = () => new Promise((done) => {
        const { port1, port2 } = new MessageChannel();
        port1.onmessage = done;
        port2.postMessage(0);
    });
    for (let i = 0; i < 2e4 && ["Certificate", "Evaluation"].includes(document.querySelector("h1").textContent); i++) {
        await hop();
    }
"""
"""Waits until a page has its own heading. Timers would not: Chromium's clock runs ahead while the page is unpacked.

Scripts may ``await hop()`` to wait for what the page does meanwhile.
"""


def reached(page, script, *options):
    """What a script, run in the page once it has drawn, leaves in the variable ``seen``.

    The page's own policy runs no script but its own: this one is allowed by its digest too.
    """
    text = page.read_text("utf-8")
    run = "addEventListener('load', () => setTimeout(async () => { const seen = {};" + DRAWN + script
    leave = "const out = document.createElement('pre'); out.id = 'seen'; out.textContent = btoa(unescape("
    leave += "encodeURIComponent(JSON.stringify(seen)))); document.body.append(out); }, 500));"
    digest = base64.b64encode(hashlib.sha256((run + leave).encode()).digest()).decode()
    text = text.replace("script-src ", f"script-src 'sha256-{digest}' ", 1)
    page.write_text(text.replace("</body>", f"<script>{run}{leave}</script></body>"), "utf-8")
    found = re.search(r'<pre id="seen">([^<]*)</pre>', browse(page, *options, "--dump-dom"))
    return json.loads(base64.b64decode(found[1]))
