// The run, the list of pages, navigation and search; viewer_page.js shows one page.
// Page k has its text in #p<k> and its images in #i<k>, which are read only when it is shown.

const byId = (id) => document.getElementById(id);
const read = (id) => JSON.parse(byId(id).textContent);
const run = read("run");
const number = new Intl.NumberFormat("en");
const STATUSES = ["failed", "truncated", "repetitive", "doubted", "fallback", "ok", "blank"];
const HUES = {
  title: 215, text: 205, list: 190, table: 150, image: 28, figure: 28, chart: 28, formula: 285,
  image_caption: 45, figure_caption: 45, table_caption: 130, header: 330, footer: 330, page_number: 330,
  field: 318,
};
const FURNITURE = new Set(["header", "footer", "page_number"]);

let current = -1;
let wanted = new Set();          // statuses to show; empty means all
let visible = run.pages.map((_, k) => k);
let asMarkdown = false;
let texts = null;                // lower-case text of each page, built at the first search

function make(tag, attributes = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) {
    if (name === "class") element.className = value;
    else element.setAttribute(name, value);
  }
  element.append(...children);
  return element;
}

function paint(element, status) {
  element.style.setProperty("--status", STATUSES.includes(status) ? `var(--${status})` : "var(--quiet)");
  return element;
}

function hue(label) {
  if (Object.hasOwn(HUES, label)) return HUES[label];
  let sum = 0;
  for (const letter of label) sum = (sum * 31 + letter.codePointAt(0)) % 360;
  return sum;
}

// ---- the run and the list of pages

function showRun() {
  const { summary } = run;
  const name = summary.out || "Run";
  byId("run-name").textContent = name;
  document.title = `${name}: pages`;
  const facts = byId("facts");
  const add = (value, label) => facts.append(make("div", {}, make("dt", {}, label), make("dd", {}, value)));
  if (summary.documents != null) add(number.format(summary.documents), summary.documents === 1 ? "document" : "documents");
  add(number.format(run.total), run.total === 1 ? "page" : "pages");
  const doubts = Object.values(summary.doubts || {}).reduce((sum, count) => sum + count, 0);
  const byStatus = { ...summary.pages_by_status, doubted: doubts };
  if (doubts) byStatus.ok -= doubts;
  for (const [status, count] of Object.entries(byStatus)) {
    if (!count) continue;
    add(number.format(count), status);
    facts.lastChild.prepend(paint(make("span", { class: "dot" }), status));
  }
  if (summary.figures != null) add(number.format(summary.figures), summary.figures === 1 ? "figure" : "figures");
  const records = Object.values(summary.records?.by_status || {}).reduce((sum, count) => sum + count, 0);
  if (records) add(number.format(records), records === 1 ? "record" : "records");
  if (summary.pages_per_second != null) add(Number(summary.pages_per_second).toPrecision(3), "pages/s");
  if (summary.model) add(summary.model, "");
}

function showFilters() {
  const counts = new Map();
  for (const page of run.pages) counts.set(page.status, (counts.get(page.status) || 0) + 1);
  const known = STATUSES.filter((status) => counts.has(status));
  for (const status of [...known, ...[...counts.keys()].filter((s) => !STATUSES.includes(s))]) {
    const dot = paint(make("span", { class: "dot" }), status);
    const button = make("button", { type: "button", "aria-pressed": "false" }, dot,
      `${status} ${number.format(counts.get(status))}`);
    button.addEventListener("click", () => {
      if (!wanted.delete(status)) wanted.add(status);
      button.setAttribute("aria-pressed", String(wanted.has(status)));
      filter();
    });
    byId("filters").append(button);
  }
}

function textOf(k) {
  const page = read(`p${k}`);
  const figures = page.figures.flatMap((f) => [f.name, f.caption, ...f.descriptions.map((d) => d.html)]);
  const values = recordsOf(page).flatMap((record) => record.fields.map((field) => field.value));
  return [page.name, page.source_uri, page.markdown, page.error, ...figures, ...values].join("\n").toLowerCase();
}

function filter() {
  const query = byId("search").value.trim().toLowerCase();
  if (query && !texts) texts = run.pages.map((_, k) => textOf(k));
  visible = [];
  run.pages.forEach((page, k) => {
    const fits = (!wanted.size || wanted.has(page.status)) && (!query || texts[k].includes(query));
    if (fits) visible.push(k);
  });
  showList();
  if (visible.length && !visible.includes(current)) show(visible[0]);
  else { markFound(); showTurns(); }
}

