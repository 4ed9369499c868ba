# Copyright (c) 2026 gpuops.nvidia contributors
# GNU General Public License v3.0+ (see LICENSES/GPL-3.0-or-later.txt or https://www.gnu.org/licenses/gpl-3.0.txt)
# SPDX-License-Identifier: GPL-3.0-or-later

"""``python -m lab.cluster.faults.webhook`` refuses every object that it is asked about, in Kyverno's words."""

from __future__ import annotations

import argparse
import http.server
import json
import ssl

from lab.cluster.api import Json

_WORDS = """

resource Pod/{namespace}/{name} was blocked due to the following policies

disallow-host-path:
  host-path: 'validation error: HostPath volumes are forbidden. The field spec.volumes[*].hostPath
    must be unset. rule host-path failed at path /spec/volumes/0/hostPath/'
"""


def answer(review: Json) -> Json:
    """Return the review with a refusal."""
    request = review["request"]
    name = request.get("name") or request["object"]["metadata"].get("generateName", "")
    message = _WORDS.format(namespace=request.get("namespace", ""), name=name)
    response = {"uid": request["uid"], "allowed": False, "status": {"message": message}}
    return {"apiVersion": review["apiVersion"], "kind": review["kind"], "response": response}


class _Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        review = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        data = json.dumps(answer(review)).encode()
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)


def main() -> None:
    """Serve until the process ends."""
    parser = argparse.ArgumentParser(prog="python -m lab.cluster.faults.webhook", description="Refuse every object.")
    for option in ("--kubeconfig", "--port", "--certificate", "--key"):
        parser.add_argument(option, required=True)
    given = parser.parse_args()
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(given.certificate, given.key)
    server = http.server.ThreadingHTTPServer(("127.0.0.1", int(given.port)), _Handler)
    server.socket = context.wrap_socket(server.socket, server_side=True)
    server.serve_forever()


if __name__ == "__main__":
    main()
