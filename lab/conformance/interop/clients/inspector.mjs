// `mcp-inspector --cli` as a client: one process for every request, and nobody to ask.
import { execFile } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { args, era, print, run, target } from './shared.mjs';

const cli = fileURLToPath(new URL('../node_modules/.bin/mcp-inspector', import.meta.url));
const home = await mkdtemp(join(tmpdir(), 'inspector-'));
const env = { ...process.env, HOME: home };

async function inspect(...request) {
  const words = [cli, '--cli', target, ...args, '--protocol-era', era, '--format', 'json', ...request];
  const { stdout } = await promisify(execFile)(process.execPath, words, { env });
  return JSON.parse(stdout).result;
}

try {
  const { tools } = await inspect('--method', 'tools/list');
  // It does not say what was negotiated; an era that is not there is an error.
  print({ revision: null, tools: tools.map((it) => it.name) });
  await run((name, given) =>
    inspect('--method', 'tools/call', '--tool-name', name, '--tool-args-json', JSON.stringify(given)),
  );
} finally {
  await rm(home, { recursive: true, force: true });
}
