"""What the clients in Python have in common: SCRIPT legacy|modern CALLS URL, or a command instead of the URL."""

import json
import sys

ERA, CALLS, TARGET, *ARGS = sys.argv[1:]
HTTP = TARGET.startswith("http")
MODERN = ERA == "modern"

# What every client answers, by the name of the field.
ANSWERS = {
    "name": "Ada",
    "destination": "Lisbon",
    "month": "May",
    "hotel": "Aurora",
    "meal": "fish",
    "seat": "window",
}
heard = {}


def fill_in(schema):
    name = next(iter(schema["properties"]))
    heard["asked"].append(name)
    return {name: ANSWERS[name]}


def sampled(messages):
    content = messages[-1].content
    text = (content[0] if isinstance(content, list) else content).text
    heard["sampled"].append(text)
    return f"I was asked: {text}"


def called(tool):
    """What a model calls that is offered a tool: a client knows nothing of data, and passes it on."""
    heard["tools"].append(tool.name)
    schema = getattr(tool, "input_schema", None) or tool.inputSchema
    name = next(iter(schema["properties"]))
    return {name: ANSWERS[name]}


async def progressed(*_):
    heard["progress"] += 1


async def logged(_):
    heard["logs"] += 1


def count_calls(session):
    """Counts in the session, below the loop that retries with the answers."""
    send_request = session.send_request

    async def counting(self, request, *args, **kwargs):
        method = getattr(request, "method", None) or request.root.method
        if method == "tools/call":
            heard["calls"] += 1
        return await send_request(self, request, *args, **kwargs)

    session.send_request = counting


def show(line):
    print(json.dumps(line), flush=True)


async def run(call):
    """Makes the calls one after the other and prints a line for each."""
    for planned in json.loads(CALLS):
        heard.update(asked=[], sampled=[], tools=[], calls=0, progress=0, logs=0)
        try:
            content, structured, is_error = await call(planned["tool"], planned["arguments"])
            text = "\n".join(it.text for it in content if it.type == "text")
            result = {"ok": not is_error, "text": text, "structured": structured}
        except Exception as error:
            result = {"ok": False, "text": repr(error)}
        show({"cell": planned["cell"], **result, **heard})
