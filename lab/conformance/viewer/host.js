// A host of MCP Apps, as small as one can be: it shows an app in a frame that may run scripts and nothing else, and hands
// its calls on. What it is asked is kept, for the test to look at.

import { AppBridge, PostMessageTransport } from "@modelcontextprotocol/ext-apps/app-bridge";

/** Shows the app with a tool's result. Without a result, the host tells the app nothing about the call. */
window.show = async ({ result, tool, granted, theme }) => {
  const frame = document.querySelector("iframe");
  const capabilities = { serverTools: {}, downloadFile: {}, updateModelContext: { text: {} }, sandbox: { csp: { connectDomains: granted } } };
  const context = { theme, displayMode: "inline", availableDisplayModes: ["inline", "fullscreen"], locale: "en-US", platform: "web", toolInfo: { tool } };
  const bridge = new AppBridge(null, { name: "test-host", version: "1.0.0" }, capabilities, { hostContext: context });
  const asked = (window.asked = { tools: [], downloads: [], contexts: [], sizes: [], modes: [] });
  bridge.oncalltool = (params) => (asked.tools.push(params.name), window.callTool(params));
  bridge.ondownloadfile = async (params) => (asked.downloads.push(params.contents), {});
  bridge.onupdatemodelcontext = async (params) => (asked.contexts.push(params), {});
  bridge.onrequestdisplaymode = async ({ mode }) => (asked.modes.push(mode), { mode });
  bridge.onsizechange = (size) => asked.sizes.push(size);
  const ready = new Promise((resolve) => (bridge.oninitialized = resolve));
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  frame.src = "/app";
  await ready;
  if (result) {
    await bridge.sendToolInput({ arguments: {} });
    await bridge.sendToolResult(result);
  }
  window.bridge = bridge;
  window.context = context;
};

/** Changes what the host looks like. */
window.turn = (theme) => window.bridge.setHostContext({ ...window.context, theme });

window.leave = () => window.bridge.teardownResource({});
