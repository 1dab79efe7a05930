"""A mail server on loopback that keeps what it is sent: the port on the first line, then one line of JSON a mail."""

import asyncio
import json
import sys

from aiosmtpd.smtp import SMTP


class Keep:
    async def handle_DATA(self, server, session, envelope):
        mail = {"from": envelope.mail_from, "to": envelope.rcpt_tos, "text": envelope.content.decode()}
        print(json.dumps(mail), flush=True)
        return "250 kept"


async def serve():
    loop = asyncio.get_running_loop()
    port = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    server = await loop.create_server(lambda: SMTP(Keep()), "127.0.0.1", port)
    print(server.sockets[0].getsockname()[1], flush=True)
    # Until the process that started it ends.
    await loop.run_in_executor(None, sys.stdin.read)


asyncio.run(serve())
