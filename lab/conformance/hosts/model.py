"""A scripted model behind the APIs of OpenAI and Gemini, for `cargo xtask hosts`.

    model.py PORT LOG PLAN ANSWERS

PLAN is a JSON list of tool calls, such as [["onboard", {"name": "Grace"}]]. The model makes these calls in order. If a
result says that a run has not finished, the model follows the text before it continues with the plan. If the text has a
link to an answer page, the user opens the link first and answers with ANSWERS, a JSON object. Each request of a host
becomes one line of LOG: the tools that the model can call, and all results as the model reads them.
"""

import gzip
import json
import re
import sys
import urllib.parse
import urllib.request
from html.parser import HTMLParser
from http.cookiejar import CookieJar
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

PORT, LOG, PLAN, ANSWERS = int(sys.argv[1]), sys.argv[2], json.loads(sys.argv[3]), json.loads(sys.argv[4])
# The prompt contains this word. Requests without it are about something else, for example a title.
WORD = "ANTIPHON-PLAN"
TASK = re.compile(r"t_[0-9a-f]{32}")
LINK = re.compile(r"http://127\.0\.0\.1:\d+/ask/[\w-]+")
# A model that follows the texts of the server stops earlier.
MOST_CALLS = 6


# --- What the model does ---


def calls_after(results):
    """Returns the calls that led to these results, and the next one or None."""
    calls, plan = [], [tuple(step) for step in PLAN]
    follows = 0
    for text in results:
        if not calls:
            calls.append(plan.pop(0))
        call = following(calls[-1][0], text, follows)
        follows = follows + 1 if call else 0
        calls.append(call or (plan.pop(0) if plan else None))
        if calls[-1] is None:
            break
    return calls or [plan[0]]


def following(tool, text, follows):
    """Returns the call that a result tells the model to make, or None."""
    task = TASK.search(text)
    if not task or follows >= MOST_CALLS:
        return None
    asks = "NOT FINISHED" in text
    if asks and LINK.search(text):
        return ("task_result", {"id": task[0]})
    if asks and follows == 0 and "`task_question`" in text:
        return ("task_question", {"id": task[0]})
    # The host has shown no form, and the user says so. The model gets a link.
    if asks and tool == "task_result" and re.search(r'link\\*":true', text):
        return ("task_question", {"id": task[0], "link": True})
    # With an open form, one look is enough. Then the model ends its turn.
    if tool == "task_question" or (asks and follows == 0) or "STILL WORKING" in text:
        return ("task_result", {"id": task[0]})
    return None


def reply(request):
    """Returns a tool call as (name, namespace, arguments), or a text."""
    if not request.planned or not request.tools:
        return "ok"
    call = calls_after(request.results)[-1]
    if call is None:
        return "The plan is done."
    tool, arguments = call
    named = [it for it in request.tools if re.search(r"(^|[_./:-])" + tool + "$", it[0])]
    if named:
        name, namespace = min(named, key=lambda it: len(it[0]))
        return (name, namespace, arguments)
    # Qwen Code offers the tools of servers only through another tool. Its prompt has their names.
    hidden = re.findall(r"mcp__[\w-]+?__" + tool + r"\b", request.text)
    if hidden and any(it[0] == "tool_call" for it in request.tools):
        return ("tool_call", None, {"name": hidden[0], "arguments": arguments})
    return f"The host does not offer `{tool}`."


# --- What the user does ---


class Form(HTMLParser):
    """The path of the form on a page, and the names and values of its fields."""

    def __init__(self, page):
        super().__init__()
        self.action, self.fields = None, {}
        self.feed(page)

    def handle_starttag(self, tag, attributes):
        given = dict(attributes)
        if tag == "form" and self.action is None:
            self.action = given.get("action", "")
        elif tag in ("input", "select", "textarea") and "name" in given:
            self.fields[given["name"]] = given.get("value") or ""


