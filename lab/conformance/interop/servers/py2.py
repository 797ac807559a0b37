"""Python SDK 2.3 as a server: python py2.py stdio, or python py2.py http PORT"""

import sys
import warnings
from typing import Annotated

from mcp import types
from mcp.server.mcpserver import Context, Elicit, MCPServer, Resolve, Sample
from pydantic import BaseModel

warnings.simplefilter("ignore")
server = MCPServer("py2")


class Name(BaseModel):
    name: str


def who() -> Elicit[Name]:
    return Elicit("What is your name?", Name)


def reply(prompt: str) -> Sample:
    content = types.TextContent(type="text", text=prompt)
    return Sample([types.SamplingMessage(role="user", content=content)], max_tokens=50)


@server.tool()
def echo(message: str) -> str:
    return f"Echo: {message}"


# One definition for both eras: the SDK turns what is resolved into live requests or into rounds.
@server.tool()
def greet(answer: Annotated[Name, Resolve(who)]) -> str:
    return f"Hello, {answer.name}!"


@server.tool()
def consult(prompt: str, answer: Annotated[types.CreateMessageResult, Resolve(reply)]) -> str:
    return f"The model said: {answer.content.text}"


@server.tool()
async def count(ctx: Context) -> str:
    for progress in (1, 2, 3):
        await ctx.report_progress(progress, 3)
    return "Counted to three"


@server.tool()
async def chat(ctx: Context) -> str:
    await ctx.info("as you asked")
    return "Logged"


if sys.argv[1] == "stdio":
    server.run("stdio")
else:
    server.run("streamable-http", host="127.0.0.1", port=int(sys.argv[2]))
