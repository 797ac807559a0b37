"""A host on mcp-use: `mcpuse.py MODEL_URL MCP_URL PROMPT`. Its user answers every form with what fits."""

import asyncio
import sys

from langchain_openai import ChatOpenAI
from mcp.types import ElicitResult
from mcp_use import MCPAgent, MCPClient

ANSWERS = {"desk": "B-12", "day": "2026-12-01", "email": "grace@example.com"}


async def answer(_, params):
    fields = (getattr(params, "requestedSchema", None) or {}).get("properties", {})
    return ElicitResult(action="accept", content={name: ANSWERS[name] for name in fields if name in ANSWERS})


async def main(model, url, prompt):
    client = MCPClient({"mcpServers": {"asking": {"url": url}}}, elicitation_callback=answer)
    llm = ChatOpenAI(model="stub", base_url=f"{model}/v1", api_key="none")
    print(await MCPAgent(llm=llm, client=client, max_steps=30).run(prompt))
    await client.close_all_sessions()


asyncio.run(main(*sys.argv[1:]))
