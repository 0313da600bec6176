"""A hub on loopback that real Hugging Face clients download from, and those clients."""
import dataclasses
import hashlib
import http.server
import json
import os
import re
import subprocess
import sys
import threading
import urllib.parse
from pathlib import Path

VERSIONS = ("0.36.2", "1.33.0", "2.4.0")


def git_blob(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


@dataclasses.dataclass
class Repo:
    """One commit of a repository: {path: bytes}. Files named in `large` are kept as large ones are: by SHA-256."""

    files: dict
    commit: str
    refs: tuple = ("main",)
    large: str = r"\.(safetensors|bin|gguf)$"

    def etag(self, path):
        data = self.files[path]
        return hashlib.sha256(data).hexdigest() if re.search(self.large, path) else git_blob(data)

    def tree(self):
        for path, data in sorted(self.files.items()):
            entry = {"type": "file", "path": path, "size": len(data), "oid": git_blob(data)}
            if re.search(self.large, path):
                pointer = f"version https://git-lfs.github.com/spec/v1\noid sha256:{self.etag(path)}\nsize {len(data)}\n"
                entry |= {"oid": git_blob(pointer.encode()),
                          "lfs": {"oid": self.etag(path), "size": len(data), "pointerSize": len(pointer)}}
            yield entry


def make_cache(cache, repo, repo_id="org/name", refs=None, tree=True):
    """The client's layout, made by hand: for what no client leaves by itself. The repository's folder."""
    top = cache / f"models--{repo_id.replace('/', '--')}"
    snapshot = top / "snapshots" / repo.commit
    for path, data in repo.files.items():
        blob, link = top / "blobs" / repo.etag(path), snapshot / path
        blob.parent.mkdir(parents=True, exist_ok=True)
        link.parent.mkdir(parents=True, exist_ok=True)
        blob.write_bytes(data)
        link.symlink_to(os.path.relpath(blob, link.parent))
    for ref in repo.refs if refs is None else refs:
        (top / "refs" / ref).parent.mkdir(parents=True, exist_ok=True)
        (top / "refs" / ref).write_text(repo.commit)
    if tree:
        (top / "trees").mkdir(exist_ok=True)
        files = {}
        for entry in repo.tree():
            files[entry["path"]] = {"size": entry["size"], "blob_id": entry["oid"]}
            if "lfs" in entry:
                files[entry["path"]] |= {"lfs_sha256": entry["lfs"]["oid"], "lfs_size": entry["lfs"]["size"]}
        (top / "trees" / f"{repo.commit}.json").write_text(json.dumps({"format_version": 1, "files": files}))
    return top


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def answer(self, status, body, **headers):
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name.replace("_", "-"), value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def miss(self, code):
        self.answer(404, json.dumps({"error": code}).encode(), X_Error_Code=code, X_Error_Message=code)

    def find(self, repo_id, revision):
        for repo in self.server.repos.get(repo_id, []):
            if revision == repo.commit or revision in repo.refs:
                return repo
        return None

    def api(self, parts):
        at = next((i for i, part in enumerate(parts) if part in ("revision", "tree")), len(parts))
        repo_id, rest = "/".join(parts[:at]), parts[at:]
        repo = self.find(repo_id, rest[1] if rest else "main")
        if repo_id not in self.server.repos:
            return self.miss("RepoNotFound")
        if repo is None:
            return self.miss("RevisionNotFound")
        if rest and rest[0] == "tree":
            body = list(repo.tree())
        else:
            body = {"id": repo_id, "sha": repo.commit, "siblings": [{"rfilename": p} for p in sorted(repo.files)],
                    "private": False, "gated": False, "disabled": False, "tags": [], "downloads": 0, "likes": 0}
        return self.answer(200, json.dumps(body).encode(), Content_Type="application/json")

    def resolve(self, parts):
        at = parts.index("resolve")
        repo, path = self.find("/".join(parts[:at]), parts[at + 1]), "/".join(parts[at + 2:])
        if repo is None:
            return self.miss("RevisionNotFound")
        if path not in repo.files:
            return self.miss("EntryNotFound")
        data = repo.files[path]
        return self.answer(200, data, ETag=f'"{repo.etag(path)}"', X_Repo_Commit=repo.commit)

    def do_GET(self):
        parts = [urllib.parse.unquote(p) for p in self.path.partition("?")[0].strip("/").split("/")]
        if parts[:2] == ["api", "models"]:
            self.api(parts[2:])
        elif "resolve" in parts:
            self.resolve(parts)
        else:
            self.miss("EntryNotFound")

    do_HEAD = do_GET


class Hub:
    """Serves {repository id: [Repo, …]} until it is closed."""

    def __init__(self, repos):
        self.server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.server.repos = repos
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


class Client:
    """huggingface_hub of one version: runs a script that sets `result`, and gives it back through JSON."""

    def __init__(self, version, folder, home):
        self.version, self.folder, self.home = version, Path(folder).resolve(strict=True), Path(home)

    def __call__(self, script, endpoint=None, **names):
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "HF_HOME": str(self.home / "hf"),
            "PYTHONPATH": str(self.folder),
            "PYTHONDONTWRITEBYTECODE": "1",
            "HF_HUB_DISABLE_TELEMETRY": "1",
            "HF_HUB_DISABLE_PROGRESS_BARS": "1",
            "HF_HUB_DISABLE_UPDATE_CHECK": "1",
            **({"HF_ENDPOINT": endpoint} if endpoint else {"HF_HUB_OFFLINE": "1"}),
        }
        code = "\n".join([
            "import json, sys",
            "import huggingface_hub as hub",
            f"assert hub.__version__ == {self.version!r}, hub.__file__",
            "globals().update(json.loads(sys.argv[1]))",
            script,
            "print(json.dumps(result))",
        ])
        names = {k: os.fspath(v) if isinstance(v, os.PathLike) else v for k, v in names.items()}
        done = subprocess.run([sys.executable, "-c", code, json.dumps(names)], env=env, capture_output=True,
                              stdin=subprocess.DEVNULL, timeout=120)
        assert done.returncode == 0, done.stderr.decode()[-3000:]
        return json.loads(done.stdout)

    def download(self, hub, repo_id, cache, **kwargs):
        """snapshot_download from the hub into a cache; the snapshot's folder."""
        return Path(self("result = str(hub.snapshot_download(repo_id, cache_dir=cache, **kwargs))", endpoint=hub.url,
                         repo_id=repo_id, cache=cache, kwargs=kwargs))
