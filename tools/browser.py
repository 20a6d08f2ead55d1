"""A real Chromium without a window, driven over a pipe: no driver program and no package is needed."""

import base64
import contextlib
import itertools
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path

NAMES = ("chromium", "chromium-browser", "google-chrome-stable", "google-chrome")
PATIENCE = 30.0
"""Seconds after which something that was waited for is a failure."""


def find():
    """The path of a Chromium, or None; CHROMIUM names another."""
    return next(filter(None, map(shutil.which, [os.environ.get("CHROMIUM", ""), *NAMES])), None)


class Browser:
    """One browser process; `page()` opens a tab."""

    def __init__(self, *flags):
        self._profile = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        to_browser, self._out = os.pipe()
        self._in, from_browser = os.pipe()
        command = [
            find(),
            "--headless=new",
            "--remote-debugging-pipe",
            f"--user-data-dir={self._profile.name}",
            "--no-sandbox",  # Tests run as root in containers, where the sandbox cannot start.
            "--disable-dev-shm-usage",
            "--no-first-run",
            "--disable-extensions",
            "--disable-background-networking",
            "--disable-component-update",
            "--hide-scrollbars",
            *flags,
        ]
        log = Path(self._profile.name) / "log"
        with log.open("wb") as stderr:
            # Chromium reads from 3 and writes to 4; a shell puts the pipes there.
            shell = f'exec "$@" 3<&{to_browser} 4>&{from_browser}'
            self._process = subprocess.Popen(
                ["bash", "-c", shell, "chromium", *command],
                pass_fds=(to_browser, from_browser),
                stdout=subprocess.DEVNULL,
                stderr=stderr,
            )
        os.close(to_browser)
        os.close(from_browser)
        self._numbers, self._buffer, self.events = itertools.count(1), b"", []

    def call(self, method, session=None, **params):
        """Sends a command and gives its result."""
        number = next(self._numbers)
        message = {"id": number, "method": method, "params": params}
        if session:
            message["sessionId"] = session
        os.write(self._out, json.dumps(message).encode() + b"\0")
        until = time.monotonic() + PATIENCE
        while True:
            answer = self._receive(until, method)
            if answer.get("id") == number:
                if "error" in answer:
                    raise RuntimeError(f"{method}: {answer['error']['message']}")
                return answer["result"]
            self.events.append(answer)

    def _receive(self, until, what):
        while b"\0" not in self._buffer:
            left = until - time.monotonic()
            if left <= 0 or not select.select([self._in], [], [], left)[0]:
                raise TimeoutError(f"the browser did not answer {what}")
            if not (more := os.read(self._in, 2**20)):
                raise RuntimeError("the browser has ended")
            self._buffer += more
        message, _, self._buffer = self._buffer.partition(b"\0")
        return json.loads(message)

    def page(self, **view):
        """A new tab in a context of its own."""
        return Page(self, **view)

    def close(self):
        """Ends the browser."""
        with contextlib.suppress(RuntimeError, TimeoutError, OSError):
            self.call("Browser.close")
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        os.close(self._out)
        os.close(self._in)
        self._profile.cleanup()


