// The configuration in force: since when, what waits for a restart, what was refused. It can be reloaded here.
import { h } from "../dom.js";
import * as f from "../format.js";
import { facts } from "../parts.js";

export const path = () => "status";

export function show(status, view, acts) {
  const c = status.config;
  return [
    c.refused && h("div", { key: "refused", class: "alarm" },
      h("p", null, `The reload of ${f.time(c.refused.time)} was refused. What was in force before still is.`),
      h("ul", { class: "mono" }, c.refused.errors.map((e) => h("li", { key: e }, e)))),
    facts(
      ["In force since", f.time(c.since)],
      ["Read from", c.file],
      ["Hash", status.config_hash.slice(0, 12)],
      c.needs_restart.length > 0 && ["At the next start", c.needs_restart.join(", ")]),
    view.session.writes && c.file !== "defaults" && h("p", { key: "act" }, h("button", { type: "button", class: "quiet", onclick: () => acts.reload(c.file) }, "Reload the configuration")),
  ];
}
