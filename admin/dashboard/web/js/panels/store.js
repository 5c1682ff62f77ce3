// The store's health, and when it was not well.
import { h, render } from "../dom.js";
import * as f from "../format.js";
import { empty, facts, table, tag } from "../parts.js";

export const path = () => "status";

export function show(status) {
  const s = status.store, shared = s.backend !== "memory";
  render(document.getElementById("store-aside"), shared ? "Shared between replicas" : "In this process's memory");
  return [
    status.not_ready && h("p", { key: "ready", class: "alarm" }, "No requests should be sent here: ", status.not_ready),
    s.breaker_open && h("p", { key: "open", class: "alarm" }, "The store does not answer. Each replica grants its own share until it does."),
    facts(
      ["Backend", s.backend],
      ["State", state(s, shared)],
      ["Hits it did not answer", f.count(s.fallbacks), s.fallbacks > 0 && "since the start"],
      ["Counters in memory", f.count(s.memory_keys)],
      ["Forgotten for want of room", f.count(s.memory_evictions)],
      ["Running for", f.duration((Date.now() - Date.parse(status.started)) / 1000)]),
    s.findings.length > 0 && h("ul", { key: "findings", class: "findings" }, s.findings.map((x) => h("li", { key: x }, x))),
    h("h3", { key: "history-title" }, "Breaker"),
    history(s.history, shared),
  ];
}

const state = (s, shared) => {
  if (s.breaker_open) return tag("not answering", "stop");
  return tag(shared ? "answering" : "always there", "good");
};

const kinds = {
  timeout: "no answer in time", error: "error", panic: "fault of Weir’s", busy: "too many calls at once", short_deadline: "askers without patience", starved: "no time to ask",
};

function history(list, shared) {
  if (!shared) return h("p", { key: "history", class: "note" }, "A store in memory has no breaker: there is nothing that could fail to answer.");
  if (list.length === 0) return empty("It has never opened", "The store has answered since Weir started.");
  return table({
    caption: "When the breaker opened and closed, the newest first", rows: list.slice(0, 10).map((c, i) => ({ ...c, until: list[i - 1]?.time })), key: (c) => c.time,
    columns: [
      { head: "Time", main: true, slim: true, cell: (c) => h("span", { class: "mono" }, f.time(c.time)) },
      { head: "Breaker", slim: true, cell: (c) => tag(c.open ? "opened" : "closed", c.open ? "stop" : "good") },
      { head: "Why", wide: true, cell: (c) => [c.kind && tag(f.word(kinds, c.kind)), " ", c.cause] },
      { head: "For", num: true, cell: (c) => (c.until ? f.duration((Date.parse(c.until) - Date.parse(c.time)) / 1000) : "until now") },
    ],
  });
}
