"""FastMCP 4.1 as a server: python fastmcp_server.py stdio, or python fastmcp_server.py http PORT"""

import sys
import warnings
from dataclasses import dataclass

import mcp_types as types
from fastmcp import Context, FastMCP

warnings.simplefilter("ignore")
server = FastMCP("fastmcp")


@dataclass
class Name:
    name: str


@server.tool
def echo(message: str) -> str:
    return f"Echo: {message}"


def is_modern(ctx: Context) -> bool:
    return ctx.request_context.protocol_version >= "2026"


def ask(key: str, request: types.InputRequest) -> types.InputRequiredResult:
    return types.InputRequiredResult(input_requests={key: request})


# FastMCP leaves the eras to the author: a live request on 2025-11-25, a guard on 2026-07-28.
@server.tool(output_schema=None)
async def greet(ctx: Context):
    message = "What is your name?"
    if not is_modern(ctx):
        answer = await ctx.elicit(message, Name)
        return f"Hello, {answer.data.name}!"
    if answer := (ctx.input_responses or {}).get("who"):
        return f"Hello, {answer.content['name']}!"
    schema = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}
    params = types.ElicitRequestFormParams(message=message, requested_schema=schema)
    return ask("who", types.ElicitRequest(params=params))


@server.tool(output_schema=None)
async def consult(prompt: str, ctx: Context):
    messages = [types.SamplingMessage(role="user", content=types.TextContent(type="text", text=prompt))]
    if not is_modern(ctx):
        answer = await ctx.session.create_message(messages, max_tokens=50, related_request_id=ctx.request_id)
        return f"The model said: {answer.content.text}"
    if answer := (ctx.input_responses or {}).get("reply"):
        return f"The model said: {answer.content.text}"
    params = types.CreateMessageRequestParams(messages=messages, max_tokens=50)
    return ask("reply", types.CreateMessageRequest(params=params))


@server.tool
async def count(ctx: Context) -> str:
    for progress in (1, 2, 3):
        await ctx.report_progress(progress, 3)
    return "Counted to three"


@server.tool
async def chat(ctx: Context) -> str:
    await ctx.info("as you asked")
    return "Logged"


if sys.argv[1] == "stdio":
    server.run("stdio", show_banner=False)
else:
    server.run("http", host="127.0.0.1", port=int(sys.argv[2]), show_banner=False)
