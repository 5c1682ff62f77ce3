// The rules in force, each limit with how near its busiest client is to it.
import { h, render } from "../dom.js";
import * as f from "../format.js";
import { empty, gauge, tag } from "../parts.js";

export const path = () => "rules";

export function show(data) {
  const counted = data.rules.filter((r) => !r.exempt).length;
  render(document.getElementById("rules-aside"), `${data.rules.length} in force, ${counted} counted`);
  if (data.rules.length === 0) return empty("No rules", "Everything passes uncounted. Top talkers still shows who asks.");
  return h("ul", { class: "list" }, data.rules.map(rule));
}

const rule = (r) => h("li", { key: r.name },
  h("div", { class: "headline" },
    h("strong", null, r.name), h("span", { class: "mono soft" }, where(r)), modes(r),
    h("span", { class: "end" }, f.count(r.requests), h("span", { class: "sr" }, " requests"), r.refused > 0 && h("span", { class: "part" }, `${f.count(r.refused)} refused`))),
  r.exempt ? h("p", { class: "note" }, "Exempt: passes uncounted.") : r.limits.map(limit),
  !r.exempt && r.limits.length === 0 && h("p", { class: "note" }, "No limits: only watched."));

const where = (r) => [r.method !== "*" && r.method, (r.host !== "*" ? r.host : "") + r.path].filter(Boolean).join(" ");

const modes = (r) => [
  r.mode === "shadow" && tag("shadow", "trial"), r.mode === "off" && tag("off"),
  r.action !== "reject" && !r.exempt && tag(r.action, "water"),
];

function limit(l) {
  const room = l.headroom, used = room ? l.limit - room.remaining : 0;
  const onTrial = l.mode === "enforce" ? undefined : "trial";
  return h("div", { class: "limit", key: l.name },
    h("span", null, h("span", { class: "mono" }, l.rate), ` per ${l.per.length > 0 ? l.per.join(" + ") : "all together"}`,
      l.global && h("span", { class: "soft" }, ", every request"), l.mode !== "enforce" && [" ", tag(l.mode, "trial")]),
    h("span", { class: "left" }, room ? `${f.count(room.remaining)} of ${f.count(l.limit)} left` : "at rest"),
    gauge(used, l.limit, onTrial),
    room && h("span", { class: "note under left" }, h("span", { class: "sr" }, "busiest: "), room.client || "all"));
}
