"""FastMCP 4.1 as a client."""

import asyncio
import warnings

from fastmcp import Client
from fastmcp.client.elicitation import ElicitResult
from fastmcp.client.transports import StdioTransport
from mcp import ClientSession, types
from shared import ARGS, HTTP, MODERN, TARGET, called, count_calls, fill_in, logged, progressed, run, sampled, show


async def elicit(_message, _type, params, _context):
    return ElicitResult(action="accept", content=fill_in(params.requested_schema))


async def sample(messages, params, _context):
    if params.tools:
        sampled(messages)
        call = types.ToolUseContent(
            type="tool_use", id="call_1", name=params.tools[0].name, input=called(params.tools[0])
        )
        return types.CreateMessageResultWithTools(
            role="assistant", model="scripted", content=[call], stop_reason="toolUse"
        )
    return sampled(messages)


async def main() -> None:
    async with Client(
        TARGET if HTTP else StdioTransport(TARGET, ARGS),
        mode="auto" if MODERN else "legacy",
        elicitation_handler=elicit,
        sampling_handler=sample,
        sampling_capabilities=types.SamplingCapability(tools=types.SamplingToolsCapability()),
        log_handler=logged,
    ) as client:
        tools = await client.list_tools()
        show({"revision": client.protocol_version, "tools": [it.name for it in tools]})
        if not MODERN and client.initialize_result.capabilities.logging:
            await client.set_logging_level("info")
        meta = {"io.modelcontextprotocol/logLevel": "info"} if MODERN else None

        async def call(tool, arguments):
            result = await client.call_tool_mcp(tool, arguments, progress_handler=progressed, meta=meta)
            return result.content, result.structured_content, result.is_error

        await run(call)


warnings.simplefilter("ignore")
count_calls(ClientSession)
asyncio.run(main())
