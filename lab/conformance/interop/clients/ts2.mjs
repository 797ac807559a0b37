// TypeScript SDK v2 as a client.
import { Client, LOG_LEVEL_META_KEY, StreamableHTTPClientTransport } from '@modelcontextprotocol/client';
import { StdioClientTransport } from '@modelcontextprotocol/client/stdio';
import { args, countCalls, countProgress, elicited, heard, http, modern, print, run, sampled, target } from './shared.mjs';

const transport = http
  ? new StreamableHTTPClientTransport(new URL(target))
  : new StdioClientTransport({ command: target, args, stderr: 'inherit' });
countCalls(transport);

const client = new Client(
  { name: 'ts2', version: '1' },
  {
    capabilities: { elicitation: {}, sampling: { tools: {} } },
    versionNegotiation: { mode: modern ? { pin: modern } : 'legacy' },
  },
);
client.setRequestHandler('elicitation/create', async (request) => elicited(request));
client.setRequestHandler('sampling/createMessage', async (request) => sampled(request));
client.setNotificationHandler('notifications/message', () => void (heard.logs += 1));
await client.connect(transport);
const { tools } = await client.listTools();
countProgress(transport);
print({ revision: client.getNegotiatedProtocolVersion(), tools: tools.map((it) => it.name) });
if (!modern && client.getServerCapabilities().logging) await client.setLoggingLevel('info');
const meta = modern ? { [LOG_LEVEL_META_KEY]: 'info' } : {};
await run((name, given) => {
  // Without a listener there is no progress token.
  const onprogress = () => {};
  return client.callTool({ name, arguments: given, _meta: meta }, { onprogress });
});
await client.close();
