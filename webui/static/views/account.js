// The user who is logged in, and requests that change something: they carry the CSRF token of this page.

import { h } from "../lib/dom.js";

const meta = (name) => document.querySelector(`meta[name="${name}"]`)?.content ?? "";
export const user = meta("user");

/** Fills the header's place for the account: the user, or a link to the login. */
export function account(element) {
  if (user) {
    element.append(
      h("form", { class: "account", method: "post", action: "/logout" }, h("input", { type: "hidden", name: "csrf_token", value: meta("csrf-token") }),
        h("span", { title: "Logged in" }, user), h("button", { class: "small" }, "Log out")),
    );
  } else element.append(h("a", { href: "/login?next=/%23controls" }, "Log in"));
}

/** POSTs an action; returns {ok, taken, message}, where the message includes the remedy. */
export async function control(body) {
  try {
    const answer = await fetch("/api/control", {
      method: "POST",
      headers: { "Content-Type": "application/json", Accept: "application/json", "X-CSRF-Token": meta("csrf-token") },
      body: JSON.stringify(body),
    });
    const told = await answer.json().catch(() => ({}));
    if (answer.status === 401) return { ok: false, taken: false, message: "Your login has ended, and nothing was changed. Reload the page, and log in." };
    if (answer.ok) return { ok: true, taken: told.taken !== false, message: told.text ?? "done" };
    return { ok: false, taken: false, message: told.error ? `${told.error}: ${told.remedy ?? ""}` : `The server refused the change (${answer.status}).` };
  } catch {
    return { ok: false, taken: false, message: "The dashboard's server does not answer, so the result of the change is unknown. Make sure that baton web runs, and look again." };
  }
}