function showList() {
  const groups = new Map();
  for (const k of visible) {
    const id = run.pages[k].doc_id;
    if (!groups.has(id)) groups.set(id, []);
    groups.get(id).push(k);
  }
  const list = byId("documents");
  list.replaceChildren();
  for (const places of groups.values()) {
    places.sort((a, b) => run.pages[a].page_number - run.pages[b].page_number);
    const { name } = run.pages[places[0]];
    const tiles = make("div", { class: "tiles" }, ...places.map(tile));
    const cut = name.lastIndexOf("/") + 1;
    const heading = make("h3", { title: name }, make("span", {}, name.slice(0, cut)), make("b", {}, name.slice(cut)));
    const group = make("div", { class: "document" }, heading, tiles);
    group.classList.toggle("single", places.length === 1);
    list.append(group);
  }
  const all = run.pages.length;
  const shown = all < run.total ? `${number.format(all)} of ${number.format(run.total)} pages shown` : `${number.format(all)} ${all === 1 ? "page" : "pages"}`;
  byId("count").textContent = visible.length === all ? shown : `${number.format(visible.length)} found, ${shown}`;
}

function tile(k) {
  const page = run.pages[k];
  const words = `Page ${page.page_number}, ${page.status}`;
  const button = make("button", { class: "tile", type: "button", title: words, "aria-label": words, id: `t${k}` },
    page.page_number ? String(page.page_number) : "–");
  if (k === current) button.setAttribute("aria-current", "page");
  button.addEventListener("click", () => { show(k); openList(false); });
  return paint(button, page.status);
}

// ---- navigation and search

function showTurns() {
  byId("previous").disabled = neighbor(-1) === undefined;
  byId("next").disabled = neighbor(1) === undefined;
}

function neighbor(step) {
  // The order is that of the list, in which pages are grouped by document.
  const order = [...document.querySelectorAll(".tile")].map((element) => Number(element.id.slice(1)));
  return order[order.indexOf(current) + step];
}

function turn(step) {
  const k = neighbor(step);
  if (k !== undefined) show(k);
}

function markFound() {
  if (!window.Highlight) return;
  CSS.highlights.delete("found");
  const query = byId("search").value.trim().toLowerCase();
  if (!query) return;
  const ranges = [];
  const walker = document.createTreeWalker(byId("text"), NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const words = walker.currentNode.data.toLowerCase();
    for (let at = words.indexOf(query); at >= 0; at = words.indexOf(query, at + query.length)) {
      const range = new Range();
      range.setStart(walker.currentNode, at);
      range.setEnd(walker.currentNode, Math.min(at + query.length, walker.currentNode.length));
      ranges.push(range);
    }
  }
  CSS.highlights.set("found", new Highlight(...ranges));
  ranges[0]?.startContainer.parentElement.scrollIntoView({ block: "nearest" });
}

function toggleBoxes() {
  const hidden = byId("sheet").classList.toggle("hide-boxes");
  byId("boxes").setAttribute("aria-pressed", String(!hidden));
}

function toggleSource() {
  asMarkdown = !asMarkdown;
  byId("source").setAttribute("aria-pressed", String(asMarkdown));
  show(current);
}

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey) return;
  if (event.target === byId("search")) {
    if (event.key === "Escape" || event.key === "Enter") event.target.blur();
    return;
  }
  const actions = {
    ArrowLeft: () => turn(-1), k: () => turn(-1), ArrowRight: () => turn(1), j: () => turn(1),
    "/": () => { openList(true); byId("search").select(); }, b: toggleBoxes, m: toggleSource,
  };
  if (!(event.key in actions)) return;
  event.preventDefault();
  actions[event.key]();
}

function openList(open) {
  byId("list").classList.toggle("open", open);
  byId("toggle-list").setAttribute("aria-expanded", String(open));
}

showRun();
showFilters();
showList();
byId("search").addEventListener("input", filter);
byId("previous").addEventListener("click", () => turn(-1));
byId("next").addEventListener("click", () => turn(1));
byId("boxes").addEventListener("click", toggleBoxes);
byId("source").addEventListener("click", toggleSource);
byId("toggle-list").addEventListener("click", () => openList(!byId("list").classList.contains("open")));
const panes = document.querySelector(".panes");
panes.addEventListener("mouseover", highlight);
panes.addEventListener("focusin", highlight);
panes.addEventListener("mouseleave", highlight);
panes.addEventListener("click", scrollToLinked);
document.addEventListener("keydown", onKey);
addEventListener("hashchange", () => show(Number(location.hash.slice(2))));
show(visible.includes(Number(location.hash.slice(2))) ? Number(location.hash.slice(2)) : visible[0]);
