// Talks to the program that serves this page.

const KEPT = "antiphon-token";

/** The token from the address, which does not stay there, or from before the page was loaded again. */
function takeToken() {
  const address = new URL(location.href);
  const given = address.searchParams.get("token");
  if (given) {
    sessionStorage.setItem(KEPT, given);
    history.replaceState(null, "", "/");
  }
  return sessionStorage.getItem(KEPT) ?? "";
}

const token = takeToken();

export class Refused extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

/** Asks for something; a refusal is thrown, in words for the person. */
export async function ask(method, path, body) {
  const headers = { Authorization: `Bearer ${token}` };
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    response = await fetch(path, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
  } catch {
    throw new Refused(0, "The program that serves this page has stopped. Start `antiphon studio` again.");
  }
  const text = await response.text();
  if (response.ok) return text ? JSON.parse(text) : null;
  let message = text || response.statusText;
  try {
    message = JSON.parse(text).error;
  } catch {
    // What is not JSON is told as it is.
  }
  throw new Refused(response.status, message);
}

/** Hears what happens in a session, from the beginning, until it is closed or `signal` ends it. */
export async function listen(session, signal, hear, what = "events") {
  let lastId = 0;
  for (let tries = 0; tries < 20 && !signal.aborted; tries += 1) {
    try {
      const headers = { Authorization: `Bearer ${token}`, "Last-Event-ID": String(lastId) };
      const response = await fetch(`/api/session/${session}/${what}`, { headers, signal });
      if (response.status === 404 || response.status === 401) return;
      for await (const { id, data } of messages(response.body)) {
        tries = 0;
        lastId = id;
        const event = JSON.parse(data);
        hear(event);
        if (event.type === "closed") return;
      }
    } catch (error) {
      if (signal.aborted) return;
      console.debug("the stream has ended, and is begun again", error);
    }
    await new Promise((done) => setTimeout(done, Math.min(250 * 2 ** tries, 5000)));
  }
}

/** The messages of a stream of server-sent events. */
async function* messages(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let rest = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return;
    const parts = (rest + value).split("\n\n");
    rest = parts.pop();
    for (const part of parts) {
      let id = 0;
      const data = [];
      for (const line of part.split("\n")) {
        if (line.startsWith("id:")) id = Number(line.slice(3));
        else if (line.startsWith("data:")) data.push(line.slice(5).replace(/^ /, ""));
      }
      if (data.length) yield { id, data: data.join("\n") };
    }
  }
}
