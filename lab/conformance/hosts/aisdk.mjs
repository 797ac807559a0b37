// A host on the AI SDK: `node aisdk.mjs MODEL_URL MCP_URL PROMPT`. Its user answers every form with what fits.
import * as ai from 'ai';
import * as mcp from '@ai-sdk/mcp';
import { createOpenAICompatible } from '@ai-sdk/openai-compatible';

const [model, url, prompt] = process.argv.slice(2);
const answers = { desk: 'B-12', day: '2026-12-01', email: 'grace@example.com' };

const client = await mcp.createMCPClient({ transport: { type: 'http', url }, capabilities: { elicitation: {} } });
client.onElicitationRequest(mcp.ElicitationRequestSchema, async ({ params }) => {
  const fields = Object.keys(params.requestedSchema?.properties ?? {}).filter((name) => name in answers);
  return { action: 'accept', content: Object.fromEntries(fields.map((name) => [name, answers[name]])) };
});
const { text } = await ai.generateText({
  model: createOpenAICompatible({ name: 'stub', baseURL: `${model}/v1` })('stub'),
  tools: await client.tools(),
  // Newer versions have another name for the same condition.
  stopWhen: (ai.isStepCount ?? ai.stepCountIs)(20),
  prompt,
});
console.log(text);
await client.close();
