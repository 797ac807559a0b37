// TypeScript SDK v2 as a server: node ts2.mjs stdio | node ts2.mjs http PORT
import { randomUUID } from 'node:crypto';
import { createServer } from 'node:http';
import { Readable } from 'node:stream';
import {
  McpServer,
  WebStandardStreamableHTTPServerTransport,
  acceptedContent,
  createMcpHandler,
  inputRequired,
  inputResponse,
  isLegacyRequest,
} from '@modelcontextprotocol/server';
import { serveStdio } from '@modelcontextprotocol/server/stdio';
import { z } from 'zod';

const text = (it) => ({ content: [{ type: 'text', text: it }] });

// One definition for both eras: on 2025-11-25 the SDK turns `inputRequired` into live requests.
function make() {
  const server = new McpServer({ name: 'ts2', version: '1' }, { capabilities: { tools: {}, logging: {} } });
  server.registerTool('echo', { inputSchema: z.object({ message: z.string() }) }, async ({ message }) =>
    text(`Echo: ${message}`),
  );
  const form = z.object({ name: z.string() });
  server.registerTool('greet', {}, async (ctx) => {
    const answer = acceptedContent(ctx.mcpReq.inputResponses, 'who', form);
    if (answer) return text(`Hello, ${answer.name}!`);
    const who = inputRequired.elicit({ message: 'What is your name?', requestedSchema: form });
    return inputRequired({ inputRequests: { who } });
  });
  server.registerTool('consult', { inputSchema: z.object({ prompt: z.string() }) }, async ({ prompt }, ctx) => {
    const reply = inputResponse(ctx.mcpReq.inputResponses, 'reply');
    if (reply.kind === 'sampling') return text(`The model said: ${[reply.result.content].flat()[0].text}`);
    const messages = [{ role: 'user', content: { type: 'text', text: prompt } }];
    return inputRequired({ inputRequests: { reply: inputRequired.createMessage({ messages, maxTokens: 50 }) } });
  });
  server.registerTool('count', {}, async (ctx) => {
    const progressToken = ctx.mcpReq._meta?.progressToken;
    for (let progress = 1; progress <= 3; progress += 1)
      await ctx.mcpReq.notify({ method: 'notifications/progress', params: { progressToken, progress, total: 3 } });
    return text('Counted to three');
  });
  server.registerTool('chat', {}, async (ctx) => {
    await ctx.mcpReq.log('info', 'as you asked');
    return text('Logged');
  });
  return server;
}

// The SDK's own handler serves 2025-11-25 without sessions, where nothing can be asked: sessions are wired by hand.
const modern = createMcpHandler(make, { legacy: 'reject' });
const sessions = new Map();

async function legacy(request) {
  const known = sessions.get(request.headers.get('mcp-session-id'));
  if (known) return known.handleRequest(request);
  const transport = new WebStandardStreamableHTTPServerTransport({
    sessionIdGenerator: () => randomUUID(),
    onsessioninitialized: (id) => sessions.set(id, transport),
  });
  await make().connect(transport);
  return transport.handleRequest(request);
}

async function answer(incoming, outgoing) {
  const body = incoming.method === 'POST' ? Buffer.concat(await incoming.toArray()) : undefined;
  const url = `http://${incoming.headers.host}${incoming.url}`;
  const request = new Request(url, { method: incoming.method, headers: incoming.headers, body });
  const response = (await isLegacyRequest(request)) ? await legacy(request) : await modern.fetch(request);
  outgoing.writeHead(response.status, Object.fromEntries(response.headers));
  outgoing.flushHeaders();
  if (response.body) Readable.fromWeb(response.body).on('error', () => outgoing.destroy()).pipe(outgoing);
  else outgoing.end();
}

const [mode, port] = process.argv.slice(2);
if (mode === 'stdio') serveStdio(make);
else createServer((incoming, outgoing) => void answer(incoming, outgoing)).listen(Number(port), '127.0.0.1');