class Page:
    """One tab: what a person does in it, and what went wrong in it."""

    def __init__(self, browser, width=1280, height=900, mobile=False, dark=False, still=False):
        self.browser = browser
        self.context = browser.call("Target.createBrowserContext")["browserContextId"]
        target = browser.call("Target.createTarget", url="about:blank", browserContextId=self.context)
        attached = browser.call("Target.attachToTarget", targetId=target["targetId"], flatten=True)
        self.session = attached["sessionId"]
        for domain in ("Page", "Runtime", "Network", "Log"):
            self.call(f"{domain}.enable")
        self.call(
            "Emulation.setDeviceMetricsOverride",
            width=width,
            height=height,
            deviceScaleFactor=2 if mobile else 1,
            mobile=mobile,
        )
        if mobile:
            self.call("Emulation.setTouchEmulationEnabled", enabled=True)
        features = [
            {"name": "prefers-color-scheme", "value": "dark" if dark else "light"},
            {"name": "prefers-reduced-motion", "value": "reduce" if still else "no-preference"},
        ]
        self.call("Emulation.setEmulatedMedia", features=features)

    def call(self, method, **params):
        return self.browser.call(method, self.session, **params)

    def open(self, address, ready="globalThis.cellwise?.ready"):
        self.call("Page.navigate", url=address)
        if ready:
            self.wait(ready)

    def js(self, expression):
        """The value of an expression, awaited if it is a promise."""
        result = self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True, userGesture=True
        )
        if "exceptionDetails" in result:
            details = result["exceptionDetails"]
            raise RuntimeError(details.get("exception", {}).get("description", details["text"]))
        return result["result"].get("value")

    def wait(self, expression, patience=PATIENCE):
        """Waits until an expression is true and gives its value."""
        until = time.monotonic() + patience
        while True:
            with contextlib.suppress(RuntimeError):  # The page may be on its way to another.
                if value := self.js(expression):
                    return value
            if time.monotonic() > until:
                raise AssertionError(
                    f"never came true: {expression}\nthe page says: {self.text('#verdict-text')}"
                )
            time.sleep(0.05)

    def text(self, selector):
        return self.js(f"document.querySelector({json.dumps(selector)})?.textContent")

    def box(self, selector):
        """Left, top, width and height on the screen, scrolled into view."""
        return self.js(
            f"(e => {{ e.scrollIntoView({{block: 'nearest'}}); const b = e.getBoundingClientRect();"
            f" return [b.x, b.y, b.width, b.height]; }})(document.querySelector({json.dumps(selector)}))"
        )

    def click(self, selector):
        x, y, width, height = self.box(selector)
        self.drag([(x + width / 2, y + height / 2)])

    def drag(self, points):
        """Presses the mouse at the first point, moves it along the others and lets go."""
        button = {"button": "left", "buttons": 1, "clickCount": 1}
        self.call("Input.dispatchMouseEvent", type="mouseMoved", x=points[0][0], y=points[0][1])
        self.call("Input.dispatchMouseEvent", type="mousePressed", x=points[0][0], y=points[0][1], **button)
        for x, y in points[1:]:
            self.call("Input.dispatchMouseEvent", type="mouseMoved", x=x, y=y, **button)
        x, y = points[-1]
        self.call("Input.dispatchMouseEvent", type="mouseReleased", x=x, y=y, **(button | {"buttons": 0}))

    def touch(self, points):
        """Drags a finger along points."""
        for i, (x, y) in enumerate(points):
            kind = "touchMove" if i else "touchStart"
            self.call("Input.dispatchTouchEvent", type=kind, touchPoints=[{"x": x, "y": y}])
        self.call("Input.dispatchTouchEvent", type="touchEnd", touchPoints=[])

    def keys(self, *names):
        """Presses keys one after the other: letters, digits, or names such as ArrowLeft."""
        codes = {"Tab": 9, "Enter": 13, "Escape": 27, " ": 32, "ArrowLeft": 37, "ArrowUp": 38, "Backspace": 8}
        codes |= {"ArrowRight": 39, "ArrowDown": 40}
        for name in names:
            code = codes.get(name, ord(name.upper()) if len(name) == 1 else 0)
            press = {"key": name, "windowsVirtualKeyCode": code}
            typed = {"text": "\r" if name == "Enter" else name} if len(name) == 1 or name == "Enter" else {}
            self.call("Input.dispatchKeyEvent", type="keyDown", **press, **typed)
            self.call("Input.dispatchKeyEvent", type="keyUp", **press)

    def choose(self, selector, value):
        """Sets a field as a person would have, with its events."""
        self.js(
            f"""(field => {{
              field[field.type === "checkbox" ? "checked" : "value"] = {json.dumps(value)};
              for (const kind of ["input", "change"]) field.dispatchEvent(new Event(kind, {{bubbles: true}}));
            }})(document.querySelector({json.dumps(selector)}))"""
        )

    def screenshot(self, path, whole=False):
        shot = self.call("Page.captureScreenshot", captureBeyondViewport=whole)
        Path(path).write_bytes(base64.b64decode(shot["data"]))

    def complaints(self):
        """Errors and warnings of the console, uncaught exceptions, requests that failed."""
        found = []
        for event in self._events():
            method, params = event["method"], event["params"]
            if method == "Runtime.exceptionThrown":
                details = params["exceptionDetails"]
                found.append(details.get("exception", {}).get("description", details["text"]))
            elif method == "Runtime.consoleAPICalled" and params["type"] in ("error", "warning"):
                found.append(" ".join(str(word.get("value")) for word in params["args"]))
            elif method == "Log.entryAdded" and params["entry"]["level"] in ("error", "warning"):
                found.append(params["entry"]["text"])
        return found

    def requests(self):
        """The addresses of everything that was asked for."""
        return [
            e["params"]["request"]["url"]
            for e in self._events()
            if e["method"] == "Network.requestWillBeSent"
        ]

    def _events(self):
        self.js("1")  # Brings in what is still on its way.
        return [
            event
            for event in self.browser.events
            if event.get("sessionId") == self.session and "method" in event
        ]

    def close(self):
        self.browser.call("Target.disposeBrowserContext", browserContextId=self.context)
