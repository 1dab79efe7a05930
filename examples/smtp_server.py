"""A mail server on loopback that keeps what it is sent: the port on the first line, then one line of JSON a mail."""

import json
import signal
import sys

from aiosmtpd.controller import Controller


class Keep:
    async def handle_DATA(self, server, session, envelope):
        mail = {"from": envelope.mail_from, "to": envelope.rcpt_tos, "text": envelope.content.decode()}
        print(json.dumps(mail), flush=True)
        return "250 kept"


port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
controller = Controller(Keep(), hostname="127.0.0.1", port=port)
controller._trigger_server = lambda: None  # It would connect to port 0 to see whether the server is there.
controller.start()
print(controller.server.sockets[0].getsockname()[1], flush=True)
sys.stdin.read()  # Until whoever started it goes away.
controller.stop(no_assert=True)
