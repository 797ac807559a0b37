// TypeScript SDK v1 as a client: node ts1.mjs legacy URL | node ts1.mjs legacy COMMAND ARGUMENT...
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import { ElicitRequestSchema } from '@modelcontextprotocol/sdk/types.js';
import { answer, call, countCalls, report } from './answers.mjs';

const [, target, ...args] = process.argv.slice(2);
const http = target.startsWith('http');
const transport = http
  ? new StreamableHTTPClientTransport(new URL(target))
  : new StdioClientTransport({ command: target, args, stderr: 'inherit' });
const counter = countCalls(transport);
const asked = [];
// v1 tells the negotiated revision to the transport only.
let revision;
const setProtocolVersion = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (version) => {
  revision = version;
  setProtocolVersion?.(version);
};

const client = new Client({ name: 'ts1', version: '1' }, { capabilities: { elicitation: {} } });
client.setRequestHandler(ElicitRequestSchema, async (request) => answer(request, asked));
await client.connect(transport);
const result = await client.callTool(call);
report({
  client: 'ts1',
  revision,
  transport: http ? 'http' : 'stdio',
  text: result.content[0]?.text,
  structured: result.structuredContent,
  asked,
  calls: counter.calls,
  ok: !result.isError,
});
await client.close();
