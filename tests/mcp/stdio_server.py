"""An MCP server over standard input and output, which can be rude. Arguments: a file that counts executions, the number of
the message (from 0) at which the process ends (-1 for none), and how many bytes of its answer are written (-1: it is not
executed)."""

import json
import os
import signal
import subprocess
import sys
import time

executions, cut_at, cut_bytes = sys.argv[1], int(sys.argv[2]), int(sys.argv[3])


def executed():
    with open(executions, "a") as file:
        file.write("x")


def tool(name):
    if name == "environment":
        return json.dumps(sorted(os.environ))
    if name == "processes":
        child = subprocess.Popen(["sleep", "100000"])
        return json.dumps([os.getpid(), child.pid])
    if name == "stubborn":
        signal.signal(signal.SIGTERM, signal.SIG_IGN)
        return json.dumps([os.getpid()])
    if name == "noise":
        sys.stderr.write("noise " * 200_000)
        sys.stderr.flush()
        return "quiet"
    if name == "huge":
        return "x" * 3_000_000
    executed()
    return "paid"


def answer(message):
    method, params = message["method"], message.get("params", {})
    if method == "initialize":
        return {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}}, "serverInfo": {"name": "s", "version": "1"}}
    if method == "tools/call":
        return {"content": [{"type": "text", "text": tool(params["name"])}]}
    return None


stubborn = False
number = -1
for line in sys.stdin:
    number += 1
    message = json.loads(line)
    if number == cut_at and cut_bytes < 0:
        os._exit(1)
    result = answer(message)
    stubborn = stubborn or message.get("params", {}).get("name") == "stubborn"
    if "id" in message:
        reply = {"jsonrpc": "2.0", "id": message["id"]}
        if result is None:
            reply["error"] = {"code": -32601, "message": "unknown method"}
        else:
            reply["result"] = result
        text = json.dumps(reply) + "\n"
        if number == cut_at:
            text = text[:cut_bytes]
        sys.stdout.write(text)
        sys.stdout.flush()
    if number == cut_at:
        os._exit(1)
while stubborn:
    time.sleep(1)
