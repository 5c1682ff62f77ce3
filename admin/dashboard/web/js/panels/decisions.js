// What was decided lately, and why.
import { h } from "../dom.js";
import * as f from "../format.js";
import { empty, table, tag } from "../parts.js";

const LIMIT = 8;

export const path = (view) => `decisions?only=${view.show}&limit=${LIMIT}`;

export function show(data, view) {
  if (data.decisions.length > 0) return list(data.decisions, "Recent decisions, the newest first");
  return view.show === "refused"
    ? empty("Nothing has been refused lately", "Every one of the last requests passed.")
    : empty("No request has come yet", "Send one through Weir, and it stands here a second later.");
}

// list describes decisions as a table.
export const list = (decisions, caption) => table({
  caption, rows: decisions, name: "decisions",
  columns: [
    { head: "Time", slim: true, cell: (d) => h("span", { class: "mono" }, f.time(d.time)) },
    { head: "Answer", slim: true, cell: answer },
    { head: "Request", main: true, wide: true, cell: (d) => [h("span", { class: "mono" }, `${d.method}\u00a0${d.host}${d.path}`), h("span", { class: "under mono" }, d.client || "no client")] },
    { head: "Why", wide: true, cell: (d) => [why(d), h("span", { class: "under" }, d.rule ? `rule ${d.rule}` : "no rule")] },
  ],
});

function answer(d) {
  const refused = d.action !== "pass" && d.action !== "tag";
  return tag(d.status > 0 ? `${d.status} ${d.action}` : d.action, refused ? "stop" : "good");
}

const why = (d) => [
  d.reason, d.limit && [" ", h("span", { class: "mono" }, d.limit)],
  d.retry_after > 0 && h("span", { class: "soft" }, `, wait ${f.duration(d.retry_after)}`),
  d.degraded && [" ", tag("store did not answer", "stop")],
  d.shadow.length > 0 && [" ", tag("shadow: " + d.shadow.join(", "), "trial")],
];
