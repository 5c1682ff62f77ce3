// Who is banned, until when and why, and a place to ban somebody.
import { h } from "../dom.js";
import * as f from "../format.js";
import { empty, table } from "../parts.js";

export const path = () => "bans?limit=100";

export function show(data, view, acts) {
  return [
    view.session.writes && h("form", { class: "ban", key: "form", onsubmit: (e) => begin(e, acts), autocomplete: "off" },
      h("label", { for: "ban-who" }, "Address, network or key:ID"),
      h("input", { id: "ban-who", required: true, maxlength: 300, spellcheck: "false", autocapitalize: "off", placeholder: "203.0.113.7" }),
      h("button", { type: "submit", class: "quiet" }, "Ban…")),
    data.bans.length === 0 ? empty("Nobody is banned", view.session.writes && "Ban a client here or from the list of top talkers.") : rows(data, view, acts),
    data.total > data.bans.length && h("p", { class: "rows-note", key: "note" }, `The newest ${data.bans.length} of ${f.count(data.total)}. weir ban list shows more.`),
  ];
}

function begin(e, acts) {
  e.preventDefault();
  const who = e.currentTarget.querySelector("input");
  acts.ban(who.value.trim(), () => { who.value = ""; });
}

const rows = (data, view, acts) => table({
  caption: "Bans in force, the newest first", rows: data.bans, key: (b) => b.subject, name: "bans",
  columns: [
    { head: "Who", main: true, wide: true, cell: (b) => h("span", { class: "mono" }, b.subject) },
    { head: "Reason", wide: true, cell: (b) => b.reason || f.none },
    { head: "By", cell: (b) => b.author || f.none },
    { head: "Since", slim: true, cell: (b) => f.time(b.since) },
    { head: "Until", slim: true, cell: (b) => (b.until ? f.time(b.until) : "lifted") },
    ...(view.session.writes ? [{ head: "Actions", quiet: true, slim: true, cell: (b) => h("button", { type: "button", class: "quiet small", onclick: () => acts.unban(b.subject), "aria-label": "Lift the ban of " + b.subject }, "Lift") }] : []),
  ],
});
