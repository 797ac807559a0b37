"""Python SDK 1.30 as a client."""

import asyncio

from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamablehttp_client
from shared import ARGS, HTTP, TARGET, count_calls, fill_in, logged, progressed, run, sampled, show


async def elicit(_context, params):
    return types.ElicitResult(action="accept", content=fill_in(params.requestedSchema))


async def sample(_context, params):
    content = types.TextContent(type="text", text=sampled(params.messages))
    return types.CreateMessageResult(role="assistant", model="scripted", content=content)


async def main() -> None:
    server = StdioServerParameters(command=TARGET, args=ARGS)
    transport = streamablehttp_client(TARGET) if HTTP else stdio_client(server)
    callbacks = {"elicitation_callback": elicit, "sampling_callback": sample, "logging_callback": logged}
    async with transport as (read, write, *_), ClientSession(read, write, **callbacks) as session:
        about = await session.initialize()
        tools = (await session.list_tools()).tools
        show({"revision": about.protocolVersion, "tools": [it.name for it in tools]})
        if about.capabilities.logging:
            await session.set_logging_level("info")

        async def call(tool, arguments):
            result = await session.call_tool(tool, arguments, progress_callback=progressed)
            return result.content, result.structuredContent, result.isError

        await run(call)


count_calls(ClientSession)
asyncio.run(main())
