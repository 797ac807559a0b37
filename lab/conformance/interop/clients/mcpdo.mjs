// `mcpdo` as a client: a daemon that holds the connection, and one process for every word to it.
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { args, era, fillIn, http, print, run, target } from './shared.mjs';

const cli = fileURLToPath(new URL('../node_modules/.bin/mcpdo', import.meta.url));
const home = await mkdtemp(join(tmpdir(), 'mcpdo-'));
const env = { ...process.env, HOME: home, MCP_INSPECTOR_SECRET_STORE: 'memory' };

async function mcpdo(...words) {
  const { stdout } = await promisify(execFile)(process.execPath, [cli, '--format', 'json', ...words], { env });
  return JSON.parse(stdout);
}

try {
  const server = http ? [target] : [target, '--', ...args];
  const { protocolEra } = await mcpdo('connect', '--era', era, '--connection', 'c', ...server);
  const { tools } = await mcpdo('@c', 'tools/list');
  // It tells the era, not the revision.
  print({ revision: null, era: protocolEra, tools: tools.map((it) => it.name) });
  await run(async (name, given) => {
    const fields = (values) => Object.entries(values).map(([key, value]) => `${key}:=${value}`);
    let answer = await mcpdo('@c', 'tools/call', name, ...fields(given));
    while (answer.elicitationPending) {
      const { elicitationId, requestedSchema } = answer.elicitationPending;
      answer = await mcpdo('@c', 'elicitation/respond', elicitationId, ...fields(fillIn(requestedSchema)));
    }
    return answer;
  });
} finally {
  await mcpdo('daemon', 'stop').catch(() => {});
  await rm(home, { recursive: true, force: true });
}
