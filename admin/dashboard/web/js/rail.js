// The rail: which section is read at this moment, and which ones are in sight.

// follow tells seen(section id, whether it is in sight), and marks the rail's entry of the first one.
export function follow(seen) {
  const sections = [...document.querySelectorAll("#main section")];
  const visible = new Set();
  const observer = new IntersectionObserver((entries) => {
    for (const e of entries) {
      if (e.isIntersecting) visible.add(e.target);
      else visible.delete(e.target);
      seen(e.target.id, e.isIntersecting);
    }
    mark(highest(sections.filter((s) => visible.has(s))));
  }, { rootMargin: "-80px 0px 0px 0px" });
  for (const s of sections) observer.observe(s);
}

// highest is the section that begins nearest to the top of what is seen; of two columns, the left one.
const highest = (sections) => sections.map((s) => ({ s, at: Math.max(s.getBoundingClientRect().top, 0) })).sort((a, b) => a.at - b.at)[0]?.s;

function mark(section) {
  for (const link of document.querySelectorAll(".rail a")) {
    if (section && link.hash === "#" + section.id) link.setAttribute("aria-current", "true");
    else link.removeAttribute("aria-current");
  }
}
