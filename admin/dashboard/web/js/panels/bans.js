// Who is banned, until when and why.
import { h } from "../dom.js";
import * as f from "../format.js";
import { empty, table } from "../parts.js";

export const path = () => "bans";

export function show(data, view, acts) {
  if (data.bans.length === 0) return empty("Nobody is banned", view.session.writes && "Ban a client from the list of top talkers.");
  return table({
    caption: "Bans in force", rows: data.bans, key: (b) => b.key,
    columns: [
      { head: "Who", main: true, wide: true, cell: (b) => h("span", { class: "mono" }, b.key) },
      { head: "Reason", wide: true, cell: (b) => b.reason || f.none },
      { head: "By", cell: (b) => b.by || f.none },
      { head: "Until", slim: true, cell: (b) => (b.until ? f.time(b.until) : "lifted") },
      ...(view.session.writes ? [{ head: "Actions", quiet: true, slim: true, cell: (b) => h("button", { type: "button", class: "quiet small", onclick: () => acts.unban(b.key), "aria-label": "Lift the ban of " + b.key }, "Lift") }] : []),
    ],
  });
}
