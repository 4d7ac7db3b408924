"""A stand-in for a model hub on the loopback: the part of its HTTP interface that the client uses.

It has repositories with branches and commits, files in git and large files beside it (LFS), tokens
that may read or write, ranges, and a second name of the host for large files, which refuses tokens
as signed addresses do. Tests break it on purpose.
"""

import base64
import contextlib
import hashlib
import json
import os
import re
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import unquote, urlsplit

import pytest

WRITER, READER = "hf_writer", "hf_reader"
"""The tokens that the hub knows. The first one may write to the organisation `anna`."""

LARGE = (".safetensors", ".model", ".bin")
"""Endings of names of large files."""


def git_name(content: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(content) + content).hexdigest()


@dataclass
class Repository:
    """The commits of each branch; a commit is its files."""

    private: bool = False
    commits: dict[str, dict[str, bytes]] = field(default_factory=dict)
    branches: dict[str, str] = field(default_factory=dict)

    def add(self, branch: str, files: dict[str, bytes]) -> str:
        whole = {**self.files(branch), **files}
        text = f"{len(self.commits)} {sorted((k, git_name(v)) for k, v in whole.items())}"
        commit = hashlib.sha1(text.encode()).hexdigest()
        self.commits[commit], self.branches[branch] = whole, commit
        return commit

    def files(self, revision: str) -> dict[str, bytes]:
        return self.commits.get(self.commit(revision) or "", {})

    def commit(self, revision: str) -> str | None:
        return revision if revision in self.commits else self.branches.get(revision)


