// Who and what asks most.
import { h } from "../dom.js";
import * as f from "../format.js";
import { bar, empty, spark, table, tag } from "../parts.js";

const FEW = 10, MANY = 50;

export const path = (view) => `top?by=${view.by}&window=${view.window}&sort=${view.sort}&limit=${view.many ? MANY : FEW}`;

const nouns = { client: ["Client", "clients"], path: ["Path group", "path groups"], rule: ["Rule", "rules"] };
const spans = { "1m": "minute", "1h": "hour", "24h": "24 hours" };

export function show(top, view, acts) {
  if (top.entries.length === 0) {
    return empty("Nobody has asked for anything yet", `Requests of the last ${spans[top.window]} appear here, with or without limits.`);
  }
  const found = top.entries.filter((e) => e.key.toLowerCase().includes(view.filter.toLowerCase()));
  return [
    found.length > 0 ? rows(top, found, view, acts) : empty("None of these", `No key of the first ${top.entries.length} contains “${view.filter}”.`),
    h("p", { class: "rows-note", key: "note" }, `${f.count(top.requests)} requests in the last ${spans[top.window]}, ${f.count(top.refused)} refused. ± is the most that a number may be short. `,
      (view.many || top.entries.length === FEW) && h("button", { type: "button", class: "quiet small", onclick: () => acts.many(!view.many) }, view.many ? `Show ${FEW}` : `Show ${MANY}`)),
  ];
}

function rows(top, entries, view, acts) {
  const [noun, nouns2] = nouns[top.by];
  const sorted = (name) => ({ active: view.sort === name, choose: () => acts.sort(name) });
  const columns = [
    { head: "Rank", num: true, rank: true, cell: (e) => e.rank },
    { head: noun, main: true, wide: true, cell: (e) => [who(top, e, acts), top.by === "client" && found(e.source)] },
    { head: "Requests", num: true, sort: sorted("requests"), cell: (e) => [f.count(e.requests), e.error > 0 && h("span", { class: "soft" }, ` ±${f.count(e.error)}`)] },
    { head: "Share", cell: (e) => h("span", { class: "share" }, bar(e.share, 1), h("span", null, f.percent(e.share, 1))) },
    { head: "Refused", num: true, sort: sorted("refused"), cell: (e) => h("span", { class: e.refused > 0 ? "fault" : null }, f.count(e.refused)) },
    { head: "Course", as: "course", cell: (e) => spark(e.spark, course(e, top)) },
  ];
  if (top.by === "client" && view.session.writes) {
    columns.push({ head: "Actions", quiet: true, slim: true, cell: (e) => h("span", { class: "acts" },
      h("button", { type: "button", class: "quiet small", onclick: () => acts.reset(e.key), "aria-label": "Reset " + e.key }, "Reset"),
      view.session.bans && !e.key.startsWith("unresolved:") && h("button", { type: "button", class: "quiet small", onclick: () => acts.ban(e.key), "aria-label": "Ban " + e.key }, "Ban")) });
  }
  return table({ caption: `The ${nouns2} with the most ${view.sort} in the last ${spans[top.window]}`, columns, rows: entries, key: (e) => e.key, name: "talkers" });
}

const who = (top, e, acts) => (top.by === "client"
  ? h("button", { type: "button", class: "name mono", onclick: () => acts.client(e.key), "aria-label": `${e.key}: show more` }, e.key)
  : h("span", { class: "mono" }, e.key));

const found = (source) => h("span", { class: "under" }, source === "unresolved" ? tag(f.source(source), "stop") : f.source(source));

function course(e, top) {
  const last = e.spark.at(-1) ?? 0, high = Math.max(...e.spark, 0);
  return `${f.duration(top.step)} a step: now ${f.count(last)}, at most ${f.count(high)}`;
}
