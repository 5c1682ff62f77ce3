// What the firewall blocked, and the narrowest way not to.
import { h } from "../dom.js";
import * as f from "../format.js";
import { edit, empty, table, tag } from "../parts.js";

export const path = () => "blocked?limit=50";

// absent stands where there is no firewall.
export const absent = () => empty("Nothing is inspected", "This Weir has no web application firewall, or it is off. What is blocked by one stands here, with what matched and how to exclude it.");

export function show(data) {
  if (data.blocked.length === 0) return empty("Nothing has been blocked", "Every request that was inspected was harmless, as far as the rules can tell.");
  return table({
    caption: "Blocked requests, the newest first", rows: data.blocked, key: (b) => b.incident,
    columns: [
      { head: "Time", slim: true, cell: (b) => [h("span", { class: "mono" }, f.time(b.time)), h("span", { class: "under mono" }, b.incident)] },
      { head: "Rule", cell: (b) => [h("span", { class: "mono" }, b.rule), h("span", { class: "under" }, b.class)] },
      { head: "Score", num: true, cell: (b) => b.score },
      { head: "Request", main: true, wide: true, cell: (b) => [h("span", { class: "mono" }, b.path), h("span", { class: "under mono" }, b.client)] },
      { head: "Matched", wide: true, cell: (b) => [h("span", { class: "hit" }, b.fragment), h("span", { class: "under" }, "in ", h("span", { class: "mono" }, b.location))] },
      { head: "If it was harmless", wide: true, cell: (b) => (b.exclusion ? exclusion(b) : h("span", { class: "soft" }, "no exclusion is proposed")) },
    ],
  });
}

const exclusion = (b) => h("details", null,
  h("summary", { "aria-label": "Exclude this: incident " + b.incident }, "Exclude this"), edit(b.exclusion, "exclusion of incident " + b.incident));
