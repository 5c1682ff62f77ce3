// One client, in a dialog: what it did, what it has left, what it was told.
import { h, render } from "../dom.js";
import * as f from "../format.js";
import { ask, clientPath } from "../api.js";
import { broken, empty, facts, gauge, waiting } from "../parts.js";
import { list } from "./decisions.js";

const MOST = 8; // decisions shown

// open shows the dialog and fills it once the API has answered.
export async function open(key, view, acts) {
  const dialog = document.getElementById("client");
  render(dialog, frame(key, waiting(), view, acts));
  dialog.showModal();
  try {
    render(dialog, frame(key, content(await ask(clientPath(key))), view, acts));
  } catch (error) {
    render(dialog, frame(key, broken(error), view, acts));
  }
}

const frame = (key, body, view, acts) => [
  h("header", { key: "head" }, h("h2", { id: "client-title", class: "mono" }, key),
    h("button", { type: "button", class: "quiet small", onclick: (e) => e.currentTarget.closest("dialog").close() }, "Close")),
  h("div", { class: "inner", key: "body" }, body),
  view.session.writes && h("div", { class: "actions", key: "actions" },
    h("button", { type: "button", class: "quiet", onclick: () => acts.reset(key) }, "Reset its counters"),
    view.session.bans && h("button", { type: "button", class: "main harm", onclick: () => acts.ban(key) }, "Ban")),
];

const content = (c) => [
  facts(...c.windows.map((w) => [`Last ${w.window}`, f.count(w.requests), `${f.count(w.refused)} refused`])),
  h("h3", { key: "limits-title" }, "Counters"),
  c.limits.length === 0 ? h("p", { key: "limits", class: "note" }, "No counter is this client's alone.") : h("div", { key: "limits" }, c.limits.map((l) => h("div", { class: "limit", key: l.rule + "\n" + l.name },
    h("span", null, `${l.name} `, h("span", { class: "mono soft" }, l.rate)),
    h("span", { class: "left" }, `${f.count(l.remaining)} of ${f.count(l.limit)} left`),
    gauge(l.limit - l.remaining, l.limit)))),
  h("h3", { key: "told-title" }, "What it was told"),
  c.decisions.length === 0 ? empty("Nothing lately") : list(c.decisions.slice(0, MOST), "Recent decisions about this client"),
];
