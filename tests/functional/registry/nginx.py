"""Debian's nginx over https, as publishers run it: static files, redirects, pages for people."""

import os
import shutil
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from local.kube.tls import Tls

_CONFIG = """\
daemon off; worker_processes 1; {user}pid {root}/pid; error_log {root}/errors info;
events {{ worker_connections 64; }}
http {{
  access_log off; root {root}/html; default_type application/octet-stream;
  client_body_temp_path {root}/t1; proxy_temp_path {root}/t2; fastcgi_temp_path {root}/t3;
  uwsgi_temp_path {root}/t4; scgi_temp_path {root}/t5;
  log_format asked '$host $request $status "$http_accept_encoding" "$http_authorization"';
  server {{
    listen 127.0.0.1:{port} ssl; listen 127.0.0.2:{port} ssl; server_name 127.0.0.1 localhost;
    access_log {root}/asked asked;
    ssl_certificate {root}/tls.crt; ssl_certificate_key {root}/tls.key;
    location / {{ }}
    location = /moved/index.yaml {{ return 301 https://localhost:{port}/deep/er/index.yaml; }}
    location ~ ^/hops/(?<left>[1-9])/(?<rest>.*)$ {{
      set $next $left; include {root}/hops.conf; return 302 /hops/$next/$rest;
    }}
    location /hops/0/ {{ alias {root}/html/stable/; }}
    location /down/ {{ return 302 http://127.0.0.1:{port}/stable/index.yaml; }}
    location /zipped/ {{ alias {root}/html/zipped/; gzip_static always; }}
    location /people/ {{ default_type text/html; try_files $uri /sign-in.html; }}
    location /closed/ {{ deny all; }}
    location /basic/ {{ auth_basic "people"; auth_basic_user_file {root}/htpasswd; }}
    location /busy/ {{ return 503; }}
  }}
}}
"""


@dataclass(frozen=True)
class Nginx:
    """A running server; both hosts are the same one under two names. 127.0.0.2 is not in its certificate."""

    root: Path
    port: int

    @property
    def host(self) -> str:
        return f"127.0.0.1:{self.port}"

    @property
    def other(self) -> str:
        return f"localhost:{self.port}"

    @property
    def authority(self) -> Path:
        """The certificate to trust."""
        return self.root / "ca.crt"

    def put(self, path: str, content: bytes) -> None:
        """Serve a file."""
        file = self.root / "html" / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_bytes(content)

    def asked(self, count: int) -> list[str]:
        """Requests since the last call: host, request line, status, Accept-Encoding and Authorization.

        nginx writes a line after its answer is out, so it is waited for until there are as many as expected.
        """
        log, deadline = self.root / "asked", time.monotonic() + 5
        while (found := log.read_text()).count("\n") < count and time.monotonic() < deadline:
            time.sleep(0.005)
        os.truncate(log, 0)
        return found.splitlines()


@contextmanager
def nginx(folder: Path) -> Iterator[Nginx]:
    """Start nginx on a free port; it inherits the socket, so nobody can take the port in between."""
    program = shutil.which("nginx", path=os.environ.get("PATH", "") + ":/usr/sbin")
    if program is None:
        pytest.skip("nginx is not installed (apt-get install nginx-light): https repositories not run")
    with (
        socket.create_server(("127.0.0.1", 0)) as listener,
        socket.create_server(("127.0.0.2", listener.getsockname()[1])) as unnamed,
    ):
        found = Nginx(folder, listener.getsockname()[1])
        sockets = [listener.fileno(), unnamed.fileno()]
        tls = Tls.self_signed()
        for name, text in (("tls.crt", tls.certificate), ("tls.key", tls.key), ("ca.crt", tls.ca)):
            (folder / name).write_text(text)
        hops = "".join(f"if ($left = {left}) {{ set $next {left - 1}; }}\n" for left in range(1, 10))
        (folder / "hops.conf").write_text(hops)
        (folder / "htpasswd").write_text("reader:{PLAIN}right-password\n")
        # Its worker would else be somebody who cannot read a test's folder.
        user = "user root; " if os.geteuid() == 0 else ""
        (folder / "asked").write_text("")
        (folder / "nginx.conf").write_text(_CONFIG.format(root=folder, port=found.port, user=user))
        environment = {"PATH": "/usr/bin:/bin", "NGINX": "".join(f"{one};" for one in sockets)}
        process = subprocess.Popen(
            [program, "-p", str(folder), "-e", str(folder / "errors"), "-c", str(folder / "nginx.conf")],
            env=environment, pass_fds=sockets, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE,
        )  # fmt: skip
    try:
        deadline = time.monotonic() + 10
        while not (folder / "pid").exists():
            if process.poll() is not None or time.monotonic() > deadline:
                said = process.stderr.read().decode() if process.stderr and process.poll() is not None else ""
                pytest.fail(f"nginx did not start: {said}")
            time.sleep(0.01)
        yield found
    finally:
        process.terminate()
        process.wait(timeout=10)
        if process.stderr:
            process.stderr.close()