def answer_page(link, visited=set()):
    """Opens a link as a browser does, and answers the questions of the page. A link is opened once."""
    if link in visited:
        return
    visited.add(link)
    browser = urllib.request.build_opener(urllib.request.HTTPCookieProcessor(CookieJar()))
    headers = {"origin": "null", "sec-fetch-site": "same-origin"}
    url, data = link, None
    for _ in range(8):
        with browser.open(urllib.request.Request(url, data, headers), timeout=20) as response:
            url, page = response.url, response.read().decode()
        form = Form(page)
        if form.action is None:
            record_line({"page": link})
            return
        fields = {name: ANSWERS.get(name.split(".")[-1], value) for name, value in form.fields.items()}
        if any(name[0].isdigit() for name in fields):
            fields["action"] = "accept"
        url, data = urllib.parse.urljoin(url, form.action), urllib.parse.urlencode(fields).encode()


# --- What hosts send ---


class Request:
    """A request in any of the three formats."""

    def __init__(self, body):
        self.text = json.dumps(body)
        self.planned = WORD in self.text
        self.tools = list(tools_in(body.get("tools") or []))
        self.results = list(results_in(body))


def tools_in(entries, namespace=None):
    for entry in entries:
        nested = entry.get("functionDeclarations") or entry.get("function_declarations") or entry.get("tools")
        if nested:
            yield from tools_in(nested, entry.get("name"))
        elif name := entry.get("function", entry).get("name"):
            yield (name, namespace)


def results_in(body):
    for message in body.get("contents") or []:
        for part in message.get("parts") or []:
            if "functionResponse" in part:
                yield json.dumps(part["functionResponse"].get("response"), ensure_ascii=False)
    given = body.get("input")
    for item in given if isinstance(given, list) else []:
        if str(item.get("type")).endswith("_call_output"):
            yield flat(item.get("output"))
    for message in body.get("messages") or []:
        if message.get("role") == "tool":
            yield flat(message.get("content"))


def flat(content):
    """Returns the text of a message's content, which is a string or a list of parts."""
    if isinstance(content, list):
        return "\n".join(flat(part) for part in content)
    if isinstance(content, dict):
        return content["text"] if "text" in content else json.dumps(content, ensure_ascii=False)
    return "" if content is None else str(content)


# --- What hosts receive ---


def chat(answer, streamed):
    if isinstance(answer, str):
        message, end = {"role": "assistant", "content": answer}, "stop"
    else:
        function = {"name": answer[0], "arguments": json.dumps(answer[2])}
        call = {"index": 0, "id": identifier("call"), "type": "function", "function": function}
        message, end = {"role": "assistant", "content": None, "tool_calls": [call]}, "tool_calls"
    usage = {"prompt_tokens": 1, "completion_tokens": 1, "total_tokens": 2}
    head = {"id": identifier("chat"), "created": 0, "model": "stub"}
    if not streamed:
        choice = {"index": 0, "message": message, "finish_reason": end}
        return {**head, "object": "chat.completion", "choices": [choice], "usage": usage}
    head["object"] = "chat.completion.chunk"
    choices = [{"index": 0, "delta": message, "finish_reason": None}], [{"index": 0, "delta": {}, "finish_reason": end}]
    return [*({**head, "choices": it} for it in choices), {**head, "choices": [], "usage": usage}]


def responses(answer, streamed):
    if isinstance(answer, str):
        part = {"type": "output_text", "text": answer, "annotations": []}
        item = {"type": "message", "id": identifier("msg"), "role": "assistant", "content": [part]}
    else:
        name, namespace, arguments = answer
        item = {"type": "function_call", "id": identifier("fc"), "call_id": identifier("call"), "name": name}
        item["arguments"] = json.dumps(arguments)
        if namespace:
            item["namespace"] = namespace
    item["status"] = "completed"
    usage = {"input_tokens": 1, "output_tokens": 1, "total_tokens": 2}
    usage |= {"input_tokens_details": {"cached_tokens": 0}, "output_tokens_details": {"reasoning_tokens": 0}}
    whole = {"id": identifier("resp"), "object": "response", "created_at": 0, "model": "stub", "status": "completed"}
    whole |= {"output": [item], "usage": usage}
    if not streamed:
        return whole
    events = [("response.created", {"response": {**whole, "status": "in_progress", "output": []}})]
    events.append(("response.output_item.added", {"output_index": 0, "item": item}))
    if isinstance(answer, str):
        delta = {"item_id": item["id"], "output_index": 0, "content_index": 0, "delta": answer}
        events.append(("response.output_text.delta", delta))
    events.append(("response.output_item.done", {"output_index": 0, "item": item}))
    events.append(("response.completed", {"response": whole}))
    return [{"type": kind, "sequence_number": at, **data} for at, (kind, data) in enumerate(events)]


