"""Python SDK 2.3 as a client."""

import asyncio
import warnings

from mcp import Client, ClientSession, StdioServerParameters, types
from shared import ARGS, HTTP, MODERN, TARGET, called, count_calls, fill_in, logged, progressed, run, sampled, show


async def elicit(_context, params):
    return types.ElicitResult(action="accept", content=fill_in(params.requested_schema))


async def sample(_context, params):
    if params.tools:
        sampled(params.messages)
        call = types.ToolUseContent(
            type="tool_use", id="call_1", name=params.tools[0].name, input=called(params.tools[0])
        )
        return types.CreateMessageResultWithTools(
            role="assistant", model="scripted", content=[call], stop_reason="toolUse"
        )
    content = types.TextContent(type="text", text=sampled(params.messages))
    return types.CreateMessageResult(role="assistant", model="scripted", content=content)


async def main() -> None:
    async with Client(
        TARGET if HTTP else StdioServerParameters(command=TARGET, args=ARGS),
        mode="2026-07-28" if MODERN else "legacy",
        elicitation_callback=elicit,
        sampling_callback=sample,
        sampling_capabilities=types.SamplingCapability(tools=types.SamplingToolsCapability()),
        logging_callback=logged,
        log_level="info",
    ) as client:
        tools = (await client.list_tools()).tools
        show({"revision": client.protocol_version, "tools": [it.name for it in tools]})
        if not MODERN and client.server_capabilities.logging:
            await client.set_logging_level("info")

        async def call(tool, arguments):
            result = await client.call_tool(tool, arguments, progress_callback=progressed)
            return result.content, result.structured_content, result.is_error

        await run(call)


warnings.simplefilter("ignore")
count_calls(ClientSession)
asyncio.run(main())
