// TypeScript SDK v1 as a client.
import { Client } from '@modelcontextprotocol/sdk/client/index.js';
import { StdioClientTransport } from '@modelcontextprotocol/sdk/client/stdio.js';
import { StreamableHTTPClientTransport } from '@modelcontextprotocol/sdk/client/streamableHttp.js';
import {
  CreateMessageRequestSchema,
  ElicitRequestSchema,
  LoggingMessageNotificationSchema,
} from '@modelcontextprotocol/sdk/types.js';
import { args, countCalls, countProgress, elicited, heard, http, print, run, sampled, target } from './shared.mjs';

const transport = http
  ? new StreamableHTTPClientTransport(new URL(target))
  : new StdioClientTransport({ command: target, args, stderr: 'inherit' });
countCalls(transport);
// v1 tells the negotiated revision to the transport only.
let revision;
const setProtocolVersion = transport.setProtocolVersion?.bind(transport);
transport.setProtocolVersion = (version) => {
  revision = version;
  setProtocolVersion?.(version);
};

const client = new Client({ name: 'ts1', version: '1' }, { capabilities: { elicitation: {}, sampling: {} } });
client.setRequestHandler(ElicitRequestSchema, async (request) => elicited(request));
client.setRequestHandler(CreateMessageRequestSchema, async (request) => sampled(request));
client.setNotificationHandler(LoggingMessageNotificationSchema, () => void (heard.logs += 1));
await client.connect(transport);
const { tools } = await client.listTools();
countProgress(transport);
print({ revision, tools: tools.map((it) => it.name) });
if (client.getServerCapabilities().logging) await client.setLoggingLevel('info');
await run((name, given) => {
  // Without a listener there is no progress token.
  const onprogress = () => {};
  return client.callTool({ name, arguments: given }, undefined, { onprogress });
});
await client.close();
