// What is shown is described by values and brought onto the page here, and only here. A string can become
// nothing but a text node or an attribute's value: no markup is ever read. What is on the page already is
// kept, so that focus, selection and scroll outlive an update.
import { plain } from "./plain.js";

const SVG = "http://www.w3.org/2000/svg";
const svgTags = new Set(["svg", "path", "line", "rect", "g"]);

// h describes an element. Children that are null, undefined or false are left out; arrays are flattened.
export function h(tag, props, ...children) {
  return { tag, props: props ?? {}, children: children.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false) };
}

// render makes the children of parent what is described, and changes nothing that is so already. Focus stays
// with its element, also where that has to move.
export function render(parent, ...described) {
  const focused = document.activeElement;
  fill(parent, described);
  if (focused !== document.activeElement && focused?.isConnected) focused.focus({ preventScroll: true });
}

function fill(parent, described) {
  const wanted = described.flat(Infinity).filter((c) => c !== null && c !== undefined && c !== false);
  const keyed = new Map();
  for (const node of parent.childNodes) if (node.weirKey !== undefined) keyed.set(node.weirKey, node);
  wanted.forEach((want, i) => {
    const here = parent.childNodes[i];
    const old = (want.props?.key !== undefined ? keyed.get(want.props.key) : undefined) ?? here;
    const node = fits(old, want) ? old : make(want);
    if (node !== here) put(parent, node, here ?? null);
    update(node, want);
  });
  while (parent.childNodes.length > wanted.length) parent.lastChild.remove();
}

// put moves without a blur where the browser can.
function put(parent, node, before) {
  if (parent.moveBefore && node.parentNode === parent) parent.moveBefore(node, before);
  else parent.insertBefore(node, before);
}

function fits(node, want) {
  if (!node) return false;
  if (typeof want !== "object") return node.nodeType === Node.TEXT_NODE;
  return node.nodeType === Node.ELEMENT_NODE && node.localName === want.tag && node.weirKey === want.props.key;
}

function make(want) {
  if (typeof want !== "object") return document.createTextNode(plain(want));
  const node = svgTags.has(want.tag) ? document.createElementNS(SVG, want.tag) : document.createElement(want.tag);
  node.weirKey = want.props.key;
  return node;
}

function update(node, want) {
  if (typeof want !== "object") {
    const text = plain(want);
    if (node.data !== text) node.data = text;
    return;
  }
  const before = node.weirProps ?? {};
  for (const name of Object.keys(before)) if (!(name in want.props)) set(node, name, null);
  for (const [name, value] of Object.entries(want.props)) if (before[name] !== value) set(node, name, value);
  node.weirProps = want.props;
  fill(node, want.children);
}

function set(node, name, value) {
  if (name === "key") return;
  if (name.startsWith("on")) node[name] = value; // a function, never text
  else if (name === "vars") for (const [k, v] of Object.entries(value ?? {})) node.style.setProperty(k, v);
  else if (name === "href" && !String(value).startsWith("#")) node.removeAttribute("href"); // nothing shown leads out
  else if (value === null || value === undefined || value === false) node.removeAttribute(name);
  else node.setAttribute(name, value === true ? "" : plain(value));
}
