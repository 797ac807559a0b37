// What goes wrong, said so that a person knows what to do.

/** Something that did not work, with a sentence for people. */
export class Problem extends Error {
  /**
   * @param {string} code which problem, for programs
   * @param {string} message what to do about it
   * @param {number} [retryAfter] when to try again, in seconds
   * @param {number} [status] the status of the answer that said so
   */
  constructor(code, message, retryAfter, status) {
    super(message);
    this.code = code;
    this.retryAfter = retryAfter;
    this.status = status;
  }

  /** Whether it will be there if one waits. */
  get waits() {
    return this.code === "RESOURCE_NOT_READY";
  }
}

const SENTENCES = {
  401: "This page needs a link that is still good. Ask for a new one where you got this one.",
  403: "This link does not allow that. Ask for one that does.",
  404: "This result is not there. It may have expired: run the tool again to get a new one.",
  410: "This result has expired. Run the tool again to get a new one.",
  413: "That is more than the server takes at once.",
  429: "The server is busy. Try again in a moment.",
  503: "The server cannot reach its data right now. Try again in a moment.",
};

/**
 * The problem behind an answer's status and body.
 * @param {number} status
 * @param {{error?: unknown, code?: string, message?: string}} body
 * @param {number} [retryAfter]
 */
export function problemOf(status, body, retryAfter) {
  const code = body?.code ?? (status === 202 ? "RESOURCE_NOT_READY" : `HTTP_${status}`);
  const said = typeof body?.message === "string" ? body.message : "";
  if (status === 202) return new Problem("RESOURCE_NOT_READY", said, retryAfter || 1);
  const theirs = said ? `The server says: ${said}.` : `The server answered with ${status}.`;
  return new Problem(code, SENTENCES[status] ?? theirs, retryAfter, status);
}

/** Waits, unless it is given up. */
export function pause(milliseconds, signal) {
  return new Promise((resolve, reject) => {
    if (signal?.aborted) return reject(signal.reason);
    const timer = setTimeout(done, milliseconds);
    function done() {
      signal?.removeEventListener("abort", gaveUp);
      resolve();
    }
    function gaveUp() {
      clearTimeout(timer);
      reject(signal.reason);
    }
    signal?.addEventListener("abort", gaveUp, { once: true });
  });
}

/**
 * Asks again for as long as the answer is "not yet".
 * @template T
 * @param {() => Promise<T>} ask
 * @param {{signal?: AbortSignal, onWait?: (seconds: number) => void}} options
 * @returns {Promise<T>}
 */
export async function whenReady(ask, { signal, onWait } = {}) {
  const begun = Date.now();
  let timer;
  const tick = () => onWait?.(Math.round((Date.now() - begun) / 1000));
  try {
    for (;;) {
      try {
        return await ask();
      } catch (error) {
        if (!(error instanceof Problem) || !error.waits) throw error;
        timer ??= setInterval(tick, 1000);
        tick();
        await pause(Math.min(Math.max(error.retryAfter ?? 1, 0.2), 30) * 1000, signal);
      }
    }
  } finally {
    clearInterval(timer);
  }
}

/** Whether something ended because nobody wants it any more. */
export function isAbort(error) {
  return error?.name === "AbortError";
}
