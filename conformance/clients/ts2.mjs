// TypeScript SDK v2 as a client: node ts2.mjs legacy|2026-07-28 URL | node ts2.mjs MODE COMMAND ARGUMENT...
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { answer, call, countCalls, report } from './answers.mjs';

const [mode, target, ...args] = process.argv.slice(2);
const http = target.startsWith('http');
const transport = http
  ? new StreamableHTTPClientTransport(new URL(target))
  : new StdioClientTransport({ command: target, args, stderr: 'inherit' });
const counter = countCalls(transport);
const asked = [];

const client = new Client(
  { name: 'ts2', version: '1' },
  {
    capabilities: { elicitation: {} },
    versionNegotiation: { mode: mode === 'legacy' ? 'legacy' : { pin: mode } },
  },
);
client.setRequestHandler('elicitation/create', async (request) => answer(request, asked));
await client.connect(transport);
const result = await client.callTool(call);
report({
  client: 'ts2',
  revision: client.getNegotiatedProtocolVersion(),
  transport: http ? 'http' : 'stdio',
  text: result.content[0]?.text,
  structured: result.structuredContent,
  asked,
  calls: counter.calls,
  ok: !result.isError,
});
await client.close();
