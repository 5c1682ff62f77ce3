// Who changed what, when and why: the end of the audit log.
import { h } from "../dom.js";
import * as f from "../format.js";
import { empty, table, tag } from "../parts.js";

const LIMIT = 12, MOST = 60;

export const path = () => `audit?limit=${LIMIT}`;

export function show(data) {
  if (data.lines.length === 0) return empty("Nothing has been changed yet", "Reloads, resets and every other change stand here, with who asked for them and why.");
  return table({
    caption: "The last changes, the newest first", rows: data.lines, key: (l) => l.time + l.what + l.target,
    columns: [
      { head: "Time", slim: true, cell: (l) => h("span", { class: "mono" }, f.time(l.time)) },
      { head: "By", slim: true, cell: (l) => f.word(whom, l.who) },
      { head: "Outcome", slim: true, cell: (l) => tag(l.error ? "refused" : "done", l.error ? "stop" : "good") },
      { head: "Change", main: true, wide: true, cell: (l) => [`${l.what} `, h("span", { class: "mono" }, l.target), h("span", { class: "under mono" }, l.error || became(l))] },
      { head: "Reason", wide: true, cell: (l) => l.reason || f.none },
    ],
  });
}

const whom = { admin: "admin token", loopback: "this machine", file: "the file changed", signal: "SIGHUP" };

// became says in few words from what to what. A hash is known by its beginning.
function became({ before, after }) {
  if (before === after || after === null || after === undefined) return "";
  return before === null || before === undefined ? brief(after) : `${brief(before)} → ${brief(after)}`;
}

function brief(value) {
  const text = typeof value === "string" ? value : JSON.stringify(value);
  if (/^[0-9a-f]{40,}$/.test(text)) return text.slice(0, 12);
  return text.length > MOST ? text.slice(0, MOST) + "…" : text;
}
