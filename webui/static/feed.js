// The live feed: one EventSource for the page. Emits "fabric", "state", "schedule", "event" and "audit" with `detail` (a "change"
// of a large fabric's state is joined with the last one), and "link" when the connection to the server comes or goes. Keeps the last fabric and state for views that are opened later.

const RETRY_MS = [250, 500, 1000, 2000];
const SILENT_MS = 3000;
const NAMES = ["fabric", "state", "change", "schedule", "event", "audit"];

/** Whether this state says only that the server can't read the store. */
export const unread = (state) => Boolean(state?.problem?.error.startsWith("store"));

/** A state, with what has changed since. */
const joined = (state, change) => ({ ...state, ...change, groups: { ...state.groups, ...change.groups } });

export class Feed extends EventTarget {
  constructor(url) {
    super();
    this.url = url;
    this.last = { fabric: null, state: null };
    this.heardAt = performance.now();
    this.stateAt = null;
    this.polledAt = null;
    this.connected = false;
    this.ended = false; // the login, without which this server tells nothing
    this.tries = 0;
    this.source = null;
  }

  start() {
    this.open();
    this.first("fabric");
    this.first("state");
    setInterval(() => this.watch(), 500);
    document.addEventListener("visibilitychange", () => document.hidden || this.watch());
  }

  open() {
    this.source?.close();
    const source = new EventSource(this.url);
    this.source = source;
    source.onopen = () => this.heard();
    source.onerror = () => {
      this.lost();
      // The browser itself does not retry a refused connection.
      if (source.readyState === EventSource.CLOSED && source === this.source) {
        setTimeout(() => source === this.source && this.open(), RETRY_MS[Math.min(this.tries++, RETRY_MS.length - 1)]);
        this.poll();
      }
    };
    for (const name of NAMES) {
      source.addEventListener(name, (message) => {
        this.heard();
        this.take(name, JSON.parse(message.data));
      });
    }
  }

  /** Fetches by GET what the stream would send within half a second. */
  async first(name) {
    try {
      const answer = await (window.batonEarly?.[name] ?? fetch(`/api/${name}`));
      if (answer.ok && !this.last[name]) this.take(name, await answer.json());
    } catch {
      // the feed keeps retrying the stream; the banner says that the server does not answer
    }
  }

  /** Fetches the state while there is no stream: the server may have no place left for one. */
  async poll() {
    try {
      const answer = await fetch("/api/state");
      this.ended = answer.status === 401;
      if (!answer.ok) return;
      this.take("state", await answer.json());
      this.polledAt = performance.now();
    } catch {
      // the feed keeps retrying the stream; the banner says that the server does not answer
    }
  }

  /** Handles a message from the stream, or the answer to a GET. */
  take(name, detail) {
    if (name === "change") return this.last.state && this.take("state", joined(this.last.state, detail));
    if (name === "state" && this.last.state && unread(detail)) { // what was known stays, and gets old
      const { coordinator, problem } = detail;
      detail = { ...this.last.state, coordinator, problem };
    } else if (name === "state") this.stateAt = performance.now();
    if (name in this.last) this.last[name] = detail;
    this.dispatchEvent(new CustomEvent(name, { detail }));
    return undefined;
  }

  on(name, call) {
    this.addEventListener(name, (event) => call(event.detail));
    if (this.last[name]) call(this.last[name]);
  }

  /** Milliseconds since the last message from the server. */
  silentMs() {
    return performance.now() - this.heardAt;
  }

  heard() {
    this.heardAt = performance.now();
    this.ended = false;
    this.tries = 0;
    if (!this.connected) this.say(true);
  }

  lost() {
    if (this.connected) this.say(false);
  }

  say(connected) {
    this.connected = connected;
    this.dispatchEvent(new CustomEvent("link", { detail: connected }));
  }

  /** Replaces a connection that is open but silent, as through a proxy or to a stopped server. */
  watch() {
    if (this.silentMs() < SILENT_MS || document.hidden) return;
    this.lost();
    if (this.silentMs() > SILENT_MS * (2 + this.tries)) {
      this.tries += 2;
      this.open();
    }
  }
}
