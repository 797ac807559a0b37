// What the clients in JavaScript have in common: SCRIPT legacy|modern CALLS URL, or a command instead of the URL.
const [era, calls, target, ...args] = process.argv.slice(2);
export const http = target.startsWith('http');
export { args, era, target };
export const modern = era === 'modern' ? '2026-07-28' : undefined;
const plan = JSON.parse(calls);

// What every client answers, by the name of the field.
const answers = { name: 'Ada', destination: 'Lisbon', month: 'May', hotel: 'Aurora', meal: 'fish', seat: 'window' };
export let heard;

export function fillIn(schema) {
  const [property] = Object.keys(schema.properties);
  heard.asked.push(property);
  return { [property]: answers[property] };
}

export function elicited(request) {
  return { action: 'accept', content: fillIn(request.params.requestedSchema) };
}

// A client that knows nothing of data: it offers its model the tools it was sent, and the model calls the first.
export function sampled(request) {
  const { text } = [request.params.messages.at(-1).content].flat()[0];
  heard.sampled.push(text);
  const [tool] = request.params.tools ?? [];
  if (tool) {
    heard.tools.push(tool.name);
    const [property] = Object.keys(tool.inputSchema.properties);
    const input = { [property]: answers[property] };
    const content = [{ type: 'tool_use', id: 'call_1', name: tool.name, input }];
    return { model: 'scripted', role: 'assistant', stopReason: 'toolUse', content };
  }
  return { model: 'scripted', role: 'assistant', content: { type: 'text', text: `I was asked: ${text}` } };
}

// Counts at the transport, which sees what really leaves, retries included.
let counted = null;
export function countCalls(transport) {
  counted = 0;
  const send = transport.send.bind(transport);
  transport.send = (message, ...rest) => {
    for (const it of [message].flat()) if (it.method === 'tools/call') heard.calls += 1;
    return send(message, ...rest);
  };
}

// Counts what arrives: both SDKs forget who listens when the answer comes, and a notice in its chunk is lost.
export function countProgress(transport) {
  const { onmessage } = transport;
  transport.onmessage = (message, ...rest) => {
    if (message.method === 'notifications/progress') heard.progress += 1;
    return onmessage(message, ...rest);
  };
}

export function print(line) {
  console.log(JSON.stringify(line));
}

// Makes the calls one after the other and prints a line for each.
export async function run(call) {
  for (const { cell, tool, arguments: given } of plan) {
    heard = { asked: [], sampled: [], tools: [], calls: counted, progress: 0, logs: 0 };
    let result;
    try {
      const { content, structuredContent, isError } = await call(tool, given);
      const text = content.filter((it) => it.type === 'text').map((it) => it.text).join('\n');
      result = { ok: !isError, text, structured: structuredContent ?? null };
    } catch (error) {
      result = { ok: false, text: String(error) };
    }
    print({ cell, ...result, ...heard });
  }
}