def gemini(answer, streamed):
    if isinstance(answer, str):
        part = {"text": answer}
    else:
        part = {"functionCall": {"name": answer[0], "args": answer[2]}}
    candidate = {"index": 0, "content": {"role": "model", "parts": [part]}, "finishReason": "STOP"}
    usage = {"promptTokenCount": 1, "candidatesTokenCount": 1, "totalTokenCount": 2}
    whole = {"candidates": [candidate], "usageMetadata": usage, "modelVersion": "stub"}
    return [whole] if streamed else whole


# Gemini CLI asks for JSON about the conversation. All of its schemas accept these members.
GEMINI_JSON = {"reasoning": "stub", "next_speaker": "user", "model_choice": "flash"}
GEMINI_JSON |= {"complexity_score": 1, "complexity_reasoning": "stub"}


def identifier(kind, numbers=iter(range(1_000_000))):
    return f"{kind}_{next(numbers)}"


def record_line(line):
    with open(LOG, "a", encoding="utf-8") as log:
        log.write(json.dumps(line) + "\n")


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def do_GET(self):
        model = {"id": "stub", "object": "model", "created": 0, "owned_by": "stub"}
        self.send({"object": "list", "data": [model], "models": []} if "/models" in self.path else {})

    def do_POST(self):
        body, path = self.body(), self.path.split("?")[0]
        if "countTokens" in path:
            return self.send({"totalTokens": 1})
        streamed = bool(body.get("stream")) or "streamGenerateContent" in path
        is_gemini = "generatecontent" in path.lower()
        request = Request(body)
        if request.planned and request.results and (link := LINK.search(request.results[-1])):
            answer_page(link[0])
        answer = reply(request)
        self.record(request, answer)
        if is_gemini:
            kind = (body.get("generationConfig") or {}).get("responseMimeType")
            answer = json.dumps(GEMINI_JSON) if kind == "application/json" else answer
            self.send(gemini(answer, streamed))
        elif path.endswith("/responses"):
            self.send(responses(answer, streamed), named=True)
        elif path.endswith("/chat/completions"):
            self.send(chat(answer, streamed), end="data: [DONE]\n\n")
        else:
            self.send({})

    def body(self):
        if self.headers.get("transfer-encoding") == "chunked":
            raw = b""
            while size := int(self.rfile.readline().split(b";")[0], 16):
                raw += self.rfile.read(size)
                self.rfile.readline()
            self.rfile.readline()
        else:
            raw = self.rfile.read(int(self.headers.get("content-length") or 0))
        if self.headers.get("content-encoding") == "gzip":
            raw = gzip.decompress(raw)
        return json.loads(raw or b"{}")

    def record(self, request, answer):
        if request.planned and request.tools:
            calls = [call[0] for call in calls_after(request.results) if call]
            results = list(zip(calls, request.results))
            record_line({"tools": [tool[0] for tool in request.tools], "results": results, "answer": answer})

    def send(self, data, named=False, end=""):
        """Sends an object as JSON, and a list as events."""
        if isinstance(data, list):
            event = lambda it: (f"event: {it['type']}\n" if named else "") + f"data: {json.dumps(it)}\n\n"
            text, kind = "".join(map(event, data)) + end, "text/event-stream"
        else:
            text, kind = json.dumps(data), "application/json"
        self.send_response(200)
        self.send_header("content-type", kind)
        self.send_header("content-length", str(len(text.encode())))
        self.end_headers()
        self.wfile.write(text.encode())


if __name__ == "__main__":
    ThreadingHTTPServer(("127.0.0.1", PORT), Handler).serve_forever()
