"""A schema registry in this process, with the requests that ganger makes of one."""

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any
from urllib.parse import unquote

FIRST_ID = 7


class FakeRegistry:
    """What it holds, and how it fails.

    Attributes:
        requests: `METHOD PATH` of each, in order.
        compatibility: level by subject.
        schemas: schema text by id; ids are given from `FIRST_ID` on.
        subjects: ids by subject, in order of registration.
        failing: status to answer everything with; 0: none.
        login: the value of the header `Authorization` that is asked for; empty: none.
        not_found_code: error code that goes with 404 for an id.
    """

    def __init__(self) -> None:
        self.requests: list[str] = []
        self.compatibility: dict[str, str] = {}
        self.schemas: dict[int, str] = {}
        self.types: dict[int, str] = {}
        self.subjects: dict[str, list[int]] = {}
        self.failing = 0
        self.login = ""
        self.not_found_code = 40403
        self.url = ""

    def add(self, text: str, kind: str = "AVRO") -> int:
        """Keep a schema; its id, the same for the same text."""
        for number, known in self.schemas.items():
            if known == text:
                return number
        number = FIRST_ID + len(self.schemas)
        self.schemas[number] = text
        self.types[number] = kind
        return number

    def answer(self, method: str, path: str, body: Any, login: str) -> tuple[int, Any]:
        """Status and JSON for one request."""
        self.requests.append(f"{method} {path}")
        if self.failing:
            return self.failing, {"error_code": self.failing, "message": "told to fail"}
        if login != self.login:
            return 401, {"error_code": 401, "message": "who are you?"}
        parts = [unquote(part) for part in path.partition("?")[0].strip("/").split("/")]
        match method, parts:
            case "PUT", ["config", subject]:
                self.compatibility[subject] = body["compatibility"]
                return 200, body
            case "POST", ["subjects", subject, "versions"]:
                if subject not in self.compatibility:
                    return 409, {"error_code": 409, "message": "compatibility comes first"}
                number = self.add(body["schema"])
                known = self.subjects.setdefault(subject, [])
                if number not in known:
                    known.append(number)
                return 200, {"id": number}
            case "GET", ["schemas", "ids", number]:
                return self._schema(int(number))
        return 404, {"error_code": 404, "message": "HTTP 404 Not Found"}

    def _schema(self, number: int) -> tuple[int, Any]:
        if number not in self.schemas:
            return 404, {"error_code": self.not_found_code, "message": "no such schema"}
        return 200, {"schema": self.schemas[number], "schemaType": self.types[number]}


@contextmanager
def serving() -> Iterator[FakeRegistry]:
    """A registry on a free port of the loopback."""
    registry = FakeRegistry()

    class Handler(BaseHTTPRequestHandler):
        def _respond(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            login = self.headers.get("Authorization") or ""
            status, answer = registry.answer(self.command, self.path, body, login)
            data = json.dumps(answer).encode()
            self.send_response(status)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_PUT = _respond

        def log_message(self, format: str, *args: object) -> None:
            """Keeps quiet."""

    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    registry.url = f"http://127.0.0.1:{server.server_port}"
    try:
        yield registry
    finally:
        server.shutdown()
        thread.join()
        server.server_close()
