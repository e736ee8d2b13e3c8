"""A REST catalog of Iceberg tables over one in SQLite, written from Iceberg's OpenAPI specification."""

from __future__ import annotations

import json
import threading
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote

_MISSING = ("NoSuchTableError", "NoSuchNamespaceError")
_TAKEN = ("TableAlreadyExistsError", "NamespaceAlreadyExistsError", "CommitFailedException")


class RestCatalog:
    """The catalog behind the server.

    Parameters
    ----------
    root : Path
        Its directory.
    chooses : bool
        Whether it chooses the location of a table, each time another, as Nessie does.
    """

    def __init__(self, root: Path, *, chooses: bool) -> None:
        from pyiceberg.catalog.sql import SqlCatalog

        root.mkdir(parents=True)
        self.root, self._chooses = root, chooses
        self.sql = SqlCatalog("rest", uri=f"sqlite:///{root}/rest.db", warehouse=str(root))
        self.uri = ""
        self.before: Callable[[str, str], int | None] = lambda method, path: None  # a status: refuse
        self.after: Callable[[str, str], int | None] = lambda method, path: None  # a status: done, and fail
        self._lock = threading.Lock()

    def answer(self, method: str, path: str, body: Any) -> Any:
        """What a request gives."""
        from pyiceberg.schema import Schema
        from pyiceberg.table import CommitTableRequest, StagedTable

        words = [unquote(one) for one in path.removeprefix("/v1/").split("/")]
        if words == ["config"]:
            return {"defaults": {}, "overrides": {}}
        if words == ["namespaces"]:
            self.sql.create_namespace(tuple(body["namespace"]))
            return body
        namespace = tuple(words[1].split("\x1f"))
        if len(words) == 2:
            return {"namespace": namespace, "properties": dict(self.sql.load_namespace_properties(namespace))}
        if len(words) == 3:
            wanted = body.get("location") or f"{self.root}/{'.'.join(namespace)}/{body['name']}"
            location = f"{self.root}/{body['name']}_{uuid.uuid4()}" if self._chooses else wanted
            make: Any = self.sql._create_staged_table if body.get("stage-create") else self.sql.create_table
            schema = Schema.model_validate(body["schema"])
            return self._described(
                make((*namespace, body["name"]), schema, location, properties=body.get("properties", {}))
            )
        name = (*namespace, words[3])
        if method != "POST":
            return self._described(self.sql.load_table(name))
        request = CommitTableRequest.model_validate(body)
        if self.sql.table_exists(name):
            table = self.sql.load_table(name)
        else:
            table = StagedTable(name, None, "", None, self.sql)  # type: ignore[arg-type]
        done = self.sql.commit_table(table, request.requirements, request.updates)
        return json.loads(done.model_dump_json(by_alias=True))

    def _described(self, table: Any) -> Any:
        metadata = json.loads(table.metadata.model_dump_json(by_alias=True))
        return {"metadata-location": table.metadata_location, "metadata": metadata, "config": {}}

    def handle(self, method: str, path: str, body: Any) -> tuple[int, Any]:
        """The status and the body of an answer."""
        if (status := self.before(method, path)) is not None:
            return status, _error("Refused", status)
        try:
            with self._lock:
                found = self.answer(method, path.partition("?")[0], body)
        except Exception as error:
            kind = type(error).__name__
            status = 404 if kind in _MISSING else 409 if kind in _TAKEN else 500
            return status, _error(f"{kind}: {error}", status)
        if (status := self.after(method, path)) is not None:
            return status, _error("Failed", status)
        return 200, found


def _error(message: str, status: int) -> Any:
    return {"error": {"message": message, "type": "Error", "code": status}}


@contextmanager
def rest_catalog(root: Path, *, chooses: bool) -> Iterator[RestCatalog]:
    """A catalog at `RestCatalog.uri`."""
    catalog = RestCatalog(root, chooses=chooses)

    class Handler(BaseHTTPRequestHandler):
        def _any(self) -> None:
            length = int(self.headers.get("Content-Length") or 0)
            body = json.loads(self.rfile.read(length)) if length else None
            status, found = catalog.handle(self.command, self.path, body)
            data = b"" if self.command == "HEAD" else json.dumps(found).encode()
            self.send_response(status)
            self.send_header("Content-Length", str(len(data)))
            self.end_headers()
            self.wfile.write(data)

        do_GET = do_POST = do_HEAD = _any

        def log_message(self, *arguments: Any) -> None:
            """Be quiet."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        catalog.uri = f"http://127.0.0.1:{server.server_address[1]}"
        thread = threading.Thread(target=server.serve_forever, args=(0.05,))
        thread.start()
        try:
            yield catalog
        finally:
            server.shutdown()
            thread.join()
