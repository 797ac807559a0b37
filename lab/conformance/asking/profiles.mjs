// Hosts as servers meet them. A profile says which parts of a result reach the model and the form, and how the host
// treats elicitation. The reports behind the profiles are in docs/hosts.md.

const APPS = { extensions: { "io.modelcontextprotocol/ui": { mimeTypes: ["text/html;profile=mcp-app"] } } };

/** How long the host of the last profile waits for its user before it cancels the call, in milliseconds. */
const PATIENCE = 3000;

/** What an app can ask of the host. */
const ALL = { serverTools: {}, message: { text: {} }, updateModelContext: { text: {} } };
const CALLS = { serverTools: {} };

const textOf = ({ content }) => content.filter((part) => part.type === "text").map((part) => part.text).join("\n");
const jsonOf = ({ structuredContent, content }) => (structuredContent ? JSON.stringify(structuredContent) : textOf({ content }));
const pause = (milliseconds) => new Promise((done) => setTimeout(done, milliseconds));

/** The tools of the profiles that differ from another one in one point. */
const SHORT = ["onboard", "report", "quiet"];

/** A host that follows the specification. */
const SPEC = { capabilities: ALL, client: APPS, toModel: textOf, toForm: (result) => result, elicit: null };

/** A host that declares elicitation and does not show the question. `elicit` gets a function that cancels the call. */
const declares = (elicit) => ({ ...SPEC, client: { ...APPS, elicitation: {} }, elicit });

export const PROFILES = {
  "to-the-spec": SPEC,
  // Claude Desktop with a local server.
  "content-only": { ...SPEC, toForm: ({ content, isError }) => ({ content, isError }) },
  // ChatGPT. The model reads the structured content.
  "text-rewritten": {
    ...SPEC,
    toModel: jsonOf,
    toForm: ({ structuredContent, isError, ...result }) => ({ content: [{ type: "text", text: jsonOf({ structuredContent, ...result }) }], structuredContent, isError }),
  },
  // The basic host of the specification's repository.
  "no-meta": { ...SPEC, capabilities: CALLS, toForm: ({ content, structuredContent, isError }) => ({ content, structuredContent, isError }) },
  // Claude for iOS.
  "nothing-delivered": { ...SPEC, capabilities: CALLS, toForm: () => null },
  // claude.ai.
  "no-resource-links": { ...SPEC, toForm: (result) => (result.content.some((part) => part.type === "resource_link") ? null : result) },
  "declines-at-once": declares(async () => (await pause(5), { action: "decline" })),
  "accepts-nothing": declares(async () => (await pause(5), { action: "accept", content: {} })),
  "elicitation-error": declares(async () => {
    throw new Error("this host cannot show forms");
  }),
  "hangs-and-cancels": declares(async (cancel) => {
    await pause(PATIENCE);
    cancel();
    return new Promise(() => {});
  }),
  // The rows below differ from the first one, or from `declines-at-once`, in one point.
  "revision-2026-07-28": { ...SPEC, revision: "2026-07-28", tools: SHORT },
  // The server has the default times of `AskPolicy`: 300 ms, and 45 s. So `report` is not handed over.
  "default-times": { ...declares(async () => (await pause(5), { action: "decline" })), server: "defaults", tools: SHORT, calls: { report: 1 } },
  // The server does not know its callers.
  "unknown-callers": { ...SPEC, anonymous: true, tools: SHORT },
};
