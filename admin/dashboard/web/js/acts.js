// What an operator may do. Each change is asked about first, with room for the reason that the audit log keeps.
import { ask, clientPath } from "./api.js";
import { plain } from "./plain.js";
import { say } from "./parts.js";
import * as client from "./panels/client.js";

const byId = (id) => document.getElementById(id);

// acts returns what panels offer. page is {choose, again}: to ask otherwise, to ask again.
export function acts(view, page) {
  const self = {
    sort: (name) => page.choose("sort", name),
    many: (yes) => page.choose("many", yes),
    client: (key) => client.open(key, view, self),
    reset: (key) => sure({
      title: `Reset ${key}?`, text: "Its counters stand as if they had never been used: it may ask for its whole limit at once.", yes: "Reset",
      act: async ({ reason }) => {
        const r = await ask(clientPath(key) + "?reason=" + encodeURIComponent(reason), { method: "DELETE" });
        return `Reset ${key}: ${r.counters} ${r.counters === 1 ? "counter" : "counters"}.`;
      },
    }, () => page.again("talkers", "rules")),
    reload: (file) => sure({
      title: "Reload the configuration?", text: `All of ${file} takes effect at once or, if anything is wrong with it, nothing.`, yes: "Reload",
      act: async ({ reason }) => reloaded(await ask("reload", { method: "POST", body: { reason } })),
    }, () => page.again("config", "audit", "rules", "shadow")),
    ban: (key, done) => sure({
      title: `Ban ${key}?`, text: "Everything it asks for is answered 403 until the ban ends or is lifted.", yes: "Ban", harm: true, lasts: true,
      act: async ({ reason, lasts, force }) => {
        const b = await ask("bans", { method: "POST", body: { subject: key, for: lasts, reason, force } });
        done?.();
        return lasts === "" ? `Banned ${b.subject} until the ban is lifted.` : `Banned ${b.subject} for ${lasts}.`;
      },
    }, () => page.again("talkers", "bans")),
    unban: (key) => sure({
      title: `Lift the ban of ${key}?`, text: "It may ask again at once, within its limits.", yes: "Lift",
      act: async ({ reason }) => {
        const r = await ask(`bans/${encodeURIComponent(key)}?reason=${encodeURIComponent(reason)}`, { method: "DELETE" });
        return `The ban of ${key} is lifted${r.still_by === "" ? "." : `, and that of ${r.still_by} still holds for it.`}`;
      },
    }, () => page.again("bans")),
  };
  return self;
}

// reloaded says what a reload did.
function reloaded({ changed, needs_restart: waiting }) {
  const what = changed.length > 0 ? `Reloaded. Changed: ${changed.join(", ")}.` : "Reloaded. Nothing has changed.";
  return waiting.length > 0 ? `${what} At the next start: ${waiting.join(", ")}.` : what;
}

// sure asks before it acts. What goes wrong is said where it was asked for; what went right is said aloud.
function sure({ title, text, yes, harm, lasts, act }, after) {
  const dialog = byId("sure");
  byId("sure-title").textContent = plain(title);
  byId("sure-text").textContent = plain(text);
  byId("sure-yes").textContent = yes;
  byId("sure-yes").classList.toggle("harm", Boolean(harm));
  byId("sure-for-row").hidden = !lasts;
  byId("sure-fault").textContent = "";
  byId("sure-reason").value = "";
  byId("sure-force").checked = false;
  byId("sure-force-row").hidden = true;
  byId("sure-no").onclick = () => dialog.close();
  byId("sure-form").onsubmit = async (e) => {
    e.preventDefault();
    byId("sure-yes").disabled = true;
    try {
      const done = await act({ reason: byId("sure-reason").value, lasts: byId("sure-for").value, force: byId("sure-force").checked });
      for (const open of document.querySelectorAll("dialog[open]")) open.close();
      say(done);
      note(done);
      after();
    } catch (error) {
      byId("sure-fault").textContent = plain(error.message);
      byId("sure-force-row").hidden = error.code !== "protected"; // the operator may mean it
      after(); // that it was tried may be written down
    } finally {
      byId("sure-yes").disabled = false;
    }
  };
  dialog.showModal();
  byId("sure-reason").focus();
}

const NOTED = 6000; // ms

// note shows what was done, for those who look.
function note(text) {
  const at = byId("note");
  at.textContent = plain(text);
  at.hidden = false;
  clearTimeout(note.timer);
  note.timer = setTimeout(() => { at.hidden = true; }, NOTED);
}
