// What the firewall blocked, what it would block at the next paranoia, and the narrowest ways not to.
import { h } from "../dom.js";
import * as f from "../format.js";
import { edit, empty, table, tag } from "../parts.js";

export const path = () => "blocked?limit=50";

// absent stands where there is no firewall.
export const absent = () => empty("Nothing is inspected", "This Weir has no web application firewall, or it is off. What is blocked by one stands here, with what matched and how to exclude it.");

// isWhole reports whether a client is written as it is counted: masked or hashed, it would be others, or nobody.
const isWhole = (client) => /^[0-9.]+\/32$|^[0-9a-f:]+\/(64|128)$/.test(client);

export function show(data, view, acts) {
  return [
    data.proposals.length > 0 && [h("h3", { key: "proposals-title" }, "If they were harmless"), h("div", { key: "proposals" }, proposals(data.proposals)), h("h3", { key: "blocked-list-title" }, "The last of them")],
    data.blocked.length > 0
      ? h("div", { key: "blocked" }, requests(data.blocked, "Blocked requests, the newest first", view, acts))
      : empty("Nothing has been blocked", "Every request that was inspected was harmless, as far as the rules can tell."),
    data.insights.length > 0 && [
      h("h3", { key: "insights-title" }, "Passed, and would not at paranoia 2"),
      h("p", { key: "insights-note", class: "note" }, "Of one request in 100, at most one a second. Nothing of this was blocked."),
      h("div", { key: "insights" }, requests(data.insights, "Requests that passed and that paranoia 2 would block, the newest first", view, acts)),
    ],
  ];
}

const requests = (rows, caption, view, acts) => table({
  caption, rows, key: (b) => b.incident,
  columns: [
    { head: "Time", slim: true, cell: (b) => [h("span", { class: "mono" }, f.time(b.time)), h("span", { class: "under mono" }, b.incident)] },
    { head: "Became", slim: true, cell: (b) => [became(b.verdict), b.released && h("span", { class: "under" }, "passes by the trial")] },
    { head: "Rule", cell: (b) => [h("span", { class: "mono" }, b.rule), h("span", { class: "under" }, b.class)] },
    { head: "Score", num: true, cell: (b) => b.score },
    { head: "Request", main: true, wide: true, cell: (b) => [h("span", { class: "mono" }, b.method, " ", b.path), h("span", { class: "under mono" }, b.client)] },
    { head: "Matched", wide: true, cell: (b) => [h("span", { class: "hit" }, b.fragment), h("span", { class: "under" }, "in ", h("span", { class: "mono" }, b.location), b.matches > 1 && `, and ${b.matches - 1} more`)] },
    ...(view.session.writes && view.session.bans && rows.some((b) => isWhole(b.client)) ? [{ head: "Actions", quiet: true, slim: true, cell: (b) => isWhole(b.client) &&
      h("button", { type: "button", class: "quiet small", onclick: () => acts.ban(b.client), "aria-label": `Ban ${b.client}: incident ${b.incident}` }, "Ban") }] : []),
    { head: "If it was harmless", wide: true, cell: (b) => (b.exclusion ? exclusion(b.exclusion, "incident " + b.incident) : h("span", { class: "soft" }, "no exclusion is proposed")) },
  ],
});

const verdicts = { block: ["blocked", "stop"], detect: ["reported", "trial"], insight: ["passed", "good"] };
const became = (verdict) => tag(...[f.word(verdicts, verdict)].flat());

const proposals = (rows) => table({
  caption: "Exclusions that would have let blocked requests pass", rows, key: (p) => p.exclusion,
  columns: [
    { head: "Rule", cell: (p) => p.excludes.map((e, i) => h("div", { class: "mono", key: i }, e.rule)) },
    { head: "Where", main: true, wide: true, cell: (p) => p.excludes.map((e, i) => h("div", { class: "mono", key: i }, where(e))) },
    { head: "Lets pass", num: true, cell: (p) => `${p.released} of ${p.matched}` },
    { head: "Clients", num: true, cell: (p) => p.clients },
    { head: "Now", slim: true, cell: (p) => (p.trial ? tag("on trial", "trial") : h("span", { class: "soft" }, "not tried")) },
    { head: "To do", wide: true, cell: (p) => (p.trial ? "To confirm it, take shadow: true away" : exclusion(p.exclusion, p.excludes.map((e) => `rule ${e.rule} on ${where(e)}`).join(" and "))) },
  ],
});

const where = (e) => e.path.replace(/^=/, "") + (e.parameter ? ` ${e.parameter}` : "");

const exclusion = (lines, what) => h("details", null,
  h("summary", { "aria-label": "Exclude this: " + what }, "Exclude this"), edit(lines, "exclusion of " + what));
