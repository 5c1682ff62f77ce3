// Limits on trial, beside what is enforced on the same rule.
import { h } from "../dom.js";
import * as f from "../format.js";
import { empty, table } from "../parts.js";

export const path = () => "shadow";

export function show(data, view) {
  if (data.limits.length === 0) {
    return empty("No limit is on trial", "Give a limit ", h("code", null, "mode: shadow"), " to see here whom it would refuse, before it does.");
  }
  return [h("ul", { class: "list", key: "limits" }, data.limits.map((l) => trial(l, view.rules))), hurt(data.clients)];
}

const trial = (l, rules) => h("li", { key: l.rule + "\n" + l.name },
  h("div", { class: "headline" }, h("strong", null, l.name), h("span", { class: "soft" }, l.rule ? `on rule ${l.rule}` : "on every request")),
  h("div", { class: "versus" },
    h("div", null, h("p", { class: "head" }, "In force"), enforced(l, rules)),
    h("div", null, h("p", { class: "head" }, `On trial: ${l.rate}`), h("b", null, f.count(l.recent)), "would be refused",
      h("span", { class: "under" }, l.clients.length === 0 ? "nobody is hurt" : `${l.clients.length}${l.clients.length >= 20 ? " or more" : ""} ${l.clients.length === 1 ? "client" : "clients"}, of the last 1000 requests`))));

function enforced(l, rules) {
  const rule = rules?.rules.find((r) => r.name === l.rule);
  const live = (rule?.limits ?? []).filter((e) => e.mode === "enforce" && (l.rule !== "" || e.global));
  if (live.length === 0) return [h("b", null, "0"), "no limit, nothing is refused"];
  const refused = live.reduce((sum, e) => sum + (e.headroom?.refused ?? 0), 0);
  return [h("b", null, f.count(refused)), "refused", h("span", { class: "under mono" }, live.map((e) => e.rate).join(", "))];
}

function hurt(clients) {
  if (clients.length === 0) return null;
  return [h("h3", { key: "hurt-title" }, "Whom they would hurt, last hour"), table({
    caption: "Clients that shadow limits would have refused within the last hour", rows: clients.slice(0, 8), key: (c) => c.key,
    columns: [
      { head: "Client", main: true, wide: true, cell: (c) => h("span", { class: "mono" }, c.key) },
      { head: "Requests", num: true, cell: (c) => f.count(c.requests) },
      { head: "Would be refused", num: true, cell: (c) => f.count(c.refused) },
    ],
  })];
}
