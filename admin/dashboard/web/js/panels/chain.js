// Whether the picture of the proxies holds.
import { h } from "../dom.js";
import * as f from "../format.js";
import { bar, empty, faults, table, tag } from "../parts.js";

export const path = () => "diagnosis";

export function show(d) {
  const all = d.entries.reduce((sum, n) => sum + n, 0);
  return [
    h("p", { key: "picture", class: "picture" }, h("span", { class: "soft" }, d.strategy ? `By ${d.strategy}: ` : "No proxy is configured: "), d.picture),
    findings(d.findings, all),
    all > 0 && [
      h("h3", { key: "shape-title" }, "Entries in the chain"), shape(d.entries, all),
      h("h3", { key: "found-title" }, "How clients were found"), sources(d.sources),
    ],
    d.traps.length > 0 && h("details", { key: "traps" }, h("summary", null, `Worth knowing of these proxies (${d.traps.length})`), h("ul", { class: "traps" }, d.traps.map((t, i) => h("li", { key: i }, t)))),
  ];
}

function findings(list, all) {
  if (list.length === 0 && all === 0) return empty("Nothing to judge by yet", "The picture is compared with what arrives once there are some 200 requests.");
  if (list.length === 0) return h("p", { key: "fine", class: "fine" }, tag("holds", "good"), " Nothing that arrives contradicts it.");
  return faults(list);
}

const named = (i, n) => (i === n - 1 ? `${i} or more` : String(i));

const shape = (entries, all) => h("ol", { key: "shape", class: "shape", "aria-label": "Requests by the number of entries in their chain" }, entries.map((n, i) => h("li", { key: i },
  h("span", { class: "up", "aria-hidden": "true", vars: { height: (100 * n / Math.max(...entries, 1)).toFixed(1) + "%" } }),
  h("span", { class: "much" }, n > 0 ? f.percent(n, all).replace(" ", "") : "0"),
  h("span", null, h("span", { class: "sr" }, "with "), i === entries.length - 1 ? `${i}+` : i, h("span", { class: "sr" }, ` (${named(i, entries.length)}) entries: ${n} requests`)))));

function sources(list) {
  const all = list.reduce((sum, s) => sum + s.n, 0);
  return table({
    caption: "Requests by how their client was found", rows: list.filter((s) => s.n > 0), key: (s) => s.name,
    columns: [
      { head: "Found", main: true, wide: true, cell: (s) => [h("span", { class: "mono" }, s.name), " ", h("span", { class: "soft" }, f.source(s.name))] },
      { head: "Requests", num: true, cell: (s) => f.count(s.n) },
      { head: "Share", cell: (s) => h("span", { class: "share" }, bar(s.n, all, s.name === "unresolved" ? "stop" : ""), h("span", null, f.percent(s.n, all))) },
    ],
  });
}
