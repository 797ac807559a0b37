"""Python SDK 2.3 as a client: python py2.py legacy|2026-07-28 URL, or MODE COMMAND ARGUMENT..."""

import asyncio
import json
import sys

from mcp import Client, ClientSession, StdioServerParameters, types

ANSWERS = {"destination": "Lisbon", "month": "May", "hotel": "Aurora", "meal": "fish", "seat": "window"}

asked: list[str] = []
calls = 0
send_request = ClientSession.send_request


async def counting(self, request, *args, **kwargs):
    """Counts in the session, below the loop that retries with the answers."""
    global calls
    calls += request.method == "tools/call"
    return await send_request(self, request, *args, **kwargs)


async def elicit(_context, params):
    schema = params.requested_schema
    name = next(iter(schema["properties"]))
    asked.append(name)
    return types.ElicitResult(action="accept", content={name: ANSWERS[name]})


async def main(mode: str, target: str, *args: str) -> None:
    http = target.startswith("http")
    server = target if http else StdioServerParameters(command=target, args=list(args))
    async with Client(server, mode=mode, elicitation_callback=elicit) as client:
        result = await client.call_tool("plan_trip", {"traveller": "Ada"})
        line = {
            "client": "py2",
            "revision": client.protocol_version,
            "transport": "http" if http else "stdio",
            "text": result.content[0].text if result.content else None,
            "structured": result.structured_content,
            "asked": asked,
            "calls": calls,
            "ok": not result.is_error,
        }
    print(json.dumps(line), flush=True)


ClientSession.send_request = counting
asyncio.run(main(*sys.argv[1:]))