class Hub(ThreadingHTTPServer):
    """The server. Tests read what it was asked, and set what goes wrong."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), _Handler)
        self.repositories: dict[str, Repository] = {}
        self.large: dict[str, bytes] = {}
        self.asked: list[str] = []
        """Method and path of each request, with its range."""
        self.received: list[str] = []
        """Checksums of the large files that arrived."""
        self.stop_after: int | None = None
        """Bytes after which the server sends nothing more, of a large file of twice as many."""
        self.break_after: int | None = None
        """Bytes of a large file after which the server closes the connection, once."""
        self.refuse_uploads_after: int | None = None
        """Number of large files after which an upload is not answered."""
        self.refuses_commits = False
        """True to answer 500 to a commit, after its large files have arrived."""
        self.down = False
        """True to answer 503 to everything."""
        self.warning = ""
        """A warning about a card."""
        self.stalled = threading.Event()
        """Set when the server has stopped in the middle of a file."""

    @property
    def address(self) -> str:
        return f"http://127.0.0.1:{self.server_port}"

    def repository(self, name: str, files: dict[str, bytes] | None = None) -> Repository:
        found = self.repositories.setdefault(name, Repository())
        found.add("main", files or {})
        return found


@contextlib.contextmanager
def running_hub() -> Iterator[Hub]:
    hub = Hub()
    thread = threading.Thread(target=hub.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield hub
    finally:
        hub.shutdown()
        hub.server_close()


class _Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    server: Hub

    def log_message(self, format: str, *args: Any) -> None:
        pass

    def do_HEAD(self) -> None:
        self._route()

    do_GET = do_POST = do_PUT = do_HEAD

    def _route(self) -> None:
        path = unquote(urlsplit(self.path).path)
        of_range = self.headers.get("Range")
        self.server.asked.append(f"{self.command} {path}{f' {of_range}' if of_range else ''}")
        length = int(self.headers.get("Content-Length") or 0)
        if self.headers.get("Transfer-Encoding") == "chunked":
            self.body = b"".join(self._chunks())
        else:
            self.body = self.rfile.read(length)
        if self.server.down:
            return self._json(503, {"error": "overloaded"})
        if path.startswith("/cdn/"):
            return self._large(path.removeprefix("/cdn/"))
        if path.startswith("/upload/"):
            return self._upload(path.removeprefix("/upload/"))
        token = (self.headers.get("Authorization") or "").removeprefix("Bearer ")
        self.may_write = token == WRITER
        if token not in ("", WRITER, READER):
            return self._json(401, {"error": "Invalid credentials in Authorization header"})
        self.knows = token != ""
        for pattern, method in _ROUTES:
            if found := re.fullmatch(pattern, path):
                return method(self, *found.groups())
        return self._json(404, {"error": f"no route {path}"})

    def _chunks(self) -> Iterator[bytes]:
        while size := int(self.rfile.readline(), 16):
            yield self.rfile.read(size)
            self.rfile.readline()
        self.rfile.readline()

    def _json(self, status: int, value: Any, code: str = "") -> None:
        data = json.dumps(value).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        if status >= 400 and isinstance(value, dict):
            self.send_header("X-Error-Message", str(value.get("error", "")))
        if code:
            self.send_header("X-Error-Code", code)
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(data)

    def _found(self, name: str, revision: str) -> tuple[Repository, str] | None:
        """Find a repository and a commit; answer and return None if it is not to be had."""
        repository = self.server.repositories.get(name)
        if repository is None or (repository.private and not self.knows):
            self._json(
                404 if self.knows else 401, {"error": "Repository not found"}, "RepoNotFound"
            )
            return None
        commit = repository.commit(revision)
        if commit is None:
            self._json(404, {"error": f"Invalid rev id: {revision}"}, "RevisionNotFound")
            return None
        return repository, commit

    def _info(self, name: str, revision: str | None = None) -> None:
        if found := self._found(name, revision or "main"):
            repository, commit = found
            self._json(
                200,
                {
                    "_id": name, "id": name, "modelId": name, "sha": commit, "tags": [],
                    "private": repository.private, "downloads": 0, "likes": 0,
                    "siblings": [{"rfilename": each} for each in repository.commits[commit]],
                },
            )  # fmt: skip

    def _resolve(self, name: str, revision: str, file: str) -> None:
        if not (found := self._found(name, revision)):
            return
        repository, commit = found
        content = repository.commits[commit].get(file)
        if content is None:
            self._json(404, {"error": "Entry not found"}, "EntryNotFound")
            return
        large = file.endswith(LARGE)
        sha256 = hashlib.sha256(content).hexdigest()
        self.send_response(302 if large else 200)
        self.send_header("X-Repo-Commit", commit)
        if large:
            self.server.large.setdefault(sha256, content)
            self.send_header("Location", f"http://localhost:{self.server.server_port}/cdn/{sha256}")
            self.send_header("X-Linked-Etag", f'"{sha256}"')
            self.send_header("X-Linked-Size", str(len(content)))
        else:
            self.send_header("ETag", f'"{git_name(content)}"')
        self.send_header("Content-Length", "0" if large else str(len(content)))
        self.end_headers()
        if self.command == "GET" and not large:
            self.wfile.write(content)

    def _large(self, sha256: str) -> None:
        if self.headers.get("Authorization"):
            return self._json(400, {"error": "signed addresses take no token"})
        content = self.server.large[sha256]
        first = 0
        if found := re.fullmatch(r"bytes=(\d+)-(\d*)", self.headers.get("Range") or ""):
            first = int(found[1])
        self.send_response(206 if first else 200)
        self.send_header("ETag", f'"{sha256}"')
        self.send_header("Content-Length", str(len(content) - first))
        if first:
            last = len(content) - 1
            self.send_header("Content-Range", f"bytes {first}-{last}/{len(content)}")
        self.end_headers()
        if self.server.stop_after is not None and len(content) > 2 * self.server.stop_after:
            self.wfile.write(content[first : self.server.stop_after])
            self.wfile.flush()
            self.server.stalled.set()
            time.sleep(60)
        if self.server.break_after is not None:
            self.wfile.write(content[first : self.server.break_after])
            self.wfile.flush()
            self.server.break_after, self.close_connection = None, True
            return None
        self.wfile.write(content[first:])
        return None

    def _create(self) -> None:
        asked = json.loads(self.body)
        name = f"{asked['organization']}/{asked['name']}"
        if not self.knows:
            return self._json(401, {"error": "Invalid username or password."})
        if not self.may_write or asked["organization"] != "anna":
            return self._json(403, {"error": "You don't have the rights to create a model"})
        there = name in self.server.repositories
        if not there:
            self.server.repository(name, {".gitattributes": b"*.safetensors filter=lfs\n"})
            private = asked.get("private") or asked.get("visibility") == "private"
            self.server.repositories[name].private = bool(private)
        address = f"{self.server.address}/{name}"
        return self._json(409 if there else 200, {"url": address, "name": name, "id": name})

    def _branch(self, name: str, branch: str) -> None:
        repository = self.server.repositories[name]
        there = branch in repository.branches
        if not there:
            repository.branches[branch] = repository.branches["main"]
        self._json(409 if there else 201, {})

    def _yaml(self) -> None:
        warnings = [{"message": self.server.warning}] if self.server.warning else []
        if 'license: "no such"' in json.loads(self.body)["content"]:
            return self._json(400, {"errors": [{"message": '"license" must be one of these'}]})
        return self._json(200, {"errors": [], "warnings": warnings})

    def _preupload(self, name: str, branch: str) -> None:
        if not (found := self._found(name, branch)):
            return None
        if not self.may_write:
            return self._json(403, {"error": "Forbidden: pass `create_pr=1`"})
        there = found[0].files(branch)
        files = []
        for each in json.loads(self.body)["files"]:
            path = each["path"]
            answer = {"path": path, "shouldIgnore": False}
            answer["uploadMode"] = "lfs" if path.endswith(LARGE) else "regular"
            if path in there and not path.endswith(LARGE):
                answer["oid"] = git_name(there[path])
            elif path in there:
                answer["oid"] = hashlib.sha256(there[path]).hexdigest()
            files.append(answer)
        return self._json(200, {"files": files})

    def _batch(self, name: str) -> None:
        objects = []
        for each in json.loads(self.body)["objects"]:
            answer = {"oid": each["oid"], "size": each["size"]}
            if each["oid"] not in self.server.large:
                href = f"{self.server.address}/upload/{each['oid']}"
                answer["actions"] = {"upload": {"href": href, "header": {}}}
            objects.append(answer)
        self._json(200, {"transfer": "basic", "objects": objects})

    def _upload(self, sha256: str) -> None:
        most = self.server.refuse_uploads_after
        if most is not None and len(self.server.received) >= most:
            self.server.stalled.set()
            time.sleep(60)
        if hashlib.sha256(self.body).hexdigest() != sha256:
            return self._json(400, {"error": "checksum differs"})
        self.server.large[sha256] = self.body
        self.server.received.append(sha256)
        return self._json(200, {})

    def _commit(self, name: str, branch: str) -> None:
        if self.server.refuses_commits:
            return self._json(500, {"error": "try later"})
        repository, files = self.server.repositories[name], {}
        for line in self.body.splitlines():
            entry = json.loads(line)
            value = entry["value"]
            if entry["key"] == "file":
                files[value["path"]] = base64.b64decode(value["content"])
            elif entry["key"] == "lfsFile":
                files[value["path"]] = self.server.large[value["oid"]]
        commit = repository.add(branch, files)
        address = f"{self.server.address}/{name}/commit/{commit}"
        return self._json(200, {"commitUrl": address, "commitOid": commit, "pullRequestUrl": None})


_NAME = "([^/]+/[^/]+)"
_ROUTES = [
    (f"/api/models/{_NAME}", _Handler._info),
    (f"/api/models/{_NAME}/revision/(.+)", _Handler._info),
    (f"/{_NAME}/resolve/([^/]+)/(.+)", _Handler._resolve),
    ("/api/repos/create", _Handler._create),
    (f"/api/models/{_NAME}/branch/(.+)", _Handler._branch),
    ("/api/validate-yaml", _Handler._yaml),
    (f"/api/models/{_NAME}/preupload/(.+)", _Handler._preupload),
    (f"/{_NAME}.git/info/lfs/objects/batch", _Handler._batch),
    (f"/api/models/{_NAME}/commit/(.+)", _Handler._commit),
]


def connect(hub: Hub, home: Path, patch: pytest.MonkeyPatch, token: str | None = WRITER) -> None:
    """Let the client of this process use the hub, with an empty cache in `home`.

    The client reads the environment when it is imported, which other tests may have done.
    """
    constants = pytest.importorskip("huggingface_hub.constants")
    values: dict[str, object] = {
        "ENDPOINT": hub.address,
        "HUGGINGFACE_CO_URL_TEMPLATE": hub.address + "/{repo_id}/resolve/{revision}/{filename}",
        "HF_HUB_CACHE": str(home / "hub"),
        "HF_TOKEN_PATH": str(home / "token"),
        "HF_STORED_TOKENS_PATH": str(home / "stored_tokens"),
        "HF_HUB_OFFLINE": False,
        "HF_HUB_DISABLE_XET": True,
        "HF_HUB_DISABLE_TELEMETRY": True,
        "HF_HUB_DISABLE_PROGRESS_BARS": None,
    }
    for name, value in values.items():
        patch.setattr(constants, name, value)
    if token is None:
        patch.delenv("HF_TOKEN", raising=False)
    else:
        patch.setenv("HF_TOKEN", token)


def environment(hub: Hub, home: Path) -> dict[str, str]:
    """The variables with which a new process uses the hub."""
    return {
        **os.environ,
        "HF_ENDPOINT": hub.address, "HF_HOME": str(home), "HF_TOKEN": WRITER,
        "HF_HUB_DISABLE_XET": "1", "HF_HUB_DISABLE_TELEMETRY": "1",
    }  # fmt: skip


def contents(directory: Path) -> dict[str, bytes]:
    """The files of a directory, as a commit has them."""
    return {each.name: each.read_bytes() for each in directory.iterdir()}
