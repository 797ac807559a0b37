// A scripted host of MCP Apps. It shows the form in a frame that can run scripts and nothing else, passes its calls on,
// and records its requests for the test.

import { AppBridge, PostMessageTransport } from "@modelcontextprotocol/ext-apps/app-bridge";

/** Shows the form. Without a `result`, the form receives no notification of the tool call. */
window.show = async ({ input, result, capabilities, theme, refusesLinks }) => {
  const frame = document.querySelector("iframe");
  const context = { displayMode: "inline", locale: "en-US", platform: "web", ...(theme && { theme }) };
  const bridge = new AppBridge(null, { name: "asking-test", version: "1.0.0" }, capabilities, { hostContext: context });
  const asked = (window.asked = { tools: [], messages: [], contexts: [], sizes: [], links: [] });
  bridge.oncalltool = (params) => {
    asked.tools.push(params.name);
    return window.callTool(params);
  };
  bridge.onmessage = async (params) => (asked.messages.push(params), {});
  bridge.onupdatemodelcontext = async (params) => (asked.contexts.push(params), {});
  bridge.onopenlink = async ({ url }) => (asked.links.push(url), refusesLinks ? { isError: true } : {});
  bridge.onsizechange = (size) => asked.sizes.push(size);
  const ready = new Promise((resolve) => (bridge.oninitialized = resolve));
  await bridge.connect(new PostMessageTransport(frame.contentWindow, frame.contentWindow));
  frame.src = "/app";
  await ready;
  window.bridge = bridge;
  window.context = context;
  if (result) await window.deliver(input, result);
};

/** Delivers the result of the tool call to the form. */
window.deliver = async (input, result) => {
  await window.bridge.sendToolInput({ arguments: input });
  await window.bridge.sendToolResult(result);
};

/** Changes the theme of the host. */
window.turn = (theme) => window.bridge.setHostContext({ ...window.context, theme });

window.leave = () => window.bridge.teardownResource({});
